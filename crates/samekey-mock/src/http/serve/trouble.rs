//! What befalls a request before its work, and its answer after it.

use super::{Cut, End, Incoming, NoAnswer, Node, Scissors};
use crate::answer::Answer;
use crate::clock::{Millis, http_date};
use crate::faults::{Fault, Hint, Plan};
use crate::ledger::Event;
use crate::node::tenant_of;
use std::time::Duration;

/// The name under which the mock can also be reached: another origin, the same server.
const OTHER_HOST: &str = "localhost";

/// What comes after the faults that strike first.
pub(super) enum Next {
    Work,
    Say(Answer),
    Vanish(NoAnswer),
}

pub(super) async fn before(
    node: &Node,
    scissors: &Scissors,
    incoming: &Incoming,
    plan: &Plan,
    id: u64,
) -> Next {
    if let Some((low, high)) = node.settings().delay {
        let ms = node.faults().between(low, high);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    for fault in &plan.faults {
        match fault {
            Fault::Delay(low, high) => {
                let ms = node.faults().between(*low, *high);
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Fault::ClockJump(seconds) => node.clock.jump(seconds.saturating_mul(1000)),
            Fault::DropBeforeCommit => return Next::Vanish(NoAnswer::Dropped),
            Fault::StallBeforeCommit => return Next::Vanish(NoAnswer::Stalled),
            Fault::RefusedStream => {
                let reason = h2::Error::from(h2::Reason::REFUSED_STREAM);
                return Next::Vanish(NoAnswer::Refused(reason));
            }
            Fault::Goaway => {
                scissors.order(Cut::Instead(goaway(incoming, 0), End::Close));
                return Next::Vanish(NoAnswer::Dropped);
            }
            Fault::ContinueThenReset => {
                let interim = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
                scissors.order(Cut::Instead(interim, End::Reset));
                return Next::Say(Answer::new(500));
            }
            _ => {}
        }
        if let Some(answer) = in_between(node, incoming, fault) {
            let redirected = matches!(fault, Fault::RedirectSame(_) | Fault::RedirectCross(_));
            let event = if redirected {
                Event::Redirected
            } else {
                Event::Gateway
            };
            node.note(id, &tenant_of(incoming), event);
            return Next::Say(answer);
        }
    }
    Next::Work
}

/// Answers that do not come from the server itself.
fn in_between(node: &Node, incoming: &Incoming, fault: &Fault) -> Option<Answer> {
    match fault {
        Fault::Status(status) => Some(gateway(*status)),
        Fault::RetryAfter(hint) => Some(hinted(*hint, node.now())),
        Fault::Portal => Some(
            Answer::new(200)
                .header("content-type", "text/html")
                .body("<!doctype html><title>Welcome</title><h1>Please log in to the network</h1>"),
        ),
        Fault::RedirectSame(status) => {
            // The fault may be bound to a route, so the new place differs by its query only.
            let place = format!("{}?redirected=1", incoming.path);
            Some(Answer::new(*status).header("location", &place))
        }
        Fault::RedirectCross(status) => {
            let host = incoming.header("host").unwrap_or("");
            let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
            let place = format!("http://{OTHER_HOST}:{port}{}", incoming.path);
            Some(Answer::new(*status).header("location", &place))
        }
        _ => None,
    }
}

fn gateway(status: u16) -> Answer {
    let body = format!("<html><body><h1>{status}</h1><hr>gateway</body></html>\n");
    Answer::new(status)
        .header("content-type", "text/html")
        .body(body)
}

/// 503 with a Retry-After of a questionable kind.
fn hinted(hint: Hint, now: Millis) -> Answer {
    let minutes = 60_000;
    let (date, value) = match hint {
        Hint::Zero => (None, "0".to_owned()),
        Hint::Past => (None, http_date(now - 10 * minutes)),
        Hint::SkewedDate => (
            Some(now + 10 * minutes),
            http_date(now + 10 * minutes + 10_000),
        ),
        Hint::SkewedDateNoDate => (None, http_date(now + 10 * minutes + 10_000)),
        Hint::Rfc850 => (None, rfc850(now + 3000)),
        Hint::Asctime => (None, asctime(now + 3000)),
        Hint::Word => (None, "soon".to_owned()),
        Hint::Negative => (None, "-5".to_owned()),
        Hint::Fraction => (None, "1.5".to_owned()),
        Hint::Signed => (None, "+3".to_owned()),
        Hint::Exponent => (None, "1e9".to_owned()),
        Hint::Empty => (None, String::new()),
        Hint::List => (None, "120, 60".to_owned()),
        Hint::Huge => (None, "99999999999999999999".to_owned()),
        Hint::TwoLines => (None, "1".to_owned()),
        Hint::Hour => (None, "3600".to_owned()),
        Hint::Absent => return gateway(503),
    };
    let mut answer = gateway(503).header("retry-after", &value);
    if hint == Hint::TwoLines {
        answer = answer.header("retry-after", "7");
    }
    match date {
        Some(at) => answer.header("date", &http_date(at)),
        None => answer,
    }
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(at: Millis) -> String {
    const DAYS: [&str; 7] = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let date = http_date(at);
    let day = DAYS
        .into_iter()
        .find(|day| date.starts_with(&day[..3]))
        .unwrap_or("Monday");
    format!(
        "{day}, {}-{}-{} {}",
        &date[5..7],
        &date[8..11],
        &date[14..16],
        &date[17..]
    )
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(at: Millis) -> String {
    let date = http_date(at);
    let day = date[5..7].trim_start_matches('0');
    format!(
        "{} {} {day:>2} {} {}",
        &date[..3],
        &date[8..11],
        &date[17..25],
        &date[12..16]
    )
}

/// A GOAWAY frame: everything above `last` was not processed. Over HTTP/1.1 there is no such thing.
fn goaway(incoming: &Incoming, last: u32) -> Vec<u8> {
    if incoming.http != "2" {
        return Vec::new();
    }
    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
    frame.extend(last.to_be_bytes());
    frame.extend(0_u32.to_be_bytes());
    frame
}

/// What becomes of the answer.
pub(super) enum After {
    Send,
    Instead(Answer),
    Cut,
    Vanish,
    Stall,
    Drip(Duration),
    Endless,
}

pub(super) async fn after(scissors: &Scissors, incoming: &Incoming, plan: &Plan) -> After {
    for fault in &plan.faults {
        match fault {
            Fault::DelayAnswer(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Fault::DropAfterCommit => return After::Vanish,
            Fault::Stall => return After::Stall,
            Fault::StatusAfterCommit(status) => return After::Instead(gateway(*status)),
            Fault::ResetBeforeHead => {
                scissors.order(Cut::Head(0, End::Reset));
                return After::Cut;
            }
            Fault::CutHead(n) => {
                scissors.order(Cut::Head(*n, End::Close));
                return After::Cut;
            }
            Fault::CutBody(n) => {
                scissors.order(Cut::Body(*n, End::Close));
                return After::Cut;
            }
            Fault::GoawayAfterCommit => {
                let frame = goaway(incoming, u32::MAX >> 1);
                scissors.order(Cut::Instead(frame, End::Close));
                return After::Cut;
            }
            Fault::ContinueThenReset => return After::Cut,
            Fault::EarlyHints if incoming.http != "2" => {
                let hint = "HTTP/1.1 103 Early Hints\r\nlink: </page.css>; rel=preload\r\n\r\n";
                let ahead = format!("HTTP/1.1 100 Continue\r\n\r\n{hint}{hint}");
                scissors.order(Cut::Ahead(ahead.into_bytes()));
            }
            Fault::SlowBody(ms) => return After::Drip(Duration::from_millis(*ms)),
            Fault::EndlessBody => return After::Endless,
            _ => {}
        }
    }
    After::Send
}
