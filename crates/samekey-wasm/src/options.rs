//! What a page asks for, read from plain objects.

use crate::shape::{get, set};
use js_sys::{Array, Function, Object, Promise};
use samekey::platform::web::{Cookies, FetchTransport};
use samekey::seam::BoxFuture;
use samekey::{
    Asked, Body, ClientBuilder, Credentials, CredentialsError, Headers, Policy, Profile,
};
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

pub(crate) fn text(options: &JsValue, name: &str) -> Option<String> {
    get(options, name).as_string()
}

fn texts(options: &JsValue, name: &str) -> Vec<String> {
    let list = get(options, name);
    if !list.is_object() {
        return Vec::new();
    }
    let list = Array::from(&list);
    list.iter().filter_map(|item| item.as_string()).collect()
}

fn millis(options: &JsValue, name: &str) -> Option<Duration> {
    // A number below zero, or none at all, becomes 0, and the policy complains of it.
    let number = get(options, name).as_f64()?;
    Some(Duration::from_millis(number as u64))
}

fn policy(options: &JsValue) -> Policy {
    let mut policy = Policy::new();
    if let Some(attempts) = get(options, "maxAttempts").as_f64() {
        policy = policy.max_attempts(attempts as u32);
    }
    if let Some(base) = millis(options, "base") {
        policy = policy.base(base);
    }
    if let Some(cap) = millis(options, "cap") {
        policy = policy.cap(cap);
    }
    if let Some(timeout) = millis(options, "attemptTimeout") {
        policy = policy.attempt_timeout(timeout);
    }
    if let Some(total) = millis(options, "giveUpAfter") {
        policy = policy.give_up_after(total);
    }
    if let Some(above) = millis(options, "deferAbove") {
        policy = policy.defer_above(above);
    }
    policy
}

/// The profile of this name.
pub(crate) fn profile(name: &str) -> Result<Profile, JsValue> {
    Profile::named(name).ok_or_else(|| {
        let known = "see the README for those there are";
        invalid(&format!("there is no profile {name:?}; {known}"))
    })
}

/// A mistake in the options themselves.
pub(crate) fn invalid(message: &str) -> JsValue {
    let object = Object::new();
    set(&object, "kind", "InvalidConfiguration");
    set(&object, "message", message);
    set(&object, "nothingWasSent", true);
    object.into()
}

pub(crate) fn configure(
    mut builder: ClientBuilder,
    options: &JsValue,
) -> Result<ClientBuilder, JsValue> {
    builder = builder.policy(policy(&get(options, "policy")));
    if let Some(scope) = text(options, "scope") {
        builder = builder.principal(&scope);
    }
    if let Some(name) = text(options, "profile") {
        builder = builder.profile(profile(&name)?);
    }
    for origin in texts(options, "allowOrigins") {
        builder = builder.allow_origin(&origin);
    }
    for header in texts(options, "keepHeaders") {
        builder = builder.keep_header(&header);
    }
    if get(options, "keepBodies").as_bool() == Some(false) {
        builder = builder.body(Body::FingerprintOnly);
    }
    if let Ok(callback) = get(options, "credentials").dyn_into::<Function>() {
        builder = builder.credentials(Callback(callback));
    }
    let cookies = match text(options, "cookies").as_deref() {
        Some("include") => Cookies::Include,
        Some("omit") => Cookies::Omit,
        _ => Cookies::SameOrigin,
    };
    Ok(builder.transport(FetchTransport::new().cookies(cookies)))
}

/// The page's callback for credentials.
struct Callback(Function);

impl Credentials for Callback {
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        Box::pin(async move {
            let question = Object::new();
            set(&question, "origin", asked.origin.to_string());
            set(&question, "scope", asked.scope.as_str());
            set(&question, "refresh", asked.refresh);
            let answer = match self.0.call1(&JsValue::UNDEFINED, &question) {
                Ok(promise) => JsFuture::from(promise.unchecked_into::<Promise>()).await,
                Err(error) => Err(error),
            };
            // The exception's own text may hold a secret.
            let answer = answer.map_err(|_| "it threw an exception")?;
            Ok(header_lines(&answer)?)
        })
    }
}

/// Headers from an object of names and values.
pub(crate) fn header_lines(object: &JsValue) -> Result<Headers, samekey::InvalidMessage> {
    let mut headers = Headers::new();
    if let Some(object) = object.dyn_ref::<Object>() {
        for line in Object::entries(object).iter() {
            let line: Array = line.unchecked_into();
            if let (Some(name), Some(value)) = (line.get(0).as_string(), line.get(1).as_string()) {
                headers.push(&name, &value)?;
            }
        }
    }
    Ok(headers)
}
