//! M1 to M12: keys, scope, fingerprint, and what a repeat is told.

use crate::client::{Ask, key};
use crate::proof::{Found, ensure, proven, quiet, same};
use samekey_mock::settings::{InFlight, RetryAfter, Stored};
use samekey_mock::{Builder, Event, LAST_ITEM, Mock, Naughty};
use std::time::Duration;

async fn start(builder: Builder) -> Result<Mock, String> {
    builder.start().await.map_err(|e| e.to_string())
}

#[tokio::test]
async fn m01_put_and_delete_may_go_without_a_key_and_opt_in_lets_all_pass() {
    let mock = start(quiet()).await.unwrap();
    Ask::order(mock.address(), &key(1)).send().await;
    let put = Ask::new(mock.address(), "PUT", "/orders/ord_000001")
        .send()
        .await;
    assert_eq!(put.status, 200);
    let patch = Ask::new(mock.address(), "PATCH", "/orders/ord_000001")
        .send()
        .await;
    assert_eq!(patch.status, 400);
    mock.settings(|s| s.key_required = false);
    let bare = Ask::order(mock.address(), "x")
        .without("idempotency-key")
        .send()
        .await;
    assert_eq!(bare.status, 201);
    assert_eq!(mock.ledger().count(Event::Unprotected), 2);
}

#[tokio::test]
async fn m02_a_bad_key_is_refused_before_anything_is_looked_up() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let order = Ask::order(mock.address(), "x").without("idempotency-key");
        let long = "k".repeat(256);
        for bad in ["", "two words", "a,b", "\"open", long.as_str()] {
            let reply = order.clone().header("Idempotency-Key", bad).send().await;
            same(reply.status, 400, bad)?;
            ensure(
                reply.header("content-type") == Some("application/problem+json"),
                "not a problem",
            )?;
        }
        let twice = order
            .header("Idempotency-Key", "a")
            .header("Idempotency-Key", "a");
        same(twice.send().await.status, 400, "two lines")?;
        same(mock.ledger().keys().len(), 0, "keys")
    };
    proven(check, &[Naughty::AnyKey]).await;
}

#[tokio::test]
async fn m02_a_quoted_key_and_a_bare_one_are_the_same_key() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    assert!(ask.key(&format!("\"{}\"", key(1))).send().await.replayed());
}

#[tokio::test]
async fn m03_the_scope_is_the_credential_and_the_operation() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let at = mock.address();
        let body = r#"{"item":"tea","amount":5,"tenant":"globex"}"#;
        Ask::order(at, &key(1)).json(body).send().await;
        let payment = Ask::order(at, &key(1))
            .json(body)
            .path("/payments")
            .send()
            .await;
        ensure(!payment.replayed(), "one key on two routes is two actions")?;
        let stranger = Ask::order(at, &key(1))
            .json(body)
            .tenant("globex")
            .send()
            .await;
        ensure(!stranger.replayed(), "the tenant came from the body")?;
        let anyone = Ask::order(at, &key(1))
            .json(body)
            .without("authorization")
            .send()
            .await;
        ensure(
            !anyone.replayed(),
            "without a credential the address counts",
        )?;
        let renewed = Ask::order(at, &key(1))
            .json(body)
            .tenant("acme~2")
            .send()
            .await;
        ensure(
            renewed.replayed(),
            "a second token of one principal is the same tenant",
        )
    };
    proven(check, &[Naughty::TenantFromBody]).await;
}

#[tokio::test]
async fn m04_m32_a_key_is_shown_to_its_tenant_only() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        Ask::order(mock.address(), &key(1)).send().await;
        let look = Ask::get(mock.address(), &format!("/keys/{}", key(1)));
        let own = look.send().await;
        same(own.status, 200, "own look-up")?;
        same(
            look.tenant("globex").send().await.status,
            404,
            "another tenant's look-up",
        )
    };
    proven(check, &[Naughty::OpenLookup]).await;
}

