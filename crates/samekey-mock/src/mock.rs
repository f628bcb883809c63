//! The mock as a value: start it in a test, script it, read its ledger.

use crate::clock::Millis;
use crate::engine::Swept;
use crate::faults::{Faults, Rule};
use crate::http;
use crate::ledger::Ledger;
use crate::metrics::{self, Alert};
use crate::naughty::Naughty;
use crate::node::{Node, Reconciliation, reconcile};
use crate::profile::Profile;
use crate::routes::{Coverage, audit};
use crate::settings::{InFlight, Settings, Stale};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Why a mock could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be used as a store.
    #[error("cannot open the store: {0}")]
    Store(#[source] std::io::Error),
}

/// Builds a mock. Every knob has the default that [`Settings`] documents.
#[derive(Debug, Clone)]
pub struct Builder {
    settings: Settings,
    rules: Vec<Rule>,
    address: SocketAddr,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            rules: Vec::new(),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        }
    }
}

impl Builder {
    /// Speaks like this provider.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        profile.apply(&mut self.settings);
        self
    }

    /// Starts with this fault: for every request, or as its rule says.
    #[must_use]
    pub fn fault(mut self, rule: impl Into<Rule>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// Breaks this promise.
    #[must_use]
    pub fn naughty(mut self, switch: Naughty) -> Self {
        self.settings.naughty.set(switch, true);
        self
    }

    /// The published life of a key.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self.settings.margin = ttl / 16;
        self
    }

    /// The age at which a lock is stale, and what becomes of it then.
    #[must_use]
    pub fn stale(mut self, after: Duration, then: Stale) -> Self {
        self.settings.lock_limit = after;
        self.settings.stale = then;
        self
    }

    /// What a duplicate in flight is told.
    #[must_use]
    pub fn in_flight(mut self, knob: InFlight) -> Self {
        self.settings.in_flight = knob;
        self
    }

    /// Keeps keys and effects in this file; two mocks on one file are two nodes of one server.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.settings.file = Some(path.as_ref().to_owned());
        self
    }

    /// Seeds the random faults.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Delays every request by between so many milliseconds.
    #[must_use]
    pub fn delay(mut self, low: u64, high: u64) -> Self {
        self.settings.delay = Some((low, high));
        self
    }

    /// Answers every POST at once, without store or ledger: for benchmarks of clients.
    #[must_use]
    pub fn instant(mut self) -> Self {
        self.settings.instant = true;
        self
    }

    /// Listens on this port of the loopback address; 0 picks a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }

    /// Listens on this address. Anything but loopback lets strangers in.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Turns any other knob.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Starts the mock on the current runtime.
    ///
    /// # Errors
    /// When the address is taken or the file cannot be opened.
    pub async fn start(self) -> Result<Mock, StartError> {
        let mut faults = Faults::seeded(self.settings.seed);
        self.rules.into_iter().for_each(|rule| faults.add(rule));
        let node = Node::new(self.settings, faults).map_err(StartError::Store)?;
        let failed = |source| StartError::Listen {
            address: self.address,
            source,
        };
        let listener = TcpListener::bind(self.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (node, (stop, stopped)) = (Arc::new(node), watch::channel(false));
        let house = tokio::spawn(http::housekeeping(Arc::clone(&node), stopped.clone()));
        let server = tokio::spawn(http::accept(Arc::clone(&node), listener, stopped));
        Ok(Mock {
            node,
            address,
            stop,
            server: Some(server),
            house,
        })
    }
}

/// A running mock. Dropping it stops it at once, as a crash would.
#[derive(Debug)]
pub struct Mock {
    node: Arc<Node>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    server: Option<JoinHandle<()>>,
    house: JoinHandle<()>,
}

impl Mock {
    /// A builder with defaults: in memory, on a free port of the loopback address, no faults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a fault.
    pub fn fault(&self, rule: impl Into<Rule>) {
        self.node.faults().add(rule.into());
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.node.faults().clear(None);
    }

    /// Turns a switch on or off.
    pub fn naughty(&self, switch: Naughty, on: bool) {
        self.settings(|settings| settings.naughty.set(switch, on));
    }

    /// Turns knobs at run time.
    pub fn settings(&self, change: impl FnOnce(&mut Settings)) {
        self.node.change_settings(change);
    }

    /// Everything that happened, as of now.
    pub fn ledger(&self) -> Ledger {
        self.node.ledger()
    }

    /// Waits until the ledger satisfies a condition and returns it; woken by events, not by time.
    pub async fn wait_for(&self, condition: impl Fn(&Ledger) -> bool) -> Ledger {
        let mut bell = self.node.log.listen();
        loop {
            bell.borrow_and_update();
            let ledger = self.node.ledger_async().await;
            if condition(&ledger) || bell.changed().await.is_err() {
                return ledger;
            }
        }
    }

    /// From now on workers stop after their reservation and wait: their keys are in flight.
    pub fn hold(&self) {
        self.node.gate.hold();
    }

    /// Lets all waiting workers go on, and those who come.
    pub fn release(&self) {
        self.node.gate.release();
    }

    /// Lets those who come pass, while those who wait go on waiting.
    pub fn pass(&self) {
        self.node.gate.pass();
    }

    /// Takes the key store away, or gives it back.
    pub fn store_down(&self, down: bool) {
        self.node.store_down.store(down, Ordering::Relaxed);
    }

    /// Moves the server's clock forward.
    pub fn advance(&self, by: Duration) {
        self.node
            .clock
            .jump(Millis::try_from(by.as_millis()).unwrap_or(Millis::MAX));
    }

    /// Moves the server's clock by so many milliseconds, back if negative.
    pub fn jump(&self, millis: Millis) {
        self.node.clock.jump(millis);
    }

    /// The time by the server's clock, in milliseconds since 1970.
    pub fn now(&self) -> Millis {
        self.node.now()
    }

    /// Runs the sweeper now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep(&self) -> Result<Swept, crate::store::StoreError> {
        self.node.sweep().await
    }

    /// Runs the reaper now; the sizes of its batches.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reap(&self) -> Result<Vec<usize>, crate::store::StoreError> {
        self.node.reap().await
    }

    /// Runs the outbox worker now; how many messages it tried.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn drain_outbox(&self) -> Result<usize, crate::store::StoreError> {
        self.node.drain_outbox().await
    }

    /// The ledger held against the payment processor's books.
    pub fn reconciliation(&self) -> Reconciliation {
        reconcile(&self.node.ledger())
    }

    /// What an operator should look at now.
    pub fn alerts(&self) -> Vec<Alert> {
        let ledger = self.node.ledger();
        let limit = self.node.rules().lock_limit;
        let gauges = metrics::gauges(&ledger, limit, self.node.now(), self.node.is_down());
        metrics::alerts(&gauges, &self.node.metrics.counts())
    }

    /// Every state-changing route and whether keys protect it.
    pub fn audit(&self) -> Vec<Coverage> {
        audit(self.node.settings().naughty)
    }

    /// Transactions committed so far.
    pub fn commits(&self) -> u64 {
        self.node.writer.commits()
    }

    /// Stops listening, lets open exchanges finish, then ends.
    pub async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        if let Some(server) = self.server.take() {
            let _ = server.await;
        }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        self.house.abort();
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}
