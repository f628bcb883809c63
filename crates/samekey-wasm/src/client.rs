//! A client, and the journal that it was opened with.

use crate::given::{Options, Request, configure, describe};
use crate::operation::RawOperation;
use crate::told::{error as fail, mistake, promise};
use js_sys::{Array, Promise};
use samekey::journal::Select;
use samekey::{BrowserJournal, Client, Operation, Reference};
use wasm_bindgen::prelude::*;

/// A client; the package's `Client` is made of it.
#[wasm_bindgen]
pub struct RawClient {
    client: Client,
    journal: BrowserJournal,
}

fn handles(found: Vec<Operation>) -> JsValue {
    let handles = Array::new();
    for operation in found {
        handles.push(&RawOperation::new(operation).into());
    }
    handles.into()
}

fn parse(reference: &str) -> Result<Reference, JsValue> {
    reference
        .parse()
        .map_err(|error: samekey::InvalidReference| mistake(&error.to_string()))
}

#[wasm_bindgen]
impl RawClient {
    /// Opens the journal and builds a client.
    pub fn open(options: Options) -> Promise {
        promise(Box::pin(async move {
            let builder = Client::builder(&options.application());
            let builder = configure(builder, &options).map_err(|why| mistake(&why))?;
            let (store, name) = (options.store(), options.journal());
            let journal = match store.as_str() {
                "memory" => BrowserJournal::memory(&name).await,
                "localstorage" => BrowserJournal::local_storage(&name).await,
                _ => BrowserJournal::indexed_db(&name).await,
            };
            let journal = journal.map_err(|error| fail(error.into()))?;
            let client = builder.journal(journal.clone()).build().map_err(fail)?;
            Ok(RawClient { client, journal }.into())
        }))
    }

    /// Makes an operation, or a deliberate repeat of an earlier one, durable.
    pub fn begin(&self, request: Request) -> Promise {
        let client = self.client.clone();
        promise(Box::pin(async move {
            let builder = match request.previous() {
                None => client.operation(&request.intent()),
                Some(reference) => {
                    let builder = client.repeat(parse(&reference)?);
                    match request.even_if_unresolved() {
                        true => builder.even_if_unresolved(),
                        false => builder,
                    }
                }
            };
            let builder = describe(builder, &request).map_err(|why| mistake(&why))?;
            let operation = builder.begin().await.map_err(fail)?;
            Ok(RawOperation::new(operation).into())
        }))
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
        promise(Box::pin(async move {
            Ok(handles(client.list(select).await.map_err(fail)?))
        }))
    }

    /// The operations with this reference.
    pub fn find(&self, reference: &str) -> Promise {
        let (client, reference) = (self.client.clone(), parse(reference));
        promise(Box::pin(async move {
            Ok(handles(client.find(reference?).await.map_err(fail)?))
        }))
    }

    /// Deletes everything of this client's scope.
    pub fn wipe(&self) -> Promise {
        let (journal, scope) = (self.journal.clone(), self.client.scope().clone());
        promise(Box::pin(async move {
            let wiped = journal.wipe(&scope).await;
            wiped.map(JsValue::from).map_err(|error| fail(error.into()))
        }))
    }

    /// Turns what ended long ago into tombstones.
    pub fn reap(&self) -> Promise {
        let client = self.client.clone();
        promise(Box::pin(async move {
            let reaped = client.reap().await.map_err(fail)?;
            Ok(JsValue::from(reaped.entries + reaped.tombstones))
        }))
    }

    /// What the journal survives.
    #[wasm_bindgen(getter)]
    pub fn grade(&self) -> String {
        self.client.grade().name().into()
    }

    /// Application and principal.
    #[wasm_bindgen(getter)]
    pub fn scope(&self) -> String {
        self.client.scope().as_str().into()
    }
}
