//! What kind of world a seed makes: how many of everything, and how often each thing goes wrong.

use super::rng::Rng;

/// The kinds of trouble, each with a rate in ten thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Fault {
    /// Nobody listens.
    Refuse,
    /// The request never arrives.
    LoseRequest,
    /// The request arrives twice.
    Duplicate,
    /// The answer never arrives.
    LoseReply,
    /// The answer's body is cut off.
    CutReply,
    /// Something takes longer than anyone waits.
    Slow,
    /// A gateway speaks instead of the server.
    Gateway,
    /// A login page or a redirect elsewhere speaks instead of the server.
    Portal,
    /// The handler fails and its work is taken back.
    HandlerFails,
    /// A process dies at one of its steps.
    KillAtStep,
    /// A write fails.
    WriteError,
    /// A caller drops its future.
    Drop,
    /// A caller cancels.
    Cancel,
    /// A second click at the same time.
    DoubleClick,
    /// An entry's bytes are altered.
    Damage,
    /// The server sends on to another place of its own.
    Moved,
    /// The server takes a request on, and is asked for the result later.
    Accept,
}

pub(crate) const FAULTS: usize = 17;

/// One world.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) hosts: usize,
    pub(crate) servers: usize,
    /// Processes that run at once on each host.
    pub(crate) processes: usize,
    pub(crate) deeds: usize,
    /// When the last deed begins.
    pub(crate) span: u64,
    /// How long the servers remember a key, and the clients believe they do.
    pub(crate) window: u64,
    pub(crate) timeout: u64,
    pub(crate) give_up: u64,
    pub(crate) attempts: u32,
    pub(crate) rates: [u32; FAULTS],
    /// How often per world, at random times.
    pub(crate) kills: u64,
    pub(crate) cuts: u64,
    pub(crate) freezes: u64,
    pub(crate) jumps: u64,
    pub(crate) outages: u64,
    pub(crate) server_kills: u64,
    /// Whether a wall clock may be set back.
    pub(crate) back_jumps: bool,
    /// Whether a dead owner can be proven dead at once.
    pub(crate) proof_of_life: bool,
    /// Whether servers say that they replay.
    pub(crate) marker: bool,
    /// Whether servers store a 500.
    pub(crate) stores_errors: bool,
    /// Whether the journal answers at once.
    pub(crate) quick_disk: bool,
    /// Whether the world ends calm, and everything must come to an end.
    pub(crate) calm: bool,
    /// Whether the calm leaves programs running that can still write.
    pub(crate) gentle: bool,
    /// How often a whole machine sleeps: its monotonic clock stops, its wall clock does not.
    pub(crate) suspends: u64,
    /// How many accounts there are, one or two.
    pub(crate) accounts: usize,
    /// Whether every program of a host is clicked in, not just one.
    pub(crate) clicks_everywhere: bool,
    /// How the clients believe that the servers speak.
    pub(crate) profile: &'static str,
    /// What journals keep of bodies.
    pub(crate) keeping: Keeping,
    /// How long what has ended is kept, and its tombstone after that.
    pub(crate) retention: Option<u64>,
    /// Who dies when, one after the other, for exhaustive runs.
    pub(crate) kill_plan: Vec<Death>,
    /// Whether a planned death is a power cut, which takes down every program of the host.
    pub(crate) plan_is_cut: bool,
}

/// What a journal keeps of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    Plain,
    Sealed,
    /// Only a fingerprint.
    Nothing,
}

/// A planned death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) process: usize,
    /// At which of its writes and sends, counted from the death before.
    pub(crate) step: u64,
    /// Whether that step is still made.
    pub(crate) after: bool,
}

/// Zero, mild or extreme, so that faults also meet worlds in which nothing else is wrong.
fn rate(rng: &mut Rng, extreme: u32) -> u32 {
    match rng.below(4) {
        0 => 0,
        1 => extreme / 20,
        2 => extreme / 5,
        _ => extreme,
    }
}

impl Config {
    pub(crate) fn draw(seed: u64) -> Config {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let window = rng.pick(&[300_000, 1_800_000, 86_400_000]);
        let timeout = rng.pick(&[1_000, 5_000, 10_000]);
        let mut rates = [0; FAULTS];
        let extremes = [
            3_000, 3_000, 2_000, 4_000, 2_000, 1_500, 3_000, 800, 2_500, 120, 150, 1_200, 400,
            2_500, 60,
        ];
        for (rate_of, extreme) in rates.iter_mut().zip(extremes) {
            *rate_of = rate(&mut rng, extreme);
        }
        let mut some = |most: u64| {
            if rng.chance(5_000) {
                rng.below(most + 1)
            } else {
                0
            }
        };
        let (kills, cuts, freezes, jumps, outages, server_kills) =
            (some(30), some(12), some(8), some(8), some(4), some(8));
        let mut config = Config {
            hosts: rng.between(1, 3) as usize,
            servers: rng.between(1, 2) as usize,
            processes: rng.between(1, 3) as usize,
            deeds: rng.between(20, 180) as usize,
            span: rng.pick(&[60_000, 600_000, 7_200_000]),
            window,
            timeout,
            give_up: rng.pick(&[timeout, 20_000, 60_000, 120_000]).max(timeout),
            attempts: rng.between(1, 7) as u32,
            rates,
            kills,
            cuts,
            freezes,
            jumps,
            outages,
            server_kills,
            back_jumps: rng.chance(3_000),
            proof_of_life: rng.chance(7_000),
            marker: rng.chance(8_000),
            stores_errors: rng.chance(1_000),
            quick_disk: rng.chance(5_000),
            calm: seed.is_multiple_of(10),
            gentle: seed.is_multiple_of(20),
            suspends: 0,
            accounts: 2,
            clicks_everywhere: false,
            profile: "default",
            keeping: Keeping::Plain,
            retention: None,
            kill_plan: Vec::new(),
            plan_is_cut: false,
        };
        config.draw_customs(&mut rng);
        config
    }

    /// What kind of server, journal and machine it is.
    fn draw_customs(&mut self, rng: &mut Rng) {
        self.profile = match rng.below(20) {
            0 | 1 => "ietf_draft",
            2 | 3 => "stripe",
            4 => "adyen",
            5 => "gocardless",
            6 | 7 => "none",
            _ => "default",
        };
        if self.profile == "none" {
            // Nobody can help it if the network sends twice what has no key.
            self.rates[Fault::Duplicate as usize] = 0;
        } else {
            self.rates[Fault::Moved as usize] = rate(rng, 1_000);
            self.rates[Fault::Accept as usize] = rate(rng, 3_000);
        }
        self.keeping = match rng.below(10) {
            0 | 1 => Keeping::Nothing,
            2 => Keeping::Sealed,
            _ => Keeping::Plain,
        };
        self.suspends = if rng.chance(3_000) { rng.below(6) } else { 0 };
        // Never shorter than any window: the client would refuse it.
        let window = samekey::Profile::named(self.profile).map_or(0, |it| it.window().as_millis());
        let least = u64::try_from(window).unwrap_or(0).max(self.window);
        self.retention = rng.chance(2_500).then_some(least);
    }

    pub(crate) fn rate(&self, fault: Fault) -> u32 {
        self.rates[fault as usize]
    }
}
