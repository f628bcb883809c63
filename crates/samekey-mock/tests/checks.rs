//! Everything over real sockets: the duties M1 to M32, the verification checklist, the faults.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "checks/browser.rs"]
mod browser;
#[path = "checks/checklist.rs"]
mod checklist;
#[path = "checks/client.rs"]
mod client;
#[path = "checks/complete.rs"]
mod complete;
#[path = "checks/driver.rs"]
mod driver;
#[path = "checks/duties.rs"]
mod duties;
#[path = "checks/faults.rs"]
mod faults;
#[path = "checks/page.rs"]
mod page;
#[path = "checks/program.rs"]
mod program;
#[path = "checks/proof.rs"]
mod proof;
#[path = "checks/providers.rs"]
mod providers;
#[path = "checks/scene.rs"]
mod scene;
