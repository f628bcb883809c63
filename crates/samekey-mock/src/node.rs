//! One app node: settings, store, faults and ledger, and what it does between requests.

mod key;
mod limits;
mod outbox;
mod perform;

pub(crate) use key::{key_of, tenant_of};
pub use outbox::Reconciliation;
pub(crate) use outbox::reconcile;
pub(crate) use perform::Outcome;

use crate::clock::{Clock, Millis};
use crate::dice::unlikely_number;
use crate::engine::{self, Rules, Swept};
use crate::faults::{Fault, Faults, Plan};
use crate::gate::Gate;
use crate::ledger::{Event, Ledger, Log, Rows};
use crate::metrics::Metrics;
use crate::naughty::Naughty;
use crate::settings::Settings;
use crate::store::{MemoryStore, Res, SqliteStore, Store, Writer};
use limits::Limits;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::Notify;

/// A request as it was read from the wire.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: bytes::Bytes,
    pub(crate) peer: String,
    pub(crate) http: &'static str,
}

impl Incoming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = self
            .headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self
            .headers
            .iter()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    pub(crate) fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// The shared state of one mock.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) gate: Gate,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) writer: Writer,
    pub(crate) store_down: AtomicBool,
    settings: RwLock<Arc<Settings>>,
    faults: Mutex<Faults>,
    limits: Mutex<Limits>,
    owners: AtomicU64,
    outbox_bell: Notify,
    outbox_turn: tokio::sync::Mutex<()>,
    downstream_faults: Mutex<Vec<String>>,
}

impl Node {
    pub(crate) fn new(settings: Settings, faults: Faults) -> std::io::Result<Self> {
        let mut store: Box<dyn Store> = match &settings.file {
            Some(path) => Box::new(SqliteStore::open(path).map_err(std::io::Error::other)?),
            None => Box::new(MemoryStore::default()),
        };
        stock_up(store.as_mut()).map_err(std::io::Error::other)?;
        let number = unlikely_number();
        Ok(Self {
            name: format!("node-{:04x}", number & 0xFFFF),
            clock: Clock::default(),
            gate: Gate::default(),
            log: Log::new(settings.ledger_limit),
            metrics: Metrics::default(),
            writer: Writer::start(store)?,
            store_down: AtomicBool::new(false),
            settings: RwLock::new(Arc::new(settings)),
            faults: Mutex::new(faults),
            limits: Mutex::default(),
            owners: AtomicU64::new(number),
            outbox_bell: Notify::new(),
            outbox_turn: tokio::sync::Mutex::default(),
            downstream_faults: Mutex::default(),
        })
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut settings));
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules::from(&*self.settings())
    }

    pub(crate) fn has(&self, switch: Naughty) -> bool {
        self.settings().naughty.has(switch)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes a step into the ledger and counts it.
    pub(crate) fn note(&self, id: u64, tenant: &str, event: Event) {
        self.metrics.count(tenant, event);
        self.log.note(id, event);
    }

    fn ledger_parts(store: &mut dyn Store) -> Res<Rows> {
        Ok(Rows {
            keys: store.all_keys()?,
            effects: store.effects()?,
            outbox: store.messages()?,
            charges: store.charges()?,
        })
    }

    /// Everything that happened, as of now.
    pub(crate) fn ledger(&self) -> Ledger {
        let rows = self
            .writer
            .call_blocking(Self::ledger_parts)
            .unwrap_or_default();
        self.log.snapshot(rows, self.rules().ttl)
    }

    /// The same without blocking a worker of the runtime.
    pub(crate) async fn ledger_async(&self) -> Ledger {
        let rows = self
            .writer
            .call(Self::ledger_parts)
            .await
            .unwrap_or_default();
        self.log.snapshot(rows, self.rules().ttl)
    }

    /// Removes what is over, batch by batch, each in its own turn behind waiting requests.
    pub(crate) async fn reap(&self) -> Res<Vec<usize>> {
        let mut sizes = Vec::new();
        loop {
            let (rules, now, batch) = (self.rules(), self.clock.now(), self.settings().reap_batch);
            let size = self
                .writer
                .call(move |store| engine::reap(store, &rules, now, batch))
                .await?;
            if size > 0 {
                self.metrics.reaped(size);
                sizes.push(size);
            }
            if size < batch {
                return Ok(sizes);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Deals with locks whose worker has not come back.
    pub(crate) async fn sweep(&self) -> Res<Swept> {
        let (rules, now) = (self.rules(), self.clock.now());
        let swept = self
            .writer
            .call(move |store| engine::sweep(store, &rules, now))
            .await?;
        self.metrics.swept(swept);
        self.log.ring();
        Ok(swept)
    }

    /// The faults for this request: the rules', and those it carries itself.
    pub(crate) fn plan(&self, incoming: &Incoming, key: Option<&str>) -> Result<Plan, String> {
        let mut plan = self.faults().plan(&incoming.path, incoming.writes(), key);
        for header in incoming.all("mock-fault") {
            for text in header.split(',') {
                plan.faults.push(text.trim().parse::<Fault>()?);
            }
        }
        Ok(plan)
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }
}

/// One piece of the item that everybody wants, unless a file already says otherwise.
fn stock_up(store: &mut dyn Store) -> Res<()> {
    store.begin()?;
    if store.effects()?.is_empty() && store.all_keys()?.is_empty() {
        store.set_stock(crate::business::LAST_ITEM, 1)?;
    }
    store.keep()
}
