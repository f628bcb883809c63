//! What the package asks for. It has looked at its users' options already: here are plain values, in the
//! order in which `pkg/src/client.ts` lists them.

use crate::raw::ask;
use crate::told::mistake;
use samekey::platform::web::border::{Job, Pack, Values};
use samekey::platform::web::{Cookies, FetchTransport};
use samekey::seam::BoxFuture;
use samekey::{
    Asked, Body, Client, ClientBuilder, Credentials, CredentialsError, Headers, OperationBuilder,
    Policy, Profile, Reference,
};
use std::fmt;
use std::time::Duration;

/// A number below zero, or none at all, becomes 0, and the policy complains of it.
fn millis(number: f64) -> Duration {
    Duration::from_millis(number as u64)
}

/// What is not given keeps its default.
fn policy(values: &mut Values<'_>) -> Policy {
    let mut policy = Policy::new();
    for at in 0..6 {
        let Some(number) = values.optional_number() else {
            continue;
        };
        policy = match at {
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

fn profile(name: &str) -> Result<Profile, Pack> {
    Profile::named(name).ok_or_else(|| {
        let unknown = [
            "there is no profile ",
            name,
            "; the README lists those there are",
        ];
        mistake(&unknown.concat())
    })
}

pub(crate) fn reference(given: &str) -> Result<Reference, Pack> {
    given
        .parse()
        .map_err(|error: samekey::InvalidReference| mistake(&error.to_string()))
}

/// The lines of a list.
fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.split('\n').filter(|line| !line.is_empty())
}

pub(crate) fn configure(
    mut builder: ClientBuilder,
    values: &mut Values<'_>,
) -> Result<ClientBuilder, Pack> {
    if let Some(scope) = values.optional() {
        builder = builder.principal(scope);
    }
    if let Some(name) = values.optional() {
        builder = builder.profile(profile(name)?);
    }
    let cookies = match values.text() {
        "include" => Cookies::Include,
        "omit" => Cookies::Omit,
        _ => Cookies::SameOrigin,
    };
    builder = builder.transport(FetchTransport::new().cookies(cookies));
    for origin in lines(values.text()) {
        builder = builder.allow_origin(origin);
    }
    for header in lines(values.text()) {
        builder = builder.keep_header(header);
    }
    if !values.flag() {
        builder = builder.body(Body::FingerprintOnly);
    }
    if let Some(number) = values.optional_number() {
        builder = builder.credentials(Callback(number));
    }
    Ok(builder.policy(policy(values)))
}

pub(crate) fn describe(client: &Client, values: &mut Values<'_>) -> Result<OperationBuilder, Pack> {
    let (previous, even_if_unresolved) = (values.optional(), values.flag());
    let intent = values.text();
    let mut builder = match previous {
        None => client.operation(intent),
        Some(previous) => client.repeat(reference(previous)?),
    };
    if even_if_unresolved {
        builder = builder.even_if_unresolved();
    }
    if let (Some(url), method) = (values.optional(), values.text()) {
        builder = builder.method(method, url);
    }
    if let (Some(body), content_type) = (values.optional_bytes(), values.text()) {
        builder = builder.body(body, content_type);
    }
    if values.flag() {
        builder = builder.with_key();
    }
    if let Some(key) = values.optional() {
        builder = builder.adopt_key(key);
    }
    if let Some(window) = values.optional_number() {
        builder = builder.window(millis(window));
    }
    if let Some(name) = values.optional() {
        builder = builder.profile(profile(name)?);
    }
    // What a success must have: nothing, a body (empty text), or a header of this name.
    match values.optional() {
        Some("") => builder = builder.complete_with_body(),
        Some(header) => builder = builder.complete_with_header(header),
        None => {}
    }
    while !values.is_empty() {
        builder = builder.header(values.text(), values.text());
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

/// The package's callback for credentials, by its number: a job that ends in names and values.
struct Callback(f64);

impl Credentials for Callback {
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        let mut pack = Pack::of("credentials");
        pack.number(self.0);
        pack.text(&asked.origin.to_string());
        pack.text(asked.scope.as_str());
        pack.flag(asked.refresh);
        let job = Job::number(ask(pack.as_bytes()));
        Box::pin(async move {
            let answer = job.await;
            let mut values = Values::new(&answer);
            // The exception's own text may hold a secret.
            if values.flag() {
                return Err(Threw.into());
            }
            let mut headers = Headers::new();
            while !values.is_empty() {
                headers.push(values.text(), values.text())?;
            }
            Ok(headers)
        })
    }
}
