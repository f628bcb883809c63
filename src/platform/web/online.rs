//! Waiting for the network: an attempt that cannot leave is not made.

use crate::journal::browser::page::{global, member, promise, wait};
use wasm_bindgen::JsCast;
use web_sys::EventTarget;

/// Whether the browser is sure that there is no network.
fn is_offline() -> bool {
    member(&global("navigator"), "onLine").as_bool() == Some(false)
}

/// Resolves when the browser does not claim to be offline.
pub(super) async fn online() {
    while is_offline() {
        let Ok(page) = js_sys::global().dyn_into::<EventTarget>() else {
            return;
        };
        let (came, fulfil) = promise();
        if page
            .add_event_listener_with_callback("online", &fulfil)
            .is_err()
        {
            return;
        }
        let _ = wait(came.into()).await;
        let _ = page.remove_event_listener_with_callback("online", &fulfil);
    }
}
