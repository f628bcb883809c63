//! A small shop, so that effects are real rows: orders, payments, refunds, exports.

use crate::answer::Answer;
use crate::clock::Millis;
use crate::routes::Kind;
use crate::store::{Delivery, Effect, Message, Res, Slot, Store};
use serde_json::{Value, json};

/// The item of which there is one.
pub const LAST_ITEM: &str = "last-one";
const DECLINE_ABOVE: i64 = 1_000_000;

/// One thing that a client wants done.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) kind: Kind,
    pub(crate) slot: Slot,
    /// The last segment of the path, where the route has one.
    pub(crate) target: String,
    /// The body where it is JSON, else null.
    pub(crate) body: Value,
    pub(crate) export_time: Millis,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) effect: Option<u64>,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            effect: None,
        }
    }
}

/// Does the work inside the caller's transaction.
pub(crate) fn act(store: &mut dyn Store, action: &Action, now: Millis) -> Res<Done> {
    match action.kind {
        Kind::Order => order(store, action, now),
        Kind::Payment => money(store, action, now, "payment", "pay", "charge"),
        Kind::Refund => money(store, action, now, "refund", "ref", "refund"),
        Kind::Export => export(store, action, now),
        Kind::ChangeOrder => change(store, action, now, "changed"),
        Kind::ReplaceOrder => change(store, action, now, "replaced"),
        Kind::CancelOrder => change(store, action, now, "cancelled"),
        Kind::Read | Kind::KeyState => Ok(Answer::new(405).into()),
    }
}

fn invalid(detail: &str) -> Done {
    Answer::problem(422, "invalid", "The request is not valid", detail).into()
}

/// A whole number of the body, the default where it is absent, none where it is nonsense.
fn whole(body: &Value, name: &str, default: i64) -> Option<i64> {
    match body.get(name) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_i64().filter(|n| *n > 0),
    }
}

fn effect(store: &mut dyn Store, action: &Action, kind: &str, amount: i64, at: Millis) -> Res<u64> {
    store.add_effect(&Effect {
        id: 0,
        slot: action.slot.clone(),
        kind: kind.to_owned(),
        amount,
        at,
    })
}

fn created(
    store: &mut dyn Store,
    action: &Action,
    effect: u64,
    path: &str,
    id: &str,
    state: &Value,
) -> Res<Done> {
    store.put_object(id, &action.slot.tenant, &state.to_string())?;
    let answer = Answer::json(201, state).header("location", &format!("/{path}/{id}"));
    Ok(Done {
        answer,
        effect: Some(effect),
    })
}

fn order(store: &mut dyn Store, action: &Action, now: Millis) -> Res<Done> {
    let item = action
        .body
        .get("item")
        .and_then(Value::as_str)
        .unwrap_or("thing");
    let Some(quantity) = whole(&action.body, "quantity", 1) else {
        return Ok(invalid("`quantity` must be a positive whole number."));
    };
    if !store.take_stock(item)? {
        let detail = format!("There is no `{item}` left.");
        return Ok(Answer::problem(409, "out-of-stock", "Out of stock", &detail).into());
    }
    let number = effect(store, action, "order", quantity, now)?;
    let id = format!("ord_{number:06}");
    let state = json!({ "id": id, "item": item, "quantity": quantity, "status": "created" });
    created(store, action, number, "orders", &id, &state)
}

fn money(
    store: &mut dyn Store,
    action: &Action,
    now: Millis,
    kind: &str,
    prefix: &str,
    downstream: &str,
) -> Res<Done> {
    let Some(amount) = whole(&action.body, "amount", 100) else {
        return Ok(invalid("`amount` must be a positive whole number."));
    };
    let currency = action
        .body
        .get("currency")
        .and_then(Value::as_str)
        .unwrap_or("EUR");
    if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_uppercase()) {
        let detail = "`currency` must be three capital letters.";
        return Ok(Answer::problem(422, "currency", "Unknown currency", detail).into());
    }
    if amount > DECLINE_ABOVE {
        let detail = format!("Amounts above {DECLINE_ABOVE} are declined here.");
        return Ok(Answer::problem(402, "declined", "The payment was declined", &detail).into());
    }
    let about = ["order", "payment"]
        .into_iter()
        .find_map(|n| action.body.get(n)?.as_str());
    if let Some(id) = about {
        match store.object(id)? {
            Some((tenant, state)) if tenant == action.slot.tenant => {
                let mut state: Value = serde_json::from_str(&state).unwrap_or_default();
                state["status"] = json!(if kind == "refund" { "refunded" } else { "paid" });
                store.put_object(id, &tenant, &state.to_string())?;
            }
            _ => {
                let detail = format!("There is no `{id}`.");
                return Ok(Answer::problem(404, "not-found", "Not found", &detail).into());
            }
        }
    }
    let number = effect(store, action, kind, amount, now)?;
    store.add_message(&Message {
        id: 0,
        effect: number,
        key: action.slot.key.clone(),
        kind: downstream.to_owned(),
        amount,
        delivery: Delivery::Pending,
        tries: 0,
        due: now,
        provider_id: None,
    })?;
    let id = format!("{prefix}_{number:06}");
    let state = json!({ "id": id, "amount": amount, "currency": currency, "status": "succeeded" });
    created(store, action, number, &format!("{kind}s"), &id, &state)
}

fn export(store: &mut dyn Store, action: &Action, now: Millis) -> Res<Done> {
    let number = effect(store, action, "export", 1, now)?;
    let token = format!("exp_{number:06}");
    let state = json!({ "token": token, "ready": now.saturating_add(action.export_time) });
    store.put_object(&token, &action.slot.tenant, &state.to_string())?;
    let answer = Answer::json(202, &json!({ "status": "running", "token": token }))
        .header("location", &format!("/exports/{token}"))
        .header("retry-after", "1");
    Ok(Done {
        answer,
        effect: Some(number),
    })
}

fn change(store: &mut dyn Store, action: &Action, now: Millis, word: &str) -> Res<Done> {
    let found = store
        .object(&action.target)?
        .filter(|(tenant, _)| *tenant == action.slot.tenant);
    let Some((tenant, state)) = found else {
        return Ok(Answer::problem(404, "not-found", "Not found", "No such order.").into());
    };
    let mut state: Value = serde_json::from_str(&state).unwrap_or_default();
    state["status"] = json!(word);
    store.put_object(&action.target, &tenant, &state.to_string())?;
    let number = effect(store, action, word, 1, now)?;
    Ok(Done {
        answer: Answer::json(200, &state),
        effect: Some(number),
    })
}

/// The present state of an order, payment, refund or export; never from the keys' stored answers.
pub(crate) fn read(store: &mut dyn Store, tenant: &str, id: &str, now: Millis) -> Res<Answer> {
    let found = store.object(id)?.filter(|(owner, _)| owner == tenant);
    let Some((_, state)) = found else {
        return Ok(Answer::problem(
            404,
            "not-found",
            "Not found",
            "There is no such thing.",
        ));
    };
    let state: Value = serde_json::from_str(&state).unwrap_or_default();
    let Some(ready) = state.get("ready").and_then(Value::as_i64) else {
        return Ok(Answer::json(200, &state));
    };
    let running = now < ready;
    let status = if running { "running" } else { "done" };
    let body = json!({ "status": status, "token": id, "rows": if running { 0 } else { 3 } });
    if running {
        return Ok(Answer::json(202, &body).header("retry-after", "1"));
    }
    Ok(Answer::json(200, &body))
}
