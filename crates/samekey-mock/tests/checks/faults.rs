//! M31: every fault does what its name says, seen from the other end of the wire.

#[path = "faults/http2.rs"]
mod http2;

use crate::client::{Ask, Reply, key};
use crate::proof::quiet;
use samekey_mock::clock::parse_http_date;
use samekey_mock::{Event, Fault, Hint, Mock};
use std::io::ErrorKind;

async fn mock() -> Mock {
    quiet().start().await.unwrap()
}

fn order(mock: &Mock, fault: &str) -> Ask {
    Ask::order(mock.address(), &key(1)).fault(fault)
}

fn again(mock: &Mock) -> Ask {
    Ask::order(mock.address(), &key(1))
}

#[tokio::test]
async fn m31_drop_before_commit_leaves_nothing() {
    let mock = mock().await;
    let raw = order(&mock, "drop-before-commit").raw().await;
    assert_eq!(
        (raw.bytes.len(), raw.end),
        (0, None),
        "closed without a byte"
    );
    assert_eq!(mock.ledger().effects().len(), 0);
    assert!(!again(&mock).send().await.replayed());
}

#[tokio::test]
async fn m31_after_a_commit_every_lost_answer_is_replayed() {
    let lost = [
        "drop-after-commit",
        "reset-before-head",
        "cut-head:9",
        "cut-head:0",
        "cut-body:3",
    ];
    for fault in lost {
        let mock = mock().await;
        assert_eq!(order(&mock, fault).try_send().await, None, "{fault}");
        let ledger = mock.ledger();
        assert_eq!(ledger.effects().len(), 1, "{fault}");
        assert!(ledger.requests()[0].had(Event::Dropped), "{fault}");
        assert!(again(&mock).send().await.replayed(), "{fault}");
        assert_eq!(mock.ledger().effects().len(), 1, "{fault}");
    }
}

