//! IndexedDB itself: opening, transactions, and waiting for what they say.

use super::super::page::{global, member, method, promise, set, wait};
use super::super::refused;
use crate::journal::{Flush, JournalError, JournalErrorKind};
use crate::seam::BoxFuture;
use js_sys::{Array, Object, Promise, Uint8Array};
use std::cell::RefCell;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{
    IdbDatabase, IdbFactory, IdbIndexParameters, IdbObjectStore, IdbObjectStoreParameters,
    IdbOpenDbRequest, IdbRequest, IdbTransaction,
};

/// One row per entry, tombstones included.
pub(super) const ENTRIES: &str = "entries";
/// One row per tab: when it was last heard of.
pub(super) const OWNERS: &str = "owners";
/// Room that is given up when the quota is reached, so that outcomes can still be written.
pub(super) const BALLAST: &str = "ballast";
const STORES: [&str; 3] = [ENTRIES, OWNERS, BALLAST];
const BALLAST_BYTES: u32 = 64 * 1024;
/// Counts the layouts of the database.
const LAYOUT: u32 = 1;

/// An open database, opened again should the browser close it.
pub(super) struct Database {
    name: String,
    connection: RefCell<IdbDatabase>,
}

/// What the browser says when a journal is used or opened.
type Asked<T> = Result<T, JsValue>;

impl Database {
    pub(super) async fn open(name: &str) -> Result<Database, JournalError> {
        let connection = connect(name)
            .await
            .map_err(|error| refused("the journal cannot be opened", &error))?;
        let database = Database {
            name: name.to_owned(),
            connection: RefCell::new(connection),
        };
        database.fill_ballast().await?;
        Ok(database)
    }

    /// Puts the reserve back, if there is room for it.
    async fn fill_ballast(&self) -> Result<(), JournalError> {
        let tx = self.write(Flush::Normal).await?;
        if tx.get_named(BALLAST, "reserve").await?.is_object() {
            return Ok(());
        }
        let row = Object::new();
        set(&row, "id", &"reserve".into());
        set(&row, "bytes", &Uint8Array::new_with_length(BALLAST_BYTES));
        let filled = match tx.put(BALLAST, &row).await {
            Ok(_) => tx.complete().await,
            Err(error) => Err(error),
        };
        match filled {
            Err(error) if error.kind() != JournalErrorKind::Full => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the browser understands that a write is to reach the device.
    pub(super) async fn is_strict(&self) -> Result<bool, JournalError> {
        let tx = self.write(Flush::Full).await?;
        Ok(member(&tx.0, "durability").as_string().as_deref() == Some("strict"))
    }

    pub(super) fn write(&self, flush: Flush) -> Waiting<'_, Transaction> {
        self.begin(match flush {
            Flush::Full => ["readwrite", "strict"],
            Flush::Normal => ["readwrite", "relaxed"],
        })
    }

    pub(super) fn read(&self) -> Waiting<'_, Transaction> {
        self.begin(["readonly", "default"])
    }

