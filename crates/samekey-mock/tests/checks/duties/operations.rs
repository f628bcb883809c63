//! M21 to M32: the store, the outbox, limits, audit, metrics, CORS, support.

use crate::client::{Ask, key};
use crate::proof::{Found, ensure, proven, quiet, same};
use samekey_mock::clock::http_date;
use samekey_mock::settings::Limit;
use samekey_mock::store::Delivery;
use samekey_mock::{Builder, Event, Fault, Mock, Naughty, reference};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

async fn start(builder: Builder) -> Result<Mock, String> {
    builder.start().await.map_err(|e| e.to_string())
}

fn payment(mock: &Mock, n: u32) -> Ask {
    Ask::order(mock.address(), &key(n))
        .path("/payments")
        .json(r#"{"amount":700}"#)
}

/// Lets the outbox work until nothing is pending.
async fn settled(mock: &Mock) -> Found {
    for _ in 0..20 {
        mock.advance(Duration::from_secs(3600));
        mock.drain_outbox().await.map_err(|e| e.to_string())?;
        let pending = |m: &samekey_mock::store::Message| m.delivery == Delivery::Pending;
        if !mock.ledger().outbox().iter().any(pending) {
            return Ok(());
        }
    }
    Err("the outbox never empties".into())
}

#[tokio::test]
async fn m21_fail_open_shows_the_duplicate() {
    let mock = start(quiet().naughty(Naughty::FailOpen)).await.unwrap();
    mock.store_down(true);
    let ask = Ask::order(mock.address(), &key(1));
    assert_eq!(
        (ask.send().await.status, ask.send().await.status),
        (201, 201)
    );
    assert_eq!(mock.ledger().effects_of(&key(1)), 2);
    assert_eq!(mock.ledger().duplicates().len(), 1);
}

#[tokio::test]
async fn m22_the_same_key_goes_downstream_on_every_try() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder.fault(Fault::DownstreamDown.times(1))).await?;
        payment(&mock, 1).send().await;
        settled(&mock).await?;
        let ledger = mock.ledger();
        ensure(
            ledger.outbox()[0].tries > 1,
            "the processor's answer was not lost",
        )?;
        same(ledger.charges().len(), 1, "charges")?;
        same(
            ledger.charges()[0].key.as_str(),
            key(1).as_str(),
            "key downstream",
        )?;
        ensure(ledger.outbox()[0].provider_id.is_some(), "no provider id")?;
        ensure(mock.reconciliation().is_clean(), "the books differ")
    };
    proven(check, &[Naughty::FreshDownstreamKey]).await;
}

#[tokio::test]
async fn m22_a_message_that_never_gets_through_is_a_dead_letter() {
    let mock = start(quiet().settings(|s| s.outbox_tries = 1))
        .await
        .unwrap();
    payment(&mock, 1).fault("downstream-down").send().await;
    settled(&mock).await.unwrap();
    let ledger = mock.ledger();
    assert_eq!(ledger.outbox()[0].delivery, Delivery::Dead);
    assert_eq!(mock.reconciliation().dead_letters, [1]);
    assert_eq!(mock.reconciliation().missing, [1]);
    assert!(mock.alerts().iter().any(|a| a.name == "dead-letters"));
}

