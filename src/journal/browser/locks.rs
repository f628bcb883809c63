//! Web Locks: a tab's proof of life, which the browser takes away when the tab ends.
//!
//! By reflection, because the bindings would ask every user for a compiler flag.

use super::page::{global, member, method, promise, set, wait};
use js_sys::{Array, Function, Object, Promise};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

/// A lock that is held until this is dropped, or until the tab ends.
pub(super) struct Held(Function);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.call0(&JsValue::UNDEFINED);
    }
}

/// The browser's lock manager; `None` where it has none, as on a page without https.
pub(super) fn manager() -> Option<JsValue> {
    let locks = member(&global("navigator"), "locks");
    locks.is_object().then_some(locks)
}

/// Takes a lock if nobody has it.
pub(super) async fn take(manager: &JsValue, name: &str) -> Result<Option<Held>, JsValue> {
    let (until_released, release) = promise();
    let (asked, answer) = promise();
    let granted = Closure::once_into_js(move |lock: JsValue| -> Promise {
        let free = lock.is_object();
        let _ = answer.call1(&JsValue::UNDEFINED, &free.into());
        if free {
            until_released
        } else {
            Promise::resolve(&JsValue::UNDEFINED)
        }
    });
    let options = Object::new();
    set(&options, "ifAvailable", &true.into());
    let request = method(manager, "request")?;
    let over: Promise = request
        .call3(manager, &name.into(), &options, &granted)?
        .unchecked_into();
    // Either the callback is called, or the request fails.
    let first = Promise::race(&Array::of2(&asked, &over));
    let free = wait(first.into()).await?.as_bool() == Some(true);
    Ok(free.then_some(Held(release)))
}

/// Whether anyone of this origin holds the lock.
pub(super) async fn is_held(manager: &JsValue, name: &str) -> Result<bool, JsValue> {
    let query = method(manager, "query")?.call0(manager)?;
    let held = member(&wait(query).await?, "held");
    let held = Array::from(&held);
    Ok(held
        .iter()
        .any(|lock| member(&lock, "name").as_string().as_deref() == Some(name)))
}
