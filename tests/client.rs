//! The client from outside: what is promised to those who call it, on a journal in memory.

#[path = "client/support.rs"]
mod support;

#[path = "client/begin.rs"]
mod begin;
#[path = "client/credentials.rs"]
mod credentials;
#[path = "client/deferred.rs"]
mod deferred;
#[path = "client/drivers.rs"]
mod drivers;
#[path = "client/dropped.rs"]
mod dropped;
#[path = "client/keeping.rs"]
mod keeping;
#[path = "client/people.rs"]
mod people;
#[path = "client/polls.rs"]
mod polls;
#[path = "client/redirects.rs"]
mod redirects;
#[path = "client/refusals.rs"]
mod refusals;
#[path = "client/repeats.rs"]
mod repeats;
#[path = "client/send.rs"]
mod send;
#[path = "client/trouble.rs"]
mod trouble;