#[tokio::test]
async fn m31_the_wire_is_cut_at_the_very_byte() {
    let mock = mock().await;
    let reset = order(&mock, "reset-before-head").raw().await;
    assert_eq!(
        (reset.bytes.len(), reset.end),
        (0, Some(ErrorKind::ConnectionReset))
    );
    let status = order(&mock, "cut-head:9").raw().await;
    assert_eq!(
        (status.bytes.as_slice(), status.end),
        (&b"HTTP/1.1 "[..], None)
    );
    let body = order(&mock, "cut-body:3").raw().await.bytes;
    let head = body.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    assert_eq!(body.len() - head - 4, 3, "three bytes of the body");
    let informed = order(&mock, "continue-then-reset").raw().await;
    assert_eq!(informed.bytes, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(informed.end, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn m31_e32_informational_answers_come_ahead_of_the_real_one() {
    let mock = mock().await;
    let text = String::from_utf8(order(&mock, "early-hints").raw().await.bytes).unwrap();
    let codes: Vec<_> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|part| &part[..3])
        .collect();
    assert_eq!(codes, ["100", "103", "103", "201"]);
}

#[tokio::test]
async fn m31_a_body_may_drip_and_may_never_end() {
    let mock = mock().await;
    let slow = order(&mock, "slow-body:1").send().await;
    assert_eq!((slow.status, slow.body.len()), (201, 64));
    let mut endless = order(&mock, "endless-body").open().await;
    let mut read = vec![0; 1 << 20];
    tokio::io::AsyncReadExt::read_exact(&mut endless, &mut read)
        .await
        .unwrap();
    assert!(again(&mock).send().await.replayed());
    assert_eq!(mock.ledger().effects().len(), 1);
}

#[tokio::test]
async fn m31_a_stalled_answer_never_comes_and_the_work_depends_on_the_kind() {
    for (fault, effects) in [("stall", 1), ("stall-before-commit", 0)] {
        let mock = mock().await;
        let ask = order(&mock, fault);
        let stalled = tokio::spawn(async move { ask.raw().await });
        mock.wait_for(|l| l.count(Event::Dropped) == 1).await;
        assert_eq!(mock.ledger().effects().len(), effects, "{fault}");
        assert!(!stalled.is_finished(), "{fault}");
        drop(mock);
        assert_eq!(stalled.await.unwrap().bytes, b"", "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn m31_delays_take_their_time_and_change_nothing_else() {
    let mock = quiet().delay(10, 20).start().await.unwrap();
    for fault in ["delay:50..500", "delay-answer:1000", "slow-work:30000"] {
        let reply = order(&mock, fault).send().await;
        assert_eq!(reply.status, 201, "{fault}");
    }
    assert_eq!(mock.ledger().effects_of(&key(1)), 1);
}

#[tokio::test]
async fn m31_slow_work_is_in_flight_for_others() {
    let mock = mock().await;
    let slow = order(&mock, "slow-work:600000");
    let slow = tokio::spawn(async move { slow.raw().await });
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    assert_eq!(again(&mock).send().await.status, 409);
    slow.abort();
}

#[tokio::test]
async fn m31_a_gateway_answers_before_or_after_the_work() {
    let mock = mock().await;
    assert_eq!(order(&mock, "status:503").send().await.status, 503);
    assert_eq!(mock.ledger().effects().len(), 0);
    let late = order(&mock, "status-after-commit:502").send().await;
    assert_eq!(
        (late.status, late.header("content-type")),
        (502, Some("text/html"))
    );
    assert_eq!(mock.ledger().effects().len(), 1);
    assert!(again(&mock).send().await.replayed());
    let portal = order(&mock, "portal").send().await;
    assert_eq!(
        (portal.status, portal.header("content-type")),
        (200, Some("text/html"))
    );
}

fn hint(reply: &Reply) -> Vec<&str> {
    reply.all("retry-after")
}

#[tokio::test]
async fn m31_e1_to_e8_every_questionable_retry_after() {
    let mock = mock().await;
    for kind in Hint::all() {
        let reply = order(&mock, &Fault::RetryAfter(kind).to_string())
            .send()
            .await;
        assert_eq!(reply.status, 503, "{kind:?}");
        let date = |header: &str| parse_http_date(reply.header(header).unwrap()).unwrap();
        match kind {
            Hint::Zero => assert_eq!(hint(&reply), ["0"]),
            Hint::Past => assert!(date("retry-after") < mock.now()),
            Hint::SkewedDate => assert_eq!(date("retry-after") - date("date"), 10_000),
            Hint::SkewedDateNoDate => assert!(date("retry-after") - date("date") > 600_000),
            Hint::Rfc850 => assert!(hint(&reply)[0].contains("day, ") && date("retry-after") > 0),
            Hint::Asctime => {
                assert!(
                    !hint(&reply)[0].contains("GMT") && date("retry-after") > mock.now() - 9000
                );
            }
            Hint::Word => assert_eq!(hint(&reply), ["soon"]),
            Hint::Negative => assert_eq!(hint(&reply), ["-5"]),
            Hint::Fraction => assert_eq!(hint(&reply), ["1.5"]),
            Hint::Signed => assert_eq!(hint(&reply), ["+3"]),
            Hint::Exponent => assert_eq!(hint(&reply), ["1e9"]),
            Hint::Empty => assert_eq!(hint(&reply), [""]),
            Hint::List => assert_eq!(hint(&reply), ["120, 60"]),
            Hint::Huge => assert_eq!(hint(&reply), ["99999999999999999999"]),
            Hint::TwoLines => assert_eq!(hint(&reply), ["1", "7"]),
            Hint::Hour => assert_eq!(hint(&reply), ["3600"]),
            Hint::Absent => assert!(hint(&reply).is_empty()),
        }
    }
    assert_eq!(mock.ledger().effects().len(), 0);
}

#[tokio::test]
async fn m31_a_server_that_forgets_acts_twice_and_the_ledger_shows_it() {
    for fault in [
        "early-eviction",
        "lagging-replica",
        "split-brain",
        "amnesia",
    ] {
        let mock = mock().await;
        let strikes_first = fault == "early-eviction";
        let (first, second) = if strikes_first {
            (fault, "")
        } else {
            ("", fault)
        };
        for strike in [first, second] {
            let ask = if strike.is_empty() {
                again(&mock)
            } else {
                order(&mock, strike)
            };
            let reply = ask.send().await;
            assert_eq!((reply.status, reply.replayed()), (201, false), "{fault}");
        }
        let ledger = mock.ledger();
        assert_eq!(
            (ledger.effects().len(), ledger.duplicates().len()),
            (2, 1),
            "{fault}"
        );
        assert!(
            mock.alerts().iter().any(|a| a.name == "duplicate-effects"),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn m31_a_proxy_that_delivers_twice_causes_one_effect() {
    let mock = mock().await;
    let reply = order(&mock, "duplicate").send().await;
    assert!(reply.replayed());
    let ledger = mock.ledger();
    assert_eq!((ledger.requests().len(), ledger.effects().len()), (2, 1));
}

#[tokio::test]
async fn m31_redirects_point_to_the_same_and_to_another_origin() {
    let mock = mock().await;
    for status in [301, 302, 303, 307, 308] {
        let same = order(&mock, &format!("redirect-same:{status}"))
            .send()
            .await;
        assert_eq!(
            (same.status, same.header("location")),
            (status, Some("/orders?redirected=1"))
        );
        let cross = order(&mock, &format!("redirect-cross:{status}"))
            .send()
            .await;
        let place = format!("http://localhost:{}/orders", mock.address().port());
        assert_eq!(
            (cross.status, cross.header("location")),
            (status, Some(place.as_str()))
        );
    }
    assert_eq!(mock.ledger().effects().len(), 0);
}

#[tokio::test]
async fn m31_the_clock_jumps_both_ways() {
    let mock = mock().await;
    let end = |reply: Reply| parse_http_date(reply.header("idempotency-key-expires").unwrap());
    let before = end(again(&mock).send().await).unwrap();
    let other = Ask::order(mock.address(), &key(2))
        .fault("clock-jump:7200")
        .send()
        .await;
    assert!(end(other).unwrap() - before >= 7_200_000);
    let back = Ask::order(mock.address(), &key(3))
        .fault("clock-jump:-7200")
        .send()
        .await;
    assert!(end(back).unwrap() - before < 7_200_000);
}

#[tokio::test]
async fn m31_random_faults_repeat_with_their_seed() {
    let run = async |seed: u64| {
        let builder = quiet().seed(seed).fault(Fault::DropBeforeCommit.rate(0.4));
        let mock = builder.start().await.unwrap();
        let mut lost = Vec::new();
        for n in 0..40 {
            lost.push(
                Ask::order(mock.address(), &key(n))
                    .try_send()
                    .await
                    .is_none(),
            );
        }
        lost
    };
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert!(first.contains(&true) && first.contains(&false));
}

#[tokio::test]
async fn m31_faults_are_set_and_ended_at_the_control_endpoint() {
    let mock = mock().await;
    let control = |method: &str, path: &str| Ask::new(mock.address(), method, path);
    let set = control("POST", "/_mock/faults").json(r#"{"rule":"status:502*2@/orders"}"#);
    assert_eq!(set.send().await.json()["rules"][0], "status:502*2@/orders");
    assert_eq!(again(&mock).send().await.status, 502);
    assert_eq!(control("DELETE", "/_mock/faults").send().await.status, 200);
    assert_eq!(again(&mock).send().await.status, 201);
    let wrong = control("POST", "/_mock/faults")
        .body("no-such-thing")
        .send()
        .await;
    assert_eq!(wrong.status, 400);
    assert_eq!(order(&mock, "no-such-thing").send().await.status, 400);
}

#[tokio::test]
async fn m31_a_client_that_goes_away_does_not_stop_the_work() {
    let mock = mock().await;
    mock.hold();
    let ask = again(&mock);
    let gone = tokio::spawn(async move { ask.raw().await });
    mock.wait_for(|l| l.count(Event::Held) == 1).await;
    gone.abort();
    let _ = gone.await;
    mock.release();
    mock.wait_for(|l| l.requests()[0].is_over()).await;
    assert!(again(&mock).send().await.replayed());
}

#[tokio::test]
async fn a_shutdown_lets_open_exchanges_finish() {
    let mock = quiet().start().await.unwrap();
    let ask = order(&mock, "delay-answer:50");
    let open = tokio::spawn(async move { ask.send().await });
    mock.wait_for(|l| l.effects().len() == 1).await;
    mock.shutdown().await;
    assert_eq!(open.await.unwrap().status, 201);
}

#[tokio::test]
async fn instant_answers_without_a_trace() {
    let mock = quiet().instant().start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(again(&mock).send().await.status, 201);
    }
    assert_eq!(
        (
            mock.ledger().requests().len(),
            mock.ledger().effects().len()
        ),
        (0, 0)
    );
    let page = Ask::get(mock.address(), "/_mock/health").send().await;
    assert_eq!(page.json()["ok"], true);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let mock = quiet()
        .settings(|s| s.body_limit = 10)
        .start()
        .await
        .unwrap();
    assert_eq!(again(&mock).send().await.status, 413);
}
