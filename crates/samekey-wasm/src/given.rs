//! What the package asks for. It has looked at its users' options already: here are plain values.

use js_sys::{Function, Promise};
use samekey::platform::web::{Cookies, FetchTransport};
use samekey::seam::BoxFuture;
use samekey::{
    Asked, Body, ClientBuilder, Credentials, CredentialsError, Headers, OperationBuilder, Policy,
    Profile,
};
use std::fmt;
use std::time::Duration;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// For a client.
    pub type Options;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn application(this: &Options) -> String;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn journal(this: &Options) -> String;
    /// `indexeddb`, `localstorage` or `memory`.
    #[wasm_bindgen(method, getter)]
    pub(crate) fn store(this: &Options) -> String;
    #[wasm_bindgen(method, getter)]
    fn scope(this: &Options) -> Option<String>;
    /// Attempts, then milliseconds in the order of `policy` below.
    #[wasm_bindgen(method, getter)]
    fn policy(this: &Options) -> Vec<f64>;
    #[wasm_bindgen(method, getter)]
    fn profile(this: &Options) -> Option<String>;
    /// Lines.
    #[wasm_bindgen(method, getter)]
    fn origins(this: &Options) -> String;
    /// Lines.
    #[wasm_bindgen(method, getter)]
    fn headers(this: &Options) -> String;
    #[wasm_bindgen(method, getter)]
    fn bodies(this: &Options) -> bool;
    #[wasm_bindgen(method, getter)]
    fn cookies(this: &Options) -> Option<String>;
    #[wasm_bindgen(method, getter)]
    fn credentials(this: &Options) -> Option<Function>;

    /// For an operation.
    pub type Request;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn intent(this: &Request) -> String;
    /// Of the operation that is repeated.
    #[wasm_bindgen(method, getter)]
    pub(crate) fn previous(this: &Request) -> Option<String>;
    #[wasm_bindgen(method, getter, js_name = evenIfUnresolved)]
    pub(crate) fn even_if_unresolved(this: &Request) -> bool;
    #[wasm_bindgen(method, getter)]
    fn url(this: &Request) -> Option<String>;
    #[wasm_bindgen(method, getter)]
    fn method(this: &Request) -> String;
    #[wasm_bindgen(method, getter)]
    fn body(this: &Request) -> Option<Vec<u8>>;
    #[wasm_bindgen(method, getter, js_name = contentType)]
    fn content_type(this: &Request) -> String;
    /// Names and values, in lines.
    #[wasm_bindgen(method, getter)]
    fn headers(this: &Request) -> String;
    #[wasm_bindgen(method, getter, js_name = withKey)]
    fn with_key(this: &Request) -> bool;
    #[wasm_bindgen(method, getter, js_name = adoptKey)]
    fn adopt_key(this: &Request) -> Option<String>;
    #[wasm_bindgen(method, getter)]
    fn window(this: &Request) -> Option<f64>;
    #[wasm_bindgen(method, getter)]
    fn profile(this: &Request) -> Option<String>;
}

/// A number below zero, or none at all, becomes 0, and the policy complains of it.
fn millis(number: f64) -> Duration {
    Duration::from_millis(number as u64)
}

/// What is no number keeps its default.
fn policy(given: &[f64]) -> Policy {
    let mut policy = Policy::new();
    for (at, number) in given.iter().copied().enumerate() {
        policy = match at {
            _ if number.is_nan() => policy,
            0 => policy.max_attempts(number as u32),
            1 => policy.base(millis(number)),
            2 => policy.cap(millis(number)),
            3 => policy.attempt_timeout(millis(number)),
            4 => policy.give_up_after(millis(number)),
            _ => policy.defer_above(millis(number)),
        };
    }
    policy
}

/// A mistake in what was asked for, in words.
pub(crate) type Mistake = String;

fn profile(name: &str) -> Result<Profile, Mistake> {
    Profile::named(name).ok_or_else(|| {
        let unknown = [
            "there is no profile ",
            name,
            "; the README lists those there are",
        ];
        unknown.concat()
    })
}

/// The lines of a list.
fn given(list: &str) -> impl Iterator<Item = &str> {
    list.split('\n').filter(|line| !line.is_empty())
}

pub(crate) fn configure(
    mut builder: ClientBuilder,
    options: &Options,
) -> Result<ClientBuilder, Mistake> {
    builder = builder.policy(policy(&options.policy()));
    if let Some(scope) = options.scope() {
        builder = builder.principal(&scope);
    }
    if let Some(name) = options.profile() {
        builder = builder.profile(profile(&name)?);
    }
    for origin in given(&options.origins()) {
        builder = builder.allow_origin(origin);
    }
    for header in given(&options.headers()) {
        builder = builder.keep_header(header);
    }
    if !options.bodies() {
        builder = builder.body(Body::FingerprintOnly);
    }
    if let Some(callback) = options.credentials() {
        builder = builder.credentials(Callback(callback));
    }
    let cookies = match options.cookies().as_deref() {
        Some("include") => Cookies::Include,
        Some("omit") => Cookies::Omit,
        _ => Cookies::SameOrigin,
    };
    Ok(builder.transport(FetchTransport::new().cookies(cookies)))
}

pub(crate) fn describe(
    mut builder: OperationBuilder,
    request: &Request,
) -> Result<OperationBuilder, Mistake> {
    if let Some(url) = request.url() {
        builder = builder.method(&request.method(), &url);
        if let Some(body) = request.body() {
            builder = builder.body(body, &request.content_type());
        }
    }
    let lines = request.headers();
    let mut lines = lines.split('\n');
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        builder = builder.header(name, value);
    }
    if request.with_key() {
        builder = builder.with_key();
    }
    if let Some(key) = request.adopt_key() {
        builder = builder.adopt_key(&key);
    }
    if let Some(window) = request.window() {
        builder = builder.window(millis(window));
    }
    if let Some(name) = request.profile() {
        builder = builder.profile(profile(&name)?);
    }
    Ok(builder)
}

/// Why there are no credentials.
struct Threw;

impl fmt::Display for Threw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the callback threw an exception")
    }
}

impl fmt::Debug for Threw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Threw {}

/// The package's callback for credentials: a promise of names and values, in lines.
struct Callback(Function);

impl Credentials for Callback {
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        Box::pin(async move {
            let origin = asked.origin.to_string().into();
            let (scope, refresh) = (asked.scope.as_str().into(), asked.refresh.into());
            let answer = match self.0.call3(&JsValue::UNDEFINED, &origin, &scope, &refresh) {
                Ok(promise) => JsFuture::from(promise.unchecked_into::<Promise>()).await,
                Err(error) => Err(error),
            };
            // The exception's own text may hold a secret.
            let answer = answer.map_err(|_| Threw)?;
            let lines = answer.as_string().unwrap_or_default();
            let (mut lines, mut headers) = (lines.split('\n'), Headers::new());
            while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
                headers.push(name, value)?;
            }
            Ok(headers)
        })
    }
}