    /// A transaction, on a new connection if the browser has closed the old one.
    fn begin(&self, how: [&'static str; 2]) -> Waiting<'_, Transaction> {
        Box::pin(async move {
            let closed = |error| refused("the browser closed the journal", &error);
            if let Ok(tx) = begin(&self.connection.borrow(), how) {
                return Ok(tx);
            }
            let connection = connect(&self.name).await.map_err(closed)?;
            let tx = begin(&connection, how).map_err(closed);
            self.connection.replace(connection);
            tx
        })
    }
}

/// By reflection, because the bindings do not know of durability.
fn begin(connection: &IdbDatabase, [mode, durability]: [&str; 2]) -> Asked<Transaction> {
    let options = Object::new();
    set(&options, "durability", &durability.into());
    let stores: Array = STORES.iter().map(|name| JsValue::from(*name)).collect();
    let tx =
        method(connection, "transaction")?.call3(connection, &stores, &mode.into(), &options)?;
    Ok(Transaction::new(tx.unchecked_into()))
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connection.borrow().close();
    }
}

async fn connect(name: &str) -> Asked<IdbDatabase> {
    let factory = global("indexedDB");
    if !factory.is_object() {
        return Err("this browser has no IndexedDB, or forbids it here".into());
    }
    let factory: IdbFactory = factory.unchecked_into();
    let request = factory.open_with_u32(name, LAYOUT)?;
    let upgrade = {
        let request = request.clone();
        Closure::once_into_js(move || lay_out(&request))
    };
    request.set_onupgradeneeded(Some(upgrade.unchecked_ref()));
    let result = settled(&request).await?;
    let connection: IdbDatabase = result.unchecked_into();
    // A newer release, or the user who clears the site's data, need not wait for this tab.
    let closing = {
        let connection = connection.clone();
        Closure::<dyn Fn()>::new(move || connection.close())
    };
    connection.set_onversionchange(Some(closing.as_ref().unchecked_ref()));
    closing.forget();
    Ok(connection)
}

fn lay_out(request: &IdbOpenDbRequest) {
    let made = request.result().and_then(|database| {
        let database: IdbDatabase = database.unchecked_into();
        let table = |name: &str, path: &str, counts: bool| {
            let parameters = IdbObjectStoreParameters::new();
            parameters.set_key_path(&path.into());
            parameters.set_auto_increment(counts);
            database.create_object_store_with_optional_parameters(name, &parameters)
        };
        let entries = table(ENTRIES, "slot", true)?;
        let unique = IdbIndexParameters::new();
        unique.set_unique(true);
        entries.create_index_with_str_and_optional_parameters("name", "name", &unique)?;
        entries.create_index_with_str("open", "open")?;
        table(OWNERS, "id", false)?;
        table(BALLAST, "id", false)
    });
    if made.is_err()
        && let Some(tx) = request.transaction()
    {
        // Then opening fails, and says so.
        let _ = tx.abort();
    }
}

/// Waits until a request has succeeded or failed.
async fn settled(request: &IdbRequest) -> Asked<JsValue> {
    let (done, fulfil) = promise();
    request.set_onsuccess(Some(&fulfil));
    request.set_onerror(Some(&fulfil));
    wait(done.into()).await?;
    match request.error()? {
        Some(error) => Err(error.into()),
        None => request.result(),
    }
}

/// A transaction. Between two of its requests nothing else may be waited for: it would commit.
pub(super) struct Transaction(IdbTransaction, Promise);

impl Transaction {
    fn new(tx: IdbTransaction) -> Transaction {
        let (ended, fulfil) = promise();
        tx.set_oncomplete(Some(&fulfil));
        tx.set_onabort(Some(&fulfil));
        Transaction(tx, ended)
    }

    /// Waits until all of it is as durable as was asked for.
    pub(super) fn complete(self) -> Waiting<'static, ()> {
        Box::pin(async move {
            let event = wait(self.1.into()).await;
            let how = event.as_ref().map(|event| member(event, "type"));
            if how.ok().and_then(|how| how.as_string()).as_deref() == Some("complete") {
                return Ok(());
            }
            let why = self.0.error().map_or(JsValue::NULL, JsValue::from);
            Err(refused("the journal did not take the write", &why))
        })
    }

    fn store(&self, name: &str) -> Asked<IdbObjectStore> {
        self.0.object_store(name)
    }

    pub(super) fn get(&self, store: &str, slot: u64) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| store.get(&number(slot))))
    }

    pub(super) fn get_named(&self, store: &str, name: &str) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| store.get(&name.into())))
    }

    /// The entry with this name.
    pub(super) fn by_name(&self, name: &str) -> Waiting<'static, JsValue> {
        let index = self.store(ENTRIES).and_then(|store| store.index("name"));
        answer(index.and_then(|index| index.get(&name.into())))
    }

    /// Every row of a store, or every row that an index knows; an array.
    pub(super) fn all(&self, store: &str, index: Option<&str>) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| match index {
            Some(index) => store.index(index)?.get_all(),
            None => store.get_all(),
        }))
    }

    pub(super) fn add(&self, store: &str, row: &JsValue) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| store.add(row)))
    }

    pub(super) fn put(&self, store: &str, row: &JsValue) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| store.put(row)))
    }

    pub(super) fn delete(&self, store: &str, slot: u64) -> Waiting<'static, JsValue> {
        answer(
            self.store(store)
                .and_then(|store| store.delete(&number(slot))),
        )
    }

    pub(super) fn delete_named(&self, store: &str, name: &str) -> Waiting<'static, JsValue> {
        answer(
            self.store(store)
                .and_then(|store| store.delete(&name.into())),
        )
    }

    pub(super) fn clear(&self, store: &str) -> Waiting<'static, JsValue> {
        answer(self.store(store).and_then(|store| store.clear()))
    }
}

/// Boxed, all of them: a page downloads each future that is spelled out where it is awaited.
pub(super) type Waiting<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

fn answer(asked: Asked<IdbRequest>) -> Waiting<'static, JsValue> {
    Box::pin(async move {
        let answer = match asked {
            Ok(request) => settled(&request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|error| refused("the journal did not answer", &error))
    })
}

/// A slot as IndexedDB counts it.
fn number(slot: u64) -> JsValue {
    JsValue::from(slot as f64)
}