#[tokio::test]
async fn m23_the_report_lists_orphans_and_duplicates() {
    let mock = start(quiet().naughty(Naughty::FreshDownstreamKey))
        .await
        .unwrap();
    payment(&mock, 1).send().await;
    settled(&mock).await.unwrap();
    assert_eq!(mock.reconciliation().orphans.len(), 1);
    mock.naughty(Naughty::FreshDownstreamKey, false);
    payment(&mock, 2).fault("early-eviction").send().await;
    payment(&mock, 2).send().await;
    settled(&mock).await.unwrap();
    assert_eq!(mock.reconciliation().duplicate_effects.len(), 1);
    let report = Ask::get(mock.address(), "/_mock/reconciliation")
        .send()
        .await
        .json();
    assert_eq!(report["clean"], false);
    assert_eq!(report["report"]["orphans"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn m24_new_keys_are_limited_and_known_keys_are_not() {
    let check = async |builder: Builder| -> Found {
        let limit = Limit {
            quota: 2,
            window: MINUTE,
        };
        let mock = start(builder.settings(|s| s.rate_limit = Some(limit))).await?;
        let order = |n| Ask::order(mock.address(), &key(n));
        for n in [1, 1, 1, 2] {
            same(order(n).send().await.status, 201, "within the quota")?;
        }
        let refused = order(3).send().await;
        same(refused.status, 429, "over the quota")?;
        ensure(refused.header("retry-after").is_some(), "no Retry-After")?;
        let field = refused.header("ratelimit").unwrap_or("").to_owned();
        ensure(
            field.starts_with("\"keys\";r=0;t="),
            format!("RateLimit: {field}"),
        )?;
        same(
            refused.header("ratelimit-policy"),
            Some("\"keys\";q=2;w=60"),
            "policy",
        )?;
        ensure(order(1).send().await.replayed(), "a known key was refused")?;
        same(
            order(4).tenant("globex").send().await.status,
            201,
            "another tenant",
        )?;
        same(mock.ledger().effects_of(&key(3)), 0, "effects")
    };
    proven(check, &[Naughty::NoLimits]).await;
}

#[tokio::test]
async fn m24_a_tenant_has_a_cap_of_keys() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder.settings(|s| s.key_cap = Some(1))).await?;
        same(
            Ask::order(mock.address(), &key(1)).send().await.status,
            201,
            "first key",
        )?;
        same(
            Ask::order(mock.address(), &key(2)).send().await.status,
            429,
            "second key",
        )
    };
    proven(check, &[Naughty::NoLimits]).await;
}

#[tokio::test]
async fn m25_an_old_request_is_refused_where_the_check_is_on() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    let dated = |ago: i64| {
        ask.clone()
            .header("date", &http_date(mock.now() - ago * 1000))
    };
    assert_eq!(dated(3600).send().await.status, 201, "off by default");
    mock.settings(|s| s.max_request_age = Some(MINUTE));
    assert_eq!(dated(0).send().await.status, 201);
    assert_eq!(dated(120).send().await.status, 400);
    assert_eq!(
        ask.send().await.status,
        400,
        "without a date nobody could tell"
    );
    assert_eq!(mock.ledger().count(Event::TooOld), 2);
}

#[tokio::test]
async fn m26_the_stored_answer_does_not_change_and_the_object_does() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        let first = ask.send().await;
        let pay = payment(&mock, 2).json(r#"{"amount":700,"order":"ord_000001"}"#);
        same(pay.send().await.status, 201, "payment")?;
        let now = Ask::get(mock.address(), "/orders/ord_000001").send().await;
        same(
            now.json()["status"].as_str(),
            Some("paid"),
            "the order itself",
        )?;
        same(ask.send().await.body, first.body, "the stored answer")
    };
    proven(check, &[Naughty::LiveAnswer]).await;
}

#[tokio::test]
async fn m27_the_audit_names_routes_that_no_key_protects() {
    let mock = start(quiet().naughty(Naughty::UncoveredRoute))
        .await
        .unwrap();
    let open: Vec<_> = mock
        .audit()
        .into_iter()
        .filter(|c| !c.covered)
        .map(|c| c.operation)
        .collect();
    assert_eq!(open, ["POST /refunds"]);
    let shown = Ask::get(mock.address(), "/_mock/routes")
        .send()
        .await
        .json();
    assert_eq!(shown.as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn m28_metrics_count_per_tenant_and_alerts_name_what_is_wrong() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    ask.send().await;
    ask.clone().json("{}").send().await;
    ask.clone()
        .tenant("globex")
        .fault("worker-crash")
        .try_send()
        .await;
    ask.clone().tenant("globex").send().await;
    let text = Ask::get(mock.address(), "/_mock/metrics").send().await.body;
    for line in [
        "samekey_mock_events_total{tenant=\"acme\",event=\"replayed\"} 1",
        "samekey_mock_events_total{tenant=\"acme\",event=\"mismatch\"} 1",
        "samekey_mock_events_total{tenant=\"globex\",event=\"in-flight\"} 1",
        "samekey_mock_in_flight 1",
        "samekey_mock_effects 1",
        "samekey_mock_stale_locks 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains(&key(1)), "no key among the labels");
    mock.advance(Duration::from_secs(3600));
    let alerts = Ask::get(mock.address(), "/_mock/alerts")
        .send()
        .await
        .json();
    let names: Vec<_> = alerts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["stale-locks", "mismatches"]);
}

#[tokio::test]
async fn m29_the_ledger_is_the_same_as_json_and_as_a_value() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    ask.send().await;
    let shown = Ask::get(mock.address(), "/_mock/ledger")
        .send()
        .await
        .json();
    assert_eq!(shown, serde_json::to_value(mock.ledger()).unwrap());
    let ledger = mock.ledger();
    let row = &ledger.keys()[0];
    assert_eq!((row.effects, row.requests, row.replays), (1, 2, 1));
    let requests = ledger.requests_of(&key(1));
    assert_eq!(requests[0].body_sha256, requests[1].body_sha256);
    assert_eq!(requests[0].header("authorization"), Some("(not kept)"));
    let steps = [
        Event::Arrived,
        Event::Reserved,
        Event::Effect,
        Event::Stored,
        Event::Answered,
    ];
    assert_eq!(requests[0].events, steps);
    assert_eq!(
        requests[1].events,
        [Event::Arrived, Event::Replayed, Event::Answered]
    );
}

