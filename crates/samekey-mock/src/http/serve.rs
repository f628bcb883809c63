//! Accepts connections and carries each request through its faults.

mod trouble;

use super::body::Body;
use super::wire::{Cut, End, Scissors, Wire};
use super::{control, cors};
use crate::answer::Answer;
use crate::faults::{Fault, Plan};
use crate::fingerprint::sha256_hex;
use crate::ledger::{Event, Request};
use crate::node::{Incoming, Node, Outcome, key_of, tenant_of};
use crate::reference;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming as WireBody;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Why a request gets no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("the connection is dropped on purpose")]
    Dropped,
    #[error("the stream is refused on purpose")]
    Refused(#[source] h2::Error),
    #[error("the answer never comes, on purpose")]
    Stalled,
}

type Served = Result<hyper::Response<Body>, NoAnswer>;

/// Serves until told to stop, then lets open exchanges finish.
pub(crate) async fn accept(
    node: Arc<Node>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => {
                let Ok((stream, peer)) = taken else { continue };
                let task = converse(Arc::clone(&node), stream, peer.ip().to_string(), stop.clone());
                connections.spawn(task);
            }
            Some(_) = connections.join_next() => {}
            _ = stop.changed() => break,
        }
    }
    drop(listener);
    node.gate.release();
    let finish = async { while connections.join_next().await.is_some() {} };
    // Stalled connections never finish; they have had their chance.
    let _ = tokio::time::timeout(Duration::from_secs(3), finish).await;
}

/// Reaper, sweeper and outbox, until told to stop.
pub(crate) async fn housekeeping(node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let mut clean = tokio::time::interval(node.settings().housekeeping);
    // The first tick comes at once; the first round is due a whole period later.
    clean.tick().await;
    let mut post = tokio::time::interval(Duration::from_millis(200));
    loop {
        // A store that is down is seen by every request; the next round may find it up again.
        tokio::select! {
            _ = clean.tick() => {
                let _ = node.sweep().await;
                let _ = node.reap().await;
            }
            () = node.outbox_woken() => { let _ = node.drain_outbox().await; }
            _ = post.tick() => { let _ = node.drain_outbox().await; }
            _ = stop.changed() => return,
        }
    }
}

