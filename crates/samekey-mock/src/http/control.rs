//! The operator's side, under `/_mock`, and the page at `/`.

use crate::answer::Answer;
use crate::clock::http_date;
use crate::faults::{Fault, Rule};
use crate::http::cors;
use crate::metrics;
use crate::naughty::Naughty;
use crate::node::{Incoming, Node, reconcile};
use crate::page;
use crate::routes::audit;
use crate::store::{Slot, StoreError};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Answers a request that is not for the shop.
pub(super) async fn serve(node: &Node, incoming: &Incoming) -> Option<Answer> {
    let reads = matches!(incoming.method.as_str(), "GET" | "HEAD");
    if let Some(asset) = page::asset(&incoming.path).filter(|_| reads) {
        return Some(asset);
    }
    let path = incoming.path.strip_prefix("/_mock/")?;
    let answer = if reads {
        look(node, path, incoming).await
    } else {
        act(node, path, incoming).await
    };
    let answer = answer.unwrap_or_else(|_| Answer::json(503, &json!({ "error": "store" })));
    // The tests of browser clients read the ledger from pages of other origins.
    Some(cors::dress(
        &node.settings(),
        answer.header("cache-control", "no-store"),
    ))
}

fn nothing() -> Answer {
    Answer::json(404, &json!({ "error": "no such control; see the README" }))
}

fn query(incoming: &Incoming, name: &str) -> Option<String> {
    let pairs = incoming
        .query
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(n, _)| *n == name)?.1;
    Some(value.replace("%20", " ").replace('+', " "))
}

async fn look(node: &Node, path: &str, incoming: &Incoming) -> Result<Answer, StoreError> {
    Ok(match path {
        "health" => Answer::json(200, &json!({ "ok": !node.is_down() })),
        "ledger" => {
            let mut ledger = serde_json::to_value(node.ledger_async().await).unwrap_or_default();
            let last = query(incoming, "last").and_then(|n| n.parse::<usize>().ok());
            if let (Some(last), Some(rows)) = (last, ledger["requests"].as_array_mut()) {
                rows.drain(..rows.len().saturating_sub(last));
            }
            Answer::json(200, &ledger)
        }
        "state" => Answer::json(200, &state(node).await),
        "faults" => Answer::json(200, &json!({ "rules": node.faults().rules() })),
        "routes" => Answer::json(200, &json!(audit(node.settings().naughty))),
        "metrics" => {
            let (gauges, counts) = figures(node).await;
            Answer::new(200)
                .header("content-type", "text/plain; version=0.0.4")
                .body(metrics::exposition(&gauges, &counts))
        }
        "alerts" => {
            let (gauges, counts) = figures(node).await;
            Answer::json(200, &json!(metrics::alerts(&gauges, &counts)))
        }
        "reconciliation" => {
            let report = reconcile(&node.ledger_async().await);
            let clean = report.is_clean();
            Answer::json(200, &json!({ "clean": clean, "report": report }))
        }
        "find" => {
            let asked = query(incoming, "q").unwrap_or_default();
            Answer::json(
                200,
                &json!({ "matches": node.find_keys(None, &asked).await? }),
            )
        }
        _ => nothing(),
    })
}

async fn figures(node: &Node) -> (metrics::Gauges, metrics::Counts) {
    let ledger = node.ledger_async().await;
    let gauges = metrics::gauges(&ledger, node.rules().lock_limit, node.now(), node.is_down());
    (gauges, node.metrics.counts())
}

/// Everything that the page shows besides the ledger.
async fn state(node: &Node) -> Value {
    let settings = node.settings();
    let (gauges, counts) = figures(node).await;
    let switches = Naughty::ALL
        .iter()
        .map(|n| json!({ "name": n.name(), "about": n.about(), "on": settings.naughty.has(*n) }));
    json!({
        "node": node.name,
        "version": *node.log.listen().borrow(),
        "profile": settings.profile.name(),
        "file": settings.file.as_ref().map(|path| path.display().to_string()),
        "now": node.now(),
        "date": http_date(node.now()),
        "held": node.gate.is_closed(),
        "store_down": node.is_down(),
        "rules": node.faults().rules(),
        "menu": Fault::examples(),
        "naughty": switches.collect::<Vec<_>>(),
        "gauges": gauges,
        "counts": counts,
        "alerts": metrics::alerts(&gauges, &counts),
        "routes": audit(settings.naughty),
        "commits": node.writer.commits(),
    })
}

async fn act(node: &Node, path: &str, incoming: &Incoming) -> Result<Answer, StoreError> {
    let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    let done = Answer::json(200, &json!({ "ok": true }));
    let delete = incoming.method == "DELETE";
    Ok(match path {
        "faults" if delete => {
            node.faults().clear(query(incoming, "name").as_deref());
            done
        }
        "faults" => set_fault(node, incoming, &body),
        "naughty" => match body["name"].as_str().unwrap_or("").parse::<Naughty>() {
            Ok(switch) => {
                let on = body["on"].as_bool().unwrap_or(true);
                node.change_settings(|settings| settings.naughty.set(switch, on));
                done
            }
            Err(why) => refused(&why),
        },
        "clock" => match body["seconds"].as_i64() {
            Some(seconds) => {
                node.clock.jump(seconds.saturating_mul(1000));
                Answer::json(200, &json!({ "now": http_date(node.now()) }))
            }
            None => refused("give `seconds` as a whole number"),
        },
        "gate" => match body["state"].as_str() {
            Some("hold") => {
                node.gate.hold();
                done
            }
            Some("pass") => {
                node.gate.pass();
                done
            }
            Some("release") => {
                node.gate.release();
                done
            }
            _ => refused("`state` is hold, pass or release"),
        },
        "store" => {
            node.store_down
                .store(body["down"].as_bool().unwrap_or(true), Ordering::Relaxed);
            done
        }
        "sweep" => Answer::json(200, &json!(node.sweep().await?)),
        "reap" => Answer::json(200, &json!({ "batches": node.reap().await? })),
        "outbox" => Answer::json(200, &json!({ "delivered": node.drain_outbox().await? })),
        "review" => review(node, &body).await?,
        _ => nothing(),
    })
}

fn refused(why: &str) -> Answer {
    Answer::json(400, &json!({ "error": why }))
}

fn set_fault(node: &Node, incoming: &Incoming, body: &Value) -> Answer {
    let text = match body["rule"].as_str() {
        Some(rule) => rule.to_owned(),
        None => String::from_utf8_lossy(&incoming.body).trim().to_owned(),
    };
    match text.parse::<Rule>() {
        Ok(rule) => {
            node.faults().add(rule);
            node.log.ring();
            Answer::json(200, &json!({ "rules": node.faults().rules() }))
        }
        Err(why) => refused(&why),
    }
}

/// A person has looked: the key is free, the next retry runs.
async fn review(node: &Node, body: &Value) -> Result<Answer, StoreError> {
    let text = |name: &str| body[name].as_str().unwrap_or("").to_owned();
    let slot = Slot {
        tenant: text("tenant"),
        operation: text("operation"),
        key: text("key"),
    };
    let found = node.writer.call(move |store| {
        let found = store.find(&slot)?.is_some();
        store.remove(&slot)?;
        Ok(found)
    });
    if found.await? {
        return Ok(Answer::json(200, &json!({ "freed": true })));
    }
    Ok(nothing())
}