#[tokio::test]
async fn m30_browsers_are_told_on_every_answer_and_each_header_can_be_left_out() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1)).header("origin", "http://shop.example");
    for reply in [
        ask.send().await,
        ask.clone().without("idempotency-key").send().await,
    ] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        let exposed = reply
            .header("access-control-expose-headers")
            .unwrap()
            .to_owned();
        assert!(
            exposed.contains("Retry-After") && exposed.contains("Date"),
            "{exposed}"
        );
    }
    let preflight = Ask::new(mock.address(), "OPTIONS", "/orders");
    let allowed = |reply: crate::client::Reply| {
        reply
            .header("access-control-allow-headers")
            .unwrap_or("")
            .to_owned()
    };
    let before = allowed(preflight.send().await);
    for name in ["Idempotency-Key", "Authorization", "Content-Type", "Prefer"] {
        assert!(before.contains(name), "{before}");
        mock.settings(|s| s.cors_omit = vec![name.to_owned()]);
        assert!(!allowed(preflight.send().await).contains(name), "{name}");
    }
    for name in [
        "Retry-After",
        "Idempotent-Replayed",
        "Idempotency-Key-Expires",
        "Location",
        "Date",
    ] {
        mock.settings(|s| s.cors_omit = vec![name.to_owned()]);
        let exposed = ask.send().await;
        let exposed = exposed.header("access-control-expose-headers").unwrap();
        assert!(!exposed.split(", ").any(|e| e == name), "{name}");
    }
    mock.settings(|s| s.cors_omit = vec!["Access-Control-Allow-Origin".into()]);
    assert_eq!(ask.send().await.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn m32_support_finds_a_key_by_its_reference() {
    let folder = tempfile::tempdir().unwrap();
    for builder in [quiet(), quiet().file(folder.path().join("shop.db"))] {
        let mock = start(builder).await.unwrap();
        Ask::order(mock.address(), &key(7)).send().await;
        let spoken = reference::of_key(&key(7)).unwrap().to_lowercase();
        let own = Ask::get(mock.address(), &format!("/keys/{spoken}"))
            .send()
            .await;
        assert_eq!(own.json()["matches"][0]["key"], key(7));
        let operator = Ask::get(mock.address(), &format!("/_mock/find?q={spoken}"))
            .send()
            .await;
        assert_eq!(operator.json()["matches"][0]["tenant"], "acme");
        let other = Ask::get(mock.address(), &format!("/keys/{spoken}")).tenant("eve");
        assert_eq!(other.send().await.status, 404);
    }
}

#[tokio::test]
async fn m32_look_ups_are_limited() {
    let limit = Limit {
        quota: 2,
        window: MINUTE,
    };
    let mock = start(quiet().settings(|s| s.lookup_limit = Some(limit)))
        .await
        .unwrap();
    let look = Ask::get(mock.address(), "/keys/nothing");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(look.send().await.status);
    }
    assert_eq!(statuses, [404, 404, 429]);
}
