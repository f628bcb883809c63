//! Everything over real sockets: the duties, the checklist, the faults.

#[path = "checks/client.rs"]
mod client;
#[path = "checks/duties.rs"]
mod duties;