#[tokio::test]
async fn m06_the_record_says_when_and_how_it_ended() {
    let mock = start(quiet()).await.unwrap();
    Ask::order(mock.address(), &key(1)).send().await;
    let found = Ask::get(mock.address(), &format!("/keys/{}", key(1)))
        .send()
        .await
        .json();
    let record = &found["matches"][0];
    assert_eq!(record["state"], "done");
    assert_eq!(record["status"], 201);
    assert_eq!(record["operation"], "POST /orders");
    for field in ["created", "completed", "expires"] {
        assert!(
            record[field].as_str().is_some_and(|t| t.ends_with("GMT")),
            "{record}"
        );
    }
}

#[tokio::test]
async fn m07_the_same_json_in_another_order_is_the_same_request() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        ask.send().await;
        let again = ask
            .json("{ \"quantity\": 2.0, \"item\": \"t\\u0065a\" }")
            .send()
            .await;
        ensure(again.replayed(), "the same meaning was refused")
    };
    proven(check, &[Naughty::UnorderedJson]).await;
}

#[tokio::test]
async fn m07_e53_an_ambiguous_body_is_400_and_leaves_no_key() {
    let mock = start(quiet()).await.unwrap();
    for bad in [r#"{"a":1,"a":2}"#, r#"{"a":"\ud800"}"#, r#"{"a":"#] {
        let reply = Ask::order(mock.address(), &key(1)).json(bad).send().await;
        assert_eq!(reply.status, 400, "{bad}");
    }
    assert_eq!(Ask::order(mock.address(), &key(1)).send().await.status, 201);
}

#[tokio::test]
async fn m07_the_query_belongs_to_the_request() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    assert_eq!(ask.path("/orders?dry=1").send().await.status, 422);
}

#[tokio::test]
async fn m08_the_status_of_a_mismatch_is_a_knob() {
    let mock = start(quiet()).await.unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    ask.send().await;
    let other = ask.json("{}");
    let problem = other.send().await;
    assert_eq!(problem.status, 422);
    assert!(
        problem.json()["type"]
            .as_str()
            .unwrap()
            .ends_with("key-reused")
    );
    for status in [409, 400] {
        mock.settings(|s| s.mismatch_status = Some(status));
        assert_eq!(other.send().await.status, status);
    }
}

/// Holds a first request in flight and returns what a second is told.
async fn second_of_two(mock: &Mock) -> crate::client::Reply {
    let ask = Ask::order(mock.address(), &key(1));
    mock.hold();
    let first = tokio::spawn({
        let ask = ask.clone();
        async move { ask.send().await }
    });
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    mock.pass();
    let second = ask.send().await;
    mock.release();
    first.await.unwrap();
    second
}

#[tokio::test]
async fn m09_a_duplicate_never_runs_beside_the_first() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let second = second_of_two(&mock).await;
        same(second.status, 409, "the second of two")?;
        ensure(
            second.json()["type"]
                .as_str()
                .is_some_and(|t| t.ends_with("in-flight")),
            "type",
        )
    };
    proven(check, &[Naughty::RunWhileInFlight]).await;
}

#[tokio::test]
async fn m09_retry_after_comes_in_seconds_as_a_date_or_not_at_all() {
    for (form, looks) in [
        (RetryAfter::Seconds, Some("1")),
        (RetryAfter::HttpDate, Some("GMT")),
        (RetryAfter::Absent, None),
    ] {
        let mock = start(quiet().settings(|s| s.retry_after = form))
            .await
            .unwrap();
        let second = second_of_two(&mock).await;
        match looks {
            Some(end) => assert!(second.header("retry-after").unwrap().ends_with(end)),
            None => assert_eq!(second.header("retry-after"), None),
        }
    }
}

