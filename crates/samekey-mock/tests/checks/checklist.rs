//! The verification checklist, line by line. Every line is run against an honest mock, where it must
//! hold, and once with each switch that breaks it, where it must not.

use crate::client::{Ask, Reply, key};
use crate::proof::{Found, ensure, proven, same};
use samekey_mock::settings::Stale;
use samekey_mock::{Builder, Check, Event, Fault, Mock};
use std::time::Duration;

const CROWD: usize = 64;
const DAY: Duration = Duration::from_secs(86_400);

async fn crowd(asks: impl Iterator<Item = Ask>) -> Vec<Reply> {
    let tasks: Vec<_> = asks
        .map(|ask| tokio::spawn(async move { ask.send().await }))
        .collect();
    let mut replies = Vec::new();
    for task in tasks {
        replies.push(task.await.expect("no panic"));
    }
    replies
}

/// Everyone who was told to come back does so; then all must hold the same answer.
async fn all_alike(ask: &Ask, replies: Vec<Reply>) -> Found {
    let mut bodies = Vec::new();
    for mut reply in replies {
        if reply.status == 409 {
            reply = ask.send().await;
        }
        same(reply.status, 201, "status")?;
        bodies.push(reply.body);
    }
    bodies.sort();
    bodies.dedup();
    same(bodies.len(), 1, "different answers")
}

async fn duplicates(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    mock.hold();
    let sent = tokio::spawn(crowd(std::iter::repeat_n(ask.clone(), CROWD)));
    mock.wait_for(|l| l.count(Event::Held) + l.count(Event::Answered) == CROWD)
        .await;
    mock.release();
    all_alike(&ask, sent.await.map_err(|e| e.to_string())?).await?;
    same(mock.ledger().effects_of(&key(1)), 1, "effects when held")?;
    // And once more at full speed.
    let ask = Ask::order(mock.address(), &key(2));
    let replies = crowd(std::iter::repeat_n(ask.clone(), CROWD)).await;
    all_alike(&ask, replies).await?;
    same(mock.ledger().effects_of(&key(2)), 1, "effects at speed")
}

async fn two_nodes(builder: Builder) -> Found {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let builder = builder.file(folder.path().join("shop.db"));
    let one = builder.clone().start().await.map_err(|e| e.to_string())?;
    let two = builder.start().await.map_err(|e| e.to_string())?;
    let asks = [one.address(), two.address()].map(|at| Ask::order(at, &key(1)));
    let replies = crowd(asks.iter().cycle().take(CROWD).cloned()).await;
    all_alike(&asks[0], replies).await?;
    same(one.ledger().effects_of(&key(1)), 1, "effects")
}

async fn mismatch(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    let first = ask.send().await;
    let other = ask
        .clone()
        .json(r#"{"item":"tea","quantity":20}"#)
        .send()
        .await;
    same(other.status, 422, "status of another body")?;
    same(ask.send().await.body, first.body, "the first answer")?;
    same(mock.ledger().effects_of(&key(1)), 1, "effects")
}

async fn tenants(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    for tenant in ["acme", "globex"] {
        let reply = Ask::order(mock.address(), &key(1))
            .tenant(tenant)
            .send()
            .await;
        same((reply.status, reply.replayed()), (201, false), tenant)?;
        same(
            mock.ledger().effects_of_tenant(tenant, &key(1)),
            1,
            "effects",
        )?;
    }
    Ok(())
}

async fn other_credential(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1)).json(r#"{"item":"tea","tenant":"acme"}"#);
    ask.send().await;
    let stolen = ask.tenant("mallory").send().await;
    ensure(!stolen.replayed(), "a stranger was given the stored answer")?;
    same(
        mock.ledger().effects_of_tenant("mallory", &key(1)),
        1,
        "own effects",
    )?;
    let path = format!("/keys/{}", key(1));
    let look = Ask::get(mock.address(), &path).tenant("eve").send().await;
    same(look.status, 404, "look-up by a stranger")
}

async fn in_flight(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    mock.hold();
    let first = tokio::spawn({
        let ask = ask.clone();
        async move { ask.send().await }
    });
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    let second = ask.send().await;
    mock.release();
    same(second.status, 409, "status in flight")?;
    let hint = second
        .header("retry-after")
        .and_then(|v| v.parse::<u64>().ok());
    ensure(hint.is_some(), "409 without Retry-After")?;
    same(
        first.await.map_err(|e| e.to_string())?.status,
        201,
        "the first",
    )
}

