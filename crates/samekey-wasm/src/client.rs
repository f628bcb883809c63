//! A client, and the store that it was opened with.

use crate::operation::RawOperation;
use crate::options::{configure, header_lines, invalid, profile, text};
use crate::shape::{self, get, promise};
use js_sys::{Array, Promise, Uint8Array};
use samekey::journal::{JournalErrorKind, Select};
use samekey::{
    Client, Error, IndexedDbJournal, LocalStorageJournal, MemoryJournal, Operation,
    OperationBuilder, Reference,
};
use std::time::Duration;
use wasm_bindgen::prelude::*;

#[derive(Clone)]
enum Store {
    IndexedDb(IndexedDbJournal),
    LocalStorage(LocalStorageJournal),
    Memory,
}

/// A client; the package's `Client` is made of it.
#[wasm_bindgen]
pub struct RawClient {
    client: Client,
    store: Store,
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn fail(error: Error) -> JsValue {
    shape::error(&error)
}

/// Opens the store that was asked for, or its fallback where the browser refuses IndexedDB.
async fn open_store(options: &JsValue, name: &str) -> Result<Store, Error> {
    let local = || async { Ok(Store::LocalStorage(LocalStorageJournal::open(name).await?)) };
    match text(options, "store").as_deref() {
        Some("memory") => Ok(Store::Memory),
        Some("localstorage") => local().await,
        _ => match IndexedDbJournal::open(name).await {
            Ok(journal) => Ok(Store::IndexedDb(journal)),
            Err(error)
                if error.kind() == JournalErrorKind::Unavailable
                    && get(options, "fallback").as_bool() == Some(true) =>
            {
                local().await
            }
            Err(error) => Err(error.into()),
        },
    }
}

fn handles(found: Vec<Operation>) -> JsValue {
    let handles = found
        .into_iter()
        .map(|operation| JsValue::from(RawOperation::new(operation)));
    handles.collect::<Array>().into()
}

#[wasm_bindgen]
impl RawClient {
    /// Opens the journal and builds a client.
    pub fn open(options: JsValue) -> Promise {
        promise(async move {
            let application = text(&options, "application").unwrap_or_default();
            let builder = configure(Client::builder(&application), &options)?;
            let journal =
                text(&options, "journal").unwrap_or_else(|| format!("samekey-{application}"));
            let store = open_store(&options, &journal).await.map_err(fail)?;
            let builder = match &store {
                Store::IndexedDb(journal) => builder.journal(journal.clone()),
                Store::LocalStorage(journal) => builder.journal(journal.clone()),
                Store::Memory => builder.journal(MemoryJournal::new()),
            };
            let client = builder.build().map_err(fail)?;
            Ok(RawClient { client, store }.into())
        })
    }

    /// Makes an operation durable.
    pub fn begin(&self, intent: &str, request: JsValue) -> Promise {
        begin(Ok(self.client.operation(intent)), request)
    }

    /// Makes a deliberate repeat of an earlier operation durable.
    pub fn repeat(&self, reference: &str, request: JsValue) -> Promise {
        let builder = parse(reference).map(|previous| {
            let builder = self.client.repeat(previous);
            match get(&request, "evenIfUnresolved").is_truthy() {
                true => builder.even_if_unresolved(),
                false => builder,
            }
        });
        begin(builder, request)
    }

    /// The operations in such a phase: all, unfinished, attention or settled.
    pub fn list(&self, select: &str) -> Promise {
        let select = match select {
            "unfinished" => Select::Unfinished,
            "attention" => Select::Attention,
            "settled" => Select::Settled,
            _ => Select::All,
        };
        let client = self.client.clone();
        promise(async move { Ok(handles(client.list(select).await.map_err(fail)?)) })
    }

    /// The operations with this reference.
    pub fn find(&self, reference: &str) -> Promise {
        let (client, reference) = (self.client.clone(), parse(reference));
        promise(async move { Ok(handles(client.find(reference?).await.map_err(fail)?)) })
    }

    /// Deletes everything of this client's scope.
    pub fn wipe(&self) -> Promise {
        let (store, scope) = (self.store.clone(), self.client.scope().clone());
        promise(async move {
            let wiped = match store {
                Store::IndexedDb(journal) => journal.wipe(&scope).await,
                Store::LocalStorage(journal) => journal.wipe(&scope).await,
                Store::Memory => Ok(0),
            };
            wiped.map(JsValue::from).map_err(|error| fail(error.into()))
        })
    }

    /// Turns what ended long ago into tombstones.
    pub fn reap(&self) -> Promise {
        let client = self.client.clone();
        promise(async move {
            let reaped = client.reap().await.map_err(fail)?;
            Ok(JsValue::from(reaped.entries + reaped.tombstones))
        })
    }

    /// What the journal survives.
    #[wasm_bindgen(getter)]
    pub fn grade(&self) -> String {
        self.client.grade().to_string()
    }

    /// Application and principal.
    #[wasm_bindgen(getter)]
    pub fn scope(&self) -> String {
        self.client.scope().to_string()
    }
}

fn parse(reference: &str) -> Result<Reference, JsValue> {
    reference
        .parse()
        .map_err(|error: samekey::InvalidReference| invalid(&error.to_string()))
}

fn begin(builder: Result<OperationBuilder, JsValue>, request: JsValue) -> Promise {
    promise(async move {
        let builder = described(builder?, &request)?;
        let operation = builder.begin().await.map_err(fail)?;
        Ok(RawOperation::new(operation).into())
    })
}

fn described(
    mut builder: OperationBuilder,
    request: &JsValue,
) -> Result<OperationBuilder, JsValue> {
    if let Some(url) = text(request, "url") {
        let method = text(request, "method");
        builder = builder.method(method.as_deref().unwrap_or("POST"), &url);
        if let Ok(body) = get(request, "body").dyn_into::<Uint8Array>() {
            let kind = text(request, "contentType");
            builder = builder.body(body.to_vec(), kind.as_deref().unwrap_or("application/json"));
        }
    }
    let headers = header_lines(&get(request, "headers")).map_err(|e| invalid(&e.to_string()))?;
    for (name, value) in headers.iter() {
        builder = builder.header(name, value);
    }
    if get(request, "withKey").is_truthy() {
        builder = builder.with_key();
    }
    if let Some(key) = text(request, "adoptKey") {
        builder = builder.adopt_key(&key);
    }
    if let Some(window) = get(request, "window").as_f64() {
        builder = builder.window(Duration::from_millis(window as u64));
    }
    if let Some(name) = text(request, "profile") {
        builder = builder.profile(profile(&name)?);
    }
    Ok(builder)
}