#[tokio::test]
async fn m09_a_waiting_server_gives_both_the_same_answer() {
    let mock = start(quiet().in_flight(InFlight::Wait(Duration::from_secs(60))))
        .await
        .unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    mock.hold();
    let send = |ask: Ask| tokio::spawn(async move { ask.send().await });
    let first = send(ask.clone());
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    let second = send(ask);
    mock.wait_for(|l| l.requests().len() == 2).await;
    mock.release();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(first.body, second.body);
    assert!(second.replayed());
}

#[tokio::test]
async fn m09_a_polling_server_says_where_to_ask() {
    let mock = start(quiet().in_flight(InFlight::Poll)).await.unwrap();
    let second = second_of_two(&mock).await;
    assert_eq!(second.status, 202);
    let place = second.header("location").unwrap().to_owned();
    let state = Ask::get(mock.address(), &place).send().await.json();
    assert_eq!(state["matches"][0]["state"], "done");
}

#[tokio::test]
async fn m10_a_replay_is_the_stored_answer_with_a_marker() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let ask = Ask::order(mock.address(), &key(1));
        let (first, again) = (ask.send().await, ask.send().await);
        same(
            (first.status, &first.body),
            (again.status, &again.body),
            "answer",
        )?;
        same(
            first.header("location"),
            again.header("location"),
            "location",
        )?;
        ensure(!first.replayed() && again.replayed(), "the marker")
    };
    proven(check, &[Naughty::NoMarker]).await;
}

#[tokio::test]
async fn m10_a_replay_may_answer_200_by_the_knob() {
    let mock = start(quiet().settings(|s| s.replay_as_200 = true))
        .await
        .unwrap();
    let ask = Ask::order(mock.address(), &key(1));
    assert_eq!(
        (ask.send().await.status, ask.send().await.status),
        (201, 200)
    );
}

#[tokio::test]
async fn m11_the_handlers_4xx_is_the_keys_result() {
    let check = async |builder: Builder| -> Found {
        let mock = start(builder).await?;
        let last = format!(r#"{{"item":"{LAST_ITEM}"}}"#);
        let lucky = Ask::order(mock.address(), &key(1)).json(&last).send().await;
        same(lucky.status, 201, "the last item")?;
        let late = Ask::order(mock.address(), &key(2)).json(&last);
        let (first, again) = (late.send().await, late.send().await);
        same((first.status, again.status), (409, 409), "out of stock")?;
        ensure(again.replayed(), "the refusal was not stored")
    };
    proven(check, &[Naughty::DropsClientErrors]).await;
}

#[tokio::test]
async fn m11_what_is_said_before_the_handler_is_never_stored() {
    let check = async |builder: Builder| -> Found {
        let limit = samekey_mock::settings::Limit {
            quota: 1,
            window: Duration::from_secs(60),
        };
        let mock = start(builder.settings(|s| s.rate_limit = Some(limit))).await?;
        Ask::order(mock.address(), &key(1)).send().await;
        let ask = Ask::order(mock.address(), &key(2));
        same(ask.send().await.status, 429, "over the limit")?;
        mock.advance(Duration::from_secs(61));
        same(ask.send().await.status, 201, "a minute later")
    };
    proven(check, &[Naughty::StoresRefusals]).await;
}

#[tokio::test]
async fn m11_what_is_stored_is_a_knob() {
    let declined = r#"{"amount":2000000}"#;
    let mock = start(quiet().settings(|s| s.stored = Stored::Success))
        .await
        .unwrap();
    let ask = Ask::order(mock.address(), &key(1))
        .path("/payments")
        .json(declined);
    assert_eq!(ask.send().await.status, 402);
    assert!(!ask.send().await.replayed());
    mock.settings(|s| s.stored = Stored::All);
    let ask = Ask::order(mock.address(), &key(2));
    let failed = ask.clone().fault("handler-error").send().await;
    let again = ask.send().await;
    assert_eq!(
        (failed.status, again.status, again.replayed()),
        (500, 500, true)
    );
    assert_eq!(mock.ledger().effects_of(&key(2)), 0);
}