async fn converse(
    node: Arc<Node>,
    stream: TcpStream,
    peer: String,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let (wire, scissors) = Wire::new(stream);
    let (instant, delay) = (node.settings().instant, node.settings().delay);
    let service = service_fn(move |request| {
        let (node, scissors, peer) = (Arc::clone(&node), scissors.clone(), peer.clone());
        async move {
            if instant && request.method() == hyper::Method::POST {
                return at_once(request, delay).await;
            }
            respond(node, scissors, peer, request).await
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().title_case_headers(true);
    let connection = builder.serve_connection(TokioIo::new(wire), service);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            // A connection that ends badly does so because its fault said so, or its client went.
            _ = connection.as_mut() => return,
            _ = stop.changed() => connection.as_mut().graceful_shutdown(),
        }
    }
}

/// The answer for benchmarks of clients: read the body, remember nothing. The only delay is the
/// shortest of those that were asked for.
async fn at_once(request: hyper::Request<WireBody>, delay: Option<(u64, u64)>) -> Served {
    let body = request.into_body();
    if !hyper::body::Body::is_end_stream(&body) {
        body.collect().await.map_err(|_| NoAnswer::Dropped)?;
    }
    if let Some((shortest, _)) = delay {
        tokio::time::sleep(Duration::from_millis(shortest)).await;
    }
    let mut response = hyper::Response::new(Body::Whole(Bytes::from_static(
        b"{\"status\":\"succeeded\"}",
    )));
    *response.status_mut() = hyper::StatusCode::CREATED;
    let kind = HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

async fn respond(
    node: Arc<Node>,
    scissors: Scissors,
    peer: String,
    request: hyper::Request<WireBody>,
) -> Served {
    let limit = node.settings().body_limit;
    let incoming = match read(request, peer, limit).await {
        Ok(incoming) => incoming,
        Err(Some(answer)) => return Ok(send(cors::dress(&node.settings(), answer))),
        Err(None) => return Err(NoAnswer::Dropped),
    };
    if incoming.method == "OPTIONS" {
        let settings = node.settings();
        return Ok(send(cors::dress(&settings, cors::preflight(&settings))));
    }
    if let Some(answer) = control::serve(&node, &incoming).await {
        return Ok(send(answer));
    }
    // A task of its own: a client that goes away does not stop work that has begun.
    let work = tokio::spawn(async move { exchange(&node, &scissors, &incoming).await });
    match work.await.unwrap_or(Err(NoAnswer::Dropped)) {
        // Here and not in the task, so that the wait ends with the connection.
        Err(NoAnswer::Stalled) => std::future::pending().await,
        served => served,
    }
}

/// Reads a request, or says why not; without words where the client went away.
async fn read(
    request: hyper::Request<WireBody>,
    peer: String,
    limit: usize,
) -> Result<Incoming, Option<Answer>> {
    let (head, body) = request.into_parts();
    let http = if head.version == hyper::Version::HTTP_2 {
        "2"
    } else {
        "1.1"
    };
    let headers = head.headers.iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let headers: Vec<_> = headers.collect();
    let body = match Limited::new(body, limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let detail = format!("Bodies end at {limit} bytes.");
            return Err(Some(Answer::problem(
                413,
                "too-large",
                "Too large",
                &detail,
            )));
        }
        Err(_) => return Err(None),
    };
    Ok(Incoming {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        headers,
        body,
        peer,
        http,
    })
}

fn open(node: &Node, incoming: &Incoming, key: Option<String>, plan: &Plan) -> u64 {
    let tenant = tenant_of(incoming);
    node.metrics.count(&tenant, Event::Arrived);
    let shown = |(name, value): &(String, String)| {
        let secret = matches!(
            name.as_str(),
            "authorization" | "cookie" | "proxy-authorization"
        );
        (
            name.clone(),
            if secret {
                "(not kept)".to_owned()
            } else {
                value.clone()
            },
        )
    };
    let query = if incoming.query.is_empty() { "" } else { "?" };
    node.log.open(Request {
        id: 0,
        at: node.now(),
        node: node.name.clone(),
        http: incoming.http,
        tenant,
        method: incoming.method.clone(),
        path: format!("{}{query}{}", incoming.path, incoming.query),
        reference: key.as_deref().and_then(reference::of_key),
        key,
        headers: incoming.headers.iter().map(shown).collect(),
        body_sha256: sha256_hex(&incoming.body),
        body_len: incoming.body.len(),
        faults: plan.faults.iter().map(Fault::to_string).collect(),
        events: vec![Event::Arrived],
        status: None,
        effect: None,
    })
}

/// One request of the shop: faults before, the work, faults after.
async fn exchange(node: &Arc<Node>, scissors: &Scissors, incoming: &Incoming) -> Served {
    let settings = node.settings();
    let body = serde_json::from_slice(&incoming.body).unwrap_or_default();
    let key = key_of(&settings, incoming, &body).ok().flatten();
    let plan = match node.plan(incoming, key.as_deref()) {
        Ok(plan) => plan,
        Err(why) => {
            let answer = Answer::problem(400, "mock-fault", "No such fault", &why);
            return Ok(send(cors::dress(&settings, answer)));
        }
    };
    let id = open(node, incoming, key.clone(), &plan);
    let outcome = match trouble::before(node, scissors, incoming, &plan, id).await {
        trouble::Next::Work => {
            let mut outcome = node.perform(incoming, &plan, id).await;
            if plan.has(&Fault::Duplicate) {
                let again = open(node, incoming, key, &Plan::default());
                close(node, incoming, id, Event::Dropped, &outcome);
                outcome = node.perform(incoming, &Plan::default(), again).await;
                close(node, incoming, again, Event::Answered, &outcome);
                return finish(&settings, outcome);
            }
            outcome
        }
        trouble::Next::Say(answer) => Outcome::Answer(answer),
        trouble::Next::Vanish(error) => {
            close(node, incoming, id, Event::Dropped, &Outcome::Lost);
            return Err(error);
        }
    };
    deliver(node, scissors, incoming, &plan, id, outcome).await
}

/// Carries the answer through the faults that strike last.
async fn deliver(
    node: &Node,
    scissors: &Scissors,
    incoming: &Incoming,
    plan: &Plan,
    id: u64,
    outcome: Outcome,
) -> Served {
    let settings = node.settings();
    let after = match &outcome {
        Outcome::Lost => trouble::After::Vanish,
        Outcome::Answer(_) => trouble::after(scissors, incoming, plan).await,
    };
    match after {
        trouble::After::Send => {
            close(node, incoming, id, Event::Answered, &outcome);
            finish(&settings, outcome)
        }
        trouble::After::Instead(answer) => {
            node.note(id, &tenant_of(incoming), Event::Gateway);
            close(
                node,
                incoming,
                id,
                Event::Dropped,
                &Outcome::Answer(answer.clone()),
            );
            finish(&settings, Outcome::Answer(answer))
        }
        trouble::After::Drip(pause) => {
            close(node, incoming, id, Event::Answered, &outcome);
            Ok(finish(&settings, outcome)?.map(|body| body.slowly(pause)))
        }
        trouble::After::Endless => {
            close(node, incoming, id, Event::Dropped, &outcome);
            Ok(finish(&settings, outcome)?.map(|_| Body::Endless))
        }
        trouble::After::Cut => {
            close(node, incoming, id, Event::Dropped, &outcome);
            finish(&settings, outcome)
        }
        trouble::After::Vanish => {
            close(node, incoming, id, Event::Dropped, &outcome);
            Err(NoAnswer::Dropped)
        }
        trouble::After::Stall => {
            close(node, incoming, id, Event::Dropped, &outcome);
            Err(NoAnswer::Stalled)
        }
    }
}

fn close(node: &Node, incoming: &Incoming, id: u64, event: Event, outcome: &Outcome) {
    if let Outcome::Answer(answer) = outcome {
        node.log
            .change(id, |request| request.status = Some(answer.status));
    }
    node.note(id, &tenant_of(incoming), event);
}

fn finish(settings: &crate::settings::Settings, outcome: Outcome) -> Served {
    match outcome {
        Outcome::Answer(answer) => Ok(send(cors::dress(settings, answer))),
        Outcome::Lost => Err(NoAnswer::Dropped),
    }
}

/// An answer as the wire library wants it.
fn send(answer: Answer) -> hyper::Response<Body> {
    let mut response = hyper::Response::new(Body::Whole(Bytes::from(answer.body)));
    if answer.status == 422 {
        // The wire library still has the name from before RFC 9110.
        let phrase = hyper::ext::ReasonPhrase::from_static(b"Unprocessable Content");
        response.extensions_mut().insert(phrase);
    }
    *response.status_mut() = hyper::StatusCode::from_u16(answer.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
