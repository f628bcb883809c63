//! Small gates beside the worlds: the spread of waits, and two duties of a server.

use super::config::{Config, Fault};
use super::net::{Call, Packet};
use super::world::World;
use samekey::Policy;
use samekey::retry::backoff;

/// Programs that fail together must not come back together.
pub(crate) fn spread() -> Vec<String> {
    let policy = Policy::new();
    let mut waits: Vec<_> = (0..1_000_u64)
        .map(|roll| backoff::delay(&policy, 3, roll.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    waits.sort_unstable();
    waits.dedup();
    if waits.len() < 100 {
        return vec![format!(
            "spread: a thousand programs share {} waits",
            waits.len()
        )];
    }
    Vec::new()
}

fn packet(tenant: &str) -> Packet {
    Packet {
        server: 0,
        process: 0,
        key: "7d3f92ab-1c4e-4b1d-9a55-0d2f6f1f2a3b".into(),
        tenant: tenant.into(),
        deed: 0,
        amount: 5,
        digest: 1,
        sent: 0,
        call: Call::new(),
    }
}

/// One key in two tenants is two actions.
pub(crate) fn tenants() -> Vec<String> {
    let mut world = World::new(Config::quiet(true), 1, false);
    for tenant in ["alice", "bob"] {
        world.arrive(packet(tenant));
        while world.server_step() {}
    }
    match world.monitor.effects_in_all() {
        2 => Vec::new(),
        other => vec![format!("tenants: two tenants, one key, {other} effects")],
    }
}

/// A failure that left no effect is not the answer for ever.
pub(crate) fn errors() -> Vec<String> {
    let mut world = World::new(Config::quiet(true), 1, false);
    for rate in [10_000, 0] {
        world.config.rates[Fault::HandlerFails as usize] = rate;
        world.arrive(packet("alice"));
        while world.server_step() {}
    }
    match world.monitor.effects_in_all() {
        1 => Vec::new(),
        other => vec![format!(
            "errors: after a 500 and a retry there are {other} effects"
        )],
    }
}
