//! M13 to M20: transactions, expiry, stale locks, fencing, long work.

use crate::client::{Ask, key};
use crate::proof::{Found, ensure, proven, quiet, same};
use samekey_mock::clock::parse_http_date;
use samekey_mock::settings::{AfterExpiry, Stale};
use samekey_mock::{Builder, Event, Fault, Mock, Naughty};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const LOCK: Duration = Duration::from_secs(30);

async fn start(builder: Builder) -> Result<Mock, String> {
    builder.start().await.map_err(|e| e.to_string())
}

#[tokio::test]
async fn m13_effect_outbox_row_and_answer_stand_or_fall_together() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder.fault(Fault::WorkerCrash.times(1))).await?;
        let ask = Ask::order(mock.address(), &key(1))
            .path("/payments")
            .json(r#"{"amount":7}"#);
        same(ask.try_send().await, None, "crash")?;
        let ledger = mock.ledger();
        same(ledger.effects().len(), 0, "effects after the crash")?;
        same(ledger.outbox().len(), 0, "messages after the crash")?;
        mock.advance(DAY);
        mock.sweep().await.map_err(|e| e.to_string())?;
        same(ask.send().await.status, 201, "retry")?;
        let ledger = mock.ledger();
        same(
            (ledger.effects().len(), ledger.outbox().len()),
            (1, 1),
            "rows",
        )
    };
    proven(check, &[Naughty::EffectWithoutAnswer]).await;
}

#[tokio::test]
async fn m14_a_retry_at_the_edge_of_the_window_still_replays() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        ask.send().await;
        mock.advance(DAY + Duration::from_secs(60));
        mock.reap().await.map_err(|e| e.to_string())?;
        ensure(ask.send().await.replayed(), "forgotten at the edge")
    };
    proven(check, &[Naughty::TtlTooShort, Naughty::CleanupRacesRetry]).await;
}

#[tokio::test]
async fn m14_work_in_flight_outlives_the_window() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        mock.hold();
        let first = tokio::spawn({
            let ask = ask.clone();
            async move { ask.send().await }
        });
        mock.wait_for(|l| l.count(Event::Held) == 1).await;
        mock.advance(DAY + Duration::from_secs(1));
        mock.reap().await.map_err(|e| e.to_string())?;
        mock.pass();
        let second = ask.send().await;
        mock.release();
        first.await.map_err(|e| e.to_string())?;
        same(second.status, 409, "the second while the first still works")
    };
    proven(check, &[Naughty::CleanupRacesRetry]).await;
}

#[tokio::test]
async fn m15_an_expired_key_runs_or_is_refused_by_the_knob() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        ask.send().await;
        mock.advance(DAY * 2);
        for status in [422, 412] {
            mock.settings(|s| s.after_expiry = AfterExpiry::Refuse(status));
            same(ask.send().await.status, status, "refused")?;
        }
        mock.settings(|s| s.after_expiry = AfterExpiry::Run);
        ensure(!ask.send().await.replayed(), "still remembered")?;
        same(mock.ledger().reruns().len(), 1, "reruns")
    };
    proven(check, &[Naughty::NeverExpires]).await;
}

#[tokio::test]
async fn m16_every_keyed_answer_says_when_the_key_ends() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        let held = Ask::order(mock.address(), &key(2)).fault("worker-crash");
        held.try_send().await;
        let busy = Ask::order(mock.address(), &key(2));
        let replies = [
            ask.send().await,
            ask.send().await,
            ask.clone().json("{}").send().await,
            busy.send().await,
        ];
        let statuses: Vec<u16> = replies.iter().map(|r| r.status).collect();
        same(statuses, vec![201, 201, 422, 409], "statuses")?;
        for reply in replies {
            let end = reply
                .header("idempotency-key-expires")
                .and_then(parse_http_date);
            let left = end.ok_or("no end is named")? - mock.now();
            ensure(
                (86_390_000..=86_400_000).contains(&left),
                format!("ends in {left} ms"),
            )?;
        }
        Ok(())
    };
    proven(check, &[Naughty::NoExpiryHeader]).await;
}

