//! The page's global object, by reflection: the same in a window, a worker and in Node.

use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// A member of an object; undefined where there is none, or where looking is forbidden.
pub(crate) fn member(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// A member of the global object.
pub(crate) fn global(name: &str) -> JsValue {
    member(&js_sys::global(), name)
}

/// A method of an object.
pub(crate) fn method(object: &JsValue, name: &str) -> Result<Function, JsValue> {
    let found = member(object, name);
    found
        .dyn_into()
        .map_err(|_| JsValue::from(format!("this browser has no {name}")))
}

/// Sets a member of a plain object.
pub(crate) fn set(object: &JsValue, name: &str, value: &JsValue) {
    // A plain object takes every member.
    let _ = Reflect::set(object, &name.into(), value);
}

/// An exception as a sentence.
pub(crate) fn text_of(error: &JsValue) -> String {
    let part = |name| member(error, name).as_string();
    match (part("name"), part("message"), error.as_string()) {
        (Some(name), Some(message), _) => format!("{name}: {message}"),
        (_, Some(message), _) => message,
        (_, _, Some(text)) => text,
        _ => "unknown trouble".into(),
    }
}

/// Randomness of the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), JsValue> {
    let crypto = global("crypto");
    let array = Uint8Array::new_with_length(u32::try_from(bytes.len()).unwrap_or(0));
    method(&crypto, "getRandomValues")?.call1(&crypto, &array)?;
    array.copy_to(bytes);
    Ok(())
}

/// Waits for a promise that the browser gave.
pub(crate) fn wait(promise: JsValue) -> JsFuture {
    JsFuture::from(promise.unchecked_into::<Promise>())
}

/// A promise, and the function that fulfils it.
pub(crate) fn promise() -> (Promise, Function) {
    let mut fulfil = Function::default();
    let promise = Promise::new(&mut |resolve, _| fulfil = resolve);
    (promise, fulfil)
}
