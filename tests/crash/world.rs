//! A server, a wire, a disk, and processes that die.

use super::child;
use super::judge::Evidence;
use super::parts::Point;
use super::process::{LIMIT, Process};
use super::proxy::{Proxy, Stop};
use samekey_mock::{Event, Fault, Ledger, Mock};
use tempfile::TempDir;

/// When a process dies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    /// By its own hand, at a point inside the client.
    At(Point),
    /// Killed when the server has the head of the request and nothing of its body.
    HeadSent,
    /// Killed when the server has all of it and has begun to work; the work then goes on.
    BodySent,
    /// The same, but the next process comes while the server is still at work.
    BodySentAndStillAtWork,
    /// Killed when the server has acted and has not answered.
    Committed,
    /// Killed with half of the answer read.
    AnswerHalfRead,
}

pub(super) struct World {
    server: Mock,
    proxy: Proxy,
    folder: TempDir,
    hasty: bool,
    told: Vec<String>,
    sent_at_crash: Vec<usize>,
}

impl World {
    pub(super) async fn new(hasty: bool) -> World {
        let server = Mock::builder().start().await.unwrap();
        let proxy = Proxy::start(server.address()).await;
        let (told, sent_at_crash) = (Vec::new(), Vec::new());
        World {
            server,
            proxy,
            folder: TempDir::new().unwrap(),
            hasty,
            told,
            sent_at_crash,
        }
    }

    /// Loses so many answers after the server has acted.
    pub(super) fn lose_answers(&self, times: u64) {
        self.server.fault(Fault::DropAfterCommit.times(times));
    }

    async fn start(&self, point: Point) -> Process {
        let journal = self.folder.path().join("journal.samekey");
        let (url, point) = (self.proxy.url(), format!("{point:?}"));
        let mut variables = vec![
            (child::URL, url.as_str()),
            (child::JOURNAL, journal.to_str().unwrap()),
            (child::POINT, point.as_str()),
        ];
        if self.hasty {
            variables.push((child::HASTY, "yes"));
        }
        let mut process = Process::start("crash::child::pay", &variables);
        process.hear("ready").await;
        process.go().await;
        process
    }

    /// Starts a process and sees it die.
    pub(super) async fn die(&mut self, death: Death) {
        match death {
            Death::At(point) => {
                let mut process = self.start(point).await;
                let exit = process.end().await;
                assert!(
                    !exit.success(),
                    "{point:?} was never reached: {:?}",
                    process.told
                );
                self.bury(&process);
            }
            Death::HeadSent => self.die_on_the_wire(Stop::AfterHead).await,
            Death::AnswerHalfRead => self.die_on_the_wire(Stop::InAnswer).await,
            Death::BodySent | Death::BodySentAndStillAtWork => {
                self.server.hold();
                let process = self.start(Point::Nowhere).await;
                self.kill_when(process, |ledger| ledger.count(Event::Held) > 0)
                    .await;
                if matches!(death, Death::BodySent) {
                    self.server.release();
                    self.server_has(|ledger| !ledger.effects().is_empty()).await;
                }
            }
            Death::Committed => {
                self.server.fault(Fault::Stall.once());
                let process = self.start(Point::Nowhere).await;
                self.kill_when(process, |ledger| !ledger.effects().is_empty())
                    .await;
            }
        }
    }

    async fn die_on_the_wire(&mut self, stop: Stop) {
        self.proxy.stop(stop);
        let mut process = self.start(Point::Nowhere).await;
        let reached = tokio::time::timeout(LIMIT, self.proxy.until_stopped());
        reached.await.expect("no request came");
        self.kill(&mut process).await;
        self.proxy.stop(Stop::Never);
    }

    async fn kill_when(&mut self, mut process: Process, condition: impl Fn(&Ledger) -> bool) {
        self.server_has(condition).await;
        self.kill(&mut process).await;
    }

    async fn kill(&mut self, process: &mut Process) {
        process.kill().await;
        while process.next().await.is_some() {}
        self.bury(process);
    }

    fn bury(&mut self, process: &Process) {
        self.note(process);
        self.sent_at_crash.push(self.proxy.keys().len());
    }

    fn note(&mut self, process: &Process) {
        let keys = process
            .told
            .iter()
            .filter_map(|told| told.strip_prefix("key "));
        self.told.extend(keys.map(str::to_owned));
    }

    async fn server_has(&self, condition: impl Fn(&Ledger) -> bool) {
        let waiting = tokio::time::timeout(LIMIT, self.server.wait_for(condition));
        waiting.await.expect("the server never got there");
    }

    /// Starts a process that may live, and gathers all that is known then.
    pub(super) async fn live(mut self) -> Evidence {
        let mut process = self.start(Point::Nowhere).await;
        if self
            .server
            .ledger()
            .keys()
            .iter()
            .any(|row| row.effects == 0 && row.state.is_some())
        {
            // The key is at work on the server: the process must meet that, and wait.
            self.server_has(|ledger| ledger.count(Event::InFlight) > 0)
                .await;
            self.server.release();
        }
        process.end().await;
        self.note(&process);
        let about = |what: &str| {
            let told = process
                .told
                .iter()
                .filter_map(|told| told.strip_prefix(what));
            told.map(str::to_owned).collect::<Vec<_>>()
        };
        Evidence {
            recovered: about("recovered "),
            outcome: about("outcome ").join(", "),
            wire: self.proxy.keys(),
            sent_at_crash: self.sent_at_crash,
            told: self.told,
            ledger: self.server.ledger(),
        }
    }
}