#[tokio::test]
async fn m17_reaping_goes_in_batches() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder.settings(|s| s.reap_batch = 4)).await?;
        for n in 0..10 {
            Ask::order(mock.address(), &key(n)).send().await;
        }
        mock.advance(DAY * 2);
        let batches = mock.reap().await.map_err(|e| e.to_string())?;
        same(batches, vec![4, 4, 2], "batches")
    };
    proven(check, &[Naughty::OneBigDelete]).await;
}

#[tokio::test]
async fn m18_reconcile_frees_what_did_nothing_and_keeps_what_acted_for_a_person() {
    let mock = start(quiet().stale(LOCK, Stale::Reconcile)).await.unwrap();
    let harmless = Ask::order(mock.address(), &key(1));
    harmless.clone().fault("worker-crash").try_send().await;
    mock.naughty(Naughty::EffectWithoutAnswer, true);
    let acted = Ask::order(mock.address(), &key(2));
    acted.clone().fault("worker-crash").try_send().await;
    mock.naughty(Naughty::EffectWithoutAnswer, false);
    mock.advance(LOCK);
    let swept = mock.sweep().await.unwrap();
    assert_eq!((swept.freed, swept.review), (1, 1));
    assert_eq!(harmless.send().await.status, 201);
    let asked = acted.send().await;
    assert_eq!(asked.status, 409);
    assert!(
        asked.json()["type"].as_str().unwrap().ends_with("review"),
        "no blind replay"
    );
    assert_eq!(mock.ledger().effects_of(&key(2)), 1);
    assert!(mock.alerts().iter().any(|a| a.name == "keys-in-review"));
    let freed = Ask::new(mock.address(), "POST", "/_mock/review").json(&format!(
        r#"{{"tenant":"acme","operation":"POST /orders","key":"{}"}}"#,
        key(2)
    ));
    assert_eq!(freed.send().await.status, 200);
    assert_eq!(acted.send().await.status, 201, "a person said so");
}

#[tokio::test]
async fn m19_a_worker_that_lost_its_lock_cannot_complete() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder.stale(LOCK, Stale::Reclaim)).await?;
        let ask = Ask::order(mock.address(), &key(1));
        mock.hold();
        let paused = tokio::spawn({
            let ask = ask.clone();
            async move { ask.send().await }
        });
        mock.wait_for(|l| l.count(Event::Held) == 1).await;
        mock.advance(LOCK);
        mock.pass();
        let second = ask.send().await;
        same(
            (second.status, second.replayed()),
            (201, false),
            "the one who took over",
        )?;
        mock.release();
        let paused = paused.await.map_err(|e| e.to_string())?;
        same(mock.ledger().effects_of(&key(1)), 1, "effects")?;
        same(
            paused.body,
            second.body.clone(),
            "the paused worker's answer",
        )?;
        same(ask.send().await.body, second.body, "the stored answer")
    };
    proven(check, &[Naughty::NoFencing]).await;
}

#[tokio::test]
async fn m20_long_work_gives_one_token_and_ends_in_its_result() {
    let check = async |builder: Builder| -> Found {
        let hour = Duration::from_secs(3600);
        let mock = start(builder.settings(|s| s.export_time = hour)).await?;
        let ask = Ask::new(mock.address(), "POST", "/exports")
            .key(&key(1))
            .json("{}");
        let (first, again) = (ask.send().await, ask.send().await);
        same(first.status, 202, "status")?;
        ensure(first.header("retry-after").is_some(), "no Retry-After")?;
        same(&first.json()["token"], &again.json()["token"], "token")?;
        let place = first.header("location").ok_or("no Location")?.to_owned();
        let poll = Ask::get(mock.address(), &place);
        let running = poll.send().await;
        same(
            (running.status, running.header("retry-after").is_some()),
            (202, true),
            "poll",
        )?;
        mock.advance(hour);
        let done = poll.send().await;
        same(done.status, 200, "the end")?;
        same(done.json()["status"].as_str(), Some("done"), "the result")?;
        same(mock.ledger().effects_of(&key(1)), 1, "jobs")
    };
    proven(check, &[Naughty::NewJobEachTime]).await;
}