async fn key_required(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    for path in ["/orders", "/payments", "/refunds", "/exports"] {
        let ask = Ask::order(mock.address(), "x")
            .path(path)
            .without("idempotency-key");
        let reply = ask.send().await;
        same(reply.status, 400, path)?;
        ensure(
            reply
                .header("link")
                .is_some_and(|l| l.contains("describedby")),
            "no Link",
        )?;
    }
    same(mock.ledger().effects().len(), 0, "effects")
}

async fn every_route(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let steps = [
        ("POST", "/orders", r#"{"item":"tea"}"#),
        (
            "POST",
            "/payments",
            r#"{"order":"ord_000001","amount":500}"#,
        ),
        (
            "POST",
            "/refunds",
            r#"{"payment":"pay_000002","amount":500}"#,
        ),
        ("POST", "/exports", "{}"),
        ("PATCH", "/orders/ord_000001", r#"{"note":"fragile"}"#),
        ("PUT", "/orders/ord_000001", "{}"),
        ("DELETE", "/orders/ord_000001", ""),
    ];
    for (n, (method, path, body)) in (1..).zip(steps) {
        let ask = Ask::new(mock.address(), method, path)
            .key(&key(n))
            .json(body);
        let (first, again) = (ask.send().await, ask.send().await);
        ensure(
            first.status < 300,
            format!("{method} {path} answered {}", first.status),
        )?;
        same(&first.body, &again.body, path)?;
        ensure(again.replayed(), format!("{method} {path} ran twice"))?;
        same(mock.ledger().effects_of(&key(n)), 1, path)?;
    }
    ensure(
        mock.audit().iter().all(|c| c.covered),
        "the audit lists uncovered routes",
    )
}

async fn fails_closed(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    mock.store_down(true);
    let refused = ask.send().await;
    same(refused.status, 503, "status without a store")?;
    ensure(
        refused.header("retry-after").is_some(),
        "503 without Retry-After",
    )?;
    same(mock.ledger().effects().len(), 0, "effects without a store")?;
    mock.store_down(false);
    same(ask.send().await.status, 201, "status with the store back")
}

async fn server_error(builder: Builder) -> Found {
    let builder = builder.fault(Fault::HandlerError.times(1));
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    same(ask.send().await.status, 500, "first")?;
    let again = ask.send().await;
    same((again.status, again.replayed()), (201, false), "retry")?;
    same(mock.ledger().effects_of(&key(1)), 1, "effects")
}

async fn crash_after_effect(builder: Builder) -> Found {
    let lock = Duration::from_secs(30);
    let builder = builder
        .stale(lock, Stale::Reclaim)
        .fault(Fault::WorkerCrash.times(1));
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    same(ask.try_send().await, None, "the crashed request")?;
    same(ask.send().await.status, 409, "while the lock is fresh")?;
    mock.advance(lock);
    same(ask.send().await.status, 201, "after the lock is stale")?;
    same(mock.ledger().effects_of(&key(1)), 1, "effects")
}

async fn after_expiry(builder: Builder) -> Found {
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    mock.advance(DAY * 2);
    mock.reap().await.map_err(|e| e.to_string())?;
    let late = ask.send().await;
    same((late.status, late.replayed()), (201, false), "a late retry")?;
    let ledger = mock.ledger();
    same(ledger.reruns().len(), 1, "reruns in the ledger")?;
    ensure(
        mock.alerts()
            .iter()
            .any(|a| a.name == "reruns-after-expiry"),
        "no alert",
    )
}

async fn reaper(builder: Builder) -> Found {
    let builder = builder.settings(|s| s.reap_batch = 25);
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let at = mock.address();
    crowd((0..200).map(|n| Ask::order(at, &key(n)))).await;
    mock.advance(DAY * 2);
    let traffic = tokio::spawn(crowd((1000..1064).map(move |n| Ask::order(at, &key(n)))));
    let batches = mock.reap().await.map_err(|e| e.to_string())?;
    let served = traffic.await.map_err(|e| e.to_string())?;
    ensure(served.iter().all(|r| r.status == 201), "traffic suffered")?;
    same(batches.iter().sum::<usize>(), 200, "reaped")?;
    ensure(
        batches.iter().all(|b| *b <= 25),
        format!("batches were {batches:?}"),
    )
}

async fn sweeper(builder: Builder) -> Found {
    let builder = builder.fault(Fault::WorkerCrash.times(1));
    let mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    same(ask.try_send().await, None, "the crashed request")?;
    same(ask.send().await.status, 409, "stuck")?;
    mock.advance(Duration::from_secs(3600));
    ensure(
        mock.alerts().iter().any(|a| a.name == "stale-locks"),
        "no alert for the stuck key",
    )?;
    mock.sweep().await.map_err(|e| e.to_string())?;
    same(ask.send().await.status, 201, "after the sweep")?;
    same(mock.ledger().effects_of(&key(1)), 1, "effects")
}

async fn replayed_after(builder: Builder, time: Duration) -> Found {
    let mock: Mock = builder.start().await.map_err(|e| e.to_string())?;
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    mock.advance(time);
    mock.reap().await.map_err(|e| e.to_string())?;
    ensure(ask.send().await.replayed(), "the retry ran again")?;
    same(
        mock.ledger().duplicates().len(),
        0,
        "duplicates in the ledger",
    )
}

async fn check(line: Check, builder: Builder) -> Found {
    match line {
        Check::OneEffectForDuplicates | Check::BugCheckThenInsert => duplicates(builder).await,
        Check::OneEffectFromTwoNodes => two_nodes(builder).await,
        Check::MismatchIsRefused | Check::BugNoBodyCheck => mismatch(builder).await,
        Check::TenantsAreApart => tenants(builder).await,
        Check::OtherCredentialSeesNothing => other_credential(builder).await,
        Check::InFlightSaysWhenToReturn => in_flight(builder).await,
        Check::KeyIsRequired => key_required(builder).await,
        Check::EveryRouteIsCovered => every_route(builder).await,
        Check::FailsClosed => fails_closed(builder).await,
        Check::ServerErrorIsNotReplayed => server_error(builder).await,
        Check::CrashAfterEffect | Check::BugEffectWithoutAnswer => {
            crash_after_effect(builder).await
        }
        Check::RetryAfterExpiryIsVisible => after_expiry(builder).await,
        Check::ReaperLeavesRoom => reaper(builder).await,
        Check::SweeperFreesStuckKeys => sweeper(builder).await,
        Check::BugTtlTooShort => replayed_after(builder, DAY / 2).await,
        Check::BugCleanupRacesRetry => replayed_after(builder, DAY + Duration::from_secs(1)).await,
    }
}

macro_rules! lines {
    ($($test:ident $line:ident,)*) => {
        $(#[tokio::test]
        async fn $test() {
            let line = Check::$line;
            proven(async |builder| check(line, builder).await, line.broken_by()).await;
        })*

        #[test]
        fn every_line_of_the_checklist_has_a_test_and_a_switch() {
            let tested = [$(Check::$line,)*];
            assert_eq!(tested, Check::ALL);
            assert!(Check::ALL.iter().all(|line| !line.broken_by().is_empty()));
        }
    };
}

lines! {
    m05_m29_64_duplicates_have_one_effect_and_one_answer OneEffectForDuplicates,
    m05_two_nodes_on_one_file_have_one_effect OneEffectFromTwoNodes,
    m08_another_body_is_422 MismatchIsRefused,
    m04_two_tenants_are_apart TenantsAreApart,
    m04_another_credential_sees_nothing OtherCredentialSeesNothing,
    m09_in_flight_answers_409_with_retry_after InFlightSaysWhenToReturn,
    m01_without_a_key_400 KeyIsRequired,
    m27_every_step_of_the_flow_is_covered EveryRouteIsCovered,
    m21_without_its_store_the_server_fails_closed FailsClosed,
    m12_a_500_is_not_replayed ServerErrorIsNotReplayed,
    m13_a_worker_that_dies_after_the_effect_leaves_one_effect CrashAfterEffect,
    m15_a_retry_after_the_published_time_is_visible RetryAfterExpiryIsVisible,
    m17_the_reaper_does_not_block_traffic ReaperLeavesRoom,
    m18_the_sweeper_frees_stuck_keys SweeperFreesStuckKeys,
    m08_classic_bug_no_body_check BugNoBodyCheck,
    m05_classic_bug_check_then_insert BugCheckThenInsert,
    m13_classic_bug_effect_without_stored_answer BugEffectWithoutAnswer,
    m14_classic_bug_forgets_too_early BugTtlTooShort,
    m14_classic_bug_cleanup_races_the_retry BugCleanupRacesRetry,
}
