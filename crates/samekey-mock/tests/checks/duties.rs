//! The duties of a server, one test or more for each number.

#[path = "duties/keys.rs"]
mod keys;
#[path = "duties/life.rs"]
mod life;
#[path = "duties/operations.rs"]
mod operations;
