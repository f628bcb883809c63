//! One action, one key, on every try.
//!
//! # Why
//!
//! A payment is sent and no answer comes. Nobody on this side can know whether the money moved: the
//! request may have been lost on the way, or the answer on the way back. To try again may pay twice,
//! to give up may not pay at all, and to tell the user "it failed" is a guess.
//!
//! The remedy is old. The client gives the action a key, and a server that has seen the key answers
//! again instead of acting again. It takes both halves, and the client's half is harder than it
//! looks:
//!
//! - The key belongs to the *action*, not to the attempt. A loop that mints one inside itself, or a
//!   handler that mints one per click, has made two actions of one.
//! - The key must be *durable before the first byte leaves*. If it only lives in memory, a crash
//!   after the send forgets it, and the restarted program pays again under another one.
//! - *The same bytes* must go out each time: a body that is serialised anew, with another order of
//!   its members or a fresh timestamp, is another request to a careful server.
//! - *Doubt is sticky.* After an attempt that may have arrived, a later "forbidden" or "not found" is
//!   about the later attempt. To report it as the outcome is to call an unknown a failure.
//! - *Keys are forgotten.* A retry after the server's window acts anew, so retrying has to end before.
//!
//! This crate is that half, and its promise is this: *samekey never sends an operation before its key
//! is durable, never with two keys or two bodies, and never reports an unknown outcome as a failure.
//! That the effect happens once needs a server that keeps its half for the stated window.*
//!
//! # How it looks
//!
//! The first answer gets lost here, as it does in the field; the second attempt carries the same key.
//! The transport is a script, so that this page can be run. Without the line that sets the parts,
//! `Client::builder("shop")` speaks HTTP and keeps its journal in a file.
//!
//! ```
//! use samekey::testing::{ScriptedTransport, parts_with};
//! use samekey::{Client, Failure, FailureKind, Headers, Response, Sent};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), samekey::Error> {
//! let server = ScriptedTransport::new();
//! server.fail(Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke"));
//! server.answer(Response::new(201, Headers::new(), "paid"));
//! let client = Client::with_parts("shop", parts_with(server.clone())).build()?;
//!
//! // What an earlier run of the program left open: same key, same bytes.
//! for operation in client.unfinished().await? {
//!     if let Err(error) = operation.resume().await {
//!         eprintln!("{error}");
//!     }
//! }
//!
//! // The intent is your own stable name of the action; it finds the key again.
//! let operation = client
//!     .operation("cart/9/checkout")
//!     .post("https://api.example.com/payments")
//!     .json(&json!({ "amount": 4200 }))
//!     .begin()
//!     .await?; // written down, and nothing sent yet
//! println!("Your reference: {}", operation.reference());
//!
//! match operation.send().await {
//!     Ok(outcome) if outcome.is_success() => println!("paid ({})", outcome.provenance()),
//!     Ok(outcome) => println!("declined with {}", outcome.status()), // an answer, not an error
//!     Err(error) if error.is_unresolved() => println!("not known yet: {error}"),
//!     Err(error) => return Err(error),
//! }
//!
//! let sent = server.requests();
//! assert_eq!(sent.len(), 2);
//! assert_eq!(sent[0], sent[1]);
//! # Ok(()) }
//! ```
//!
//! Three moments matter to a program. [`begin`](OperationBuilder::begin) is the commitment: after it
//! the action has a key that survives, and a [`Reference`] to show. [`send`](Operation::send) drives
//! it to an end and may be dropped at any point; what is open stays in the journal.
//! [`unfinished`](Client::unfinished) is where the next run goes on. Beginning the same intent again
//! joins the operation that is there; with another request it is refused; and a deliberate second
//! time is [`repeat`](Client::repeat), a call that says so.
//!
//! # When the outcome is unknown
//!
//! An [`Error`] with [`is_unresolved`](Error::is_unresolved) means that it may have happened. Show the
//! reference, and do not begin a new action in its place. Then, in this order:
//! [`resume`](Operation::resume) it later, under the same key, as long as the server's window lasts;
//! [look it up](Operation::look_up) on the server by the reference; [settle](Operation::settle) it by
//! hand with a note that says how it was found out. [`Client::attention`] lists what waits for a
//! person. No call on this path mints a key.
//!
//! # What survives what
//!
//! "Survives" means: found again under the same key, with the same bytes, and finished or shown to a
//! person. The [`Grade`] of a journal says it in one word, and every operation can tell it.
//!
//! | Fault | [`SqliteJournal`](journal) (`device`) | [`MemoryJournal`] (`none`) |
//! |---|---|---|
//! | time-out, reset, lost answer, 5xx | survives | survives |
//! | the future is dropped, the runtime shuts down | survives | survives while the client lives |
//! | panic, `kill -9`, crash of the process | survives | lost |
//! | power cut, crash of the machine | survives; see [`flush_all_outcomes`](ClientBuilder::flush_all_outcomes) | lost |
//! | two processes begin the same intent | one operation, one key | not shared |
//! | the process that drives it dies | another takes it over at once, same key | – |
//! | the disk is full | new actions are refused unsent, outcomes of old ones are recorded | – |
//! | a bit flips in the journal | reported; a damaged entry is neither sent nor dropped | – |
//! | the wall clock jumps | never a second key; a doubtful clock only ends sending earlier | the same |
//! | the server forgets the key within its window | **not covered**: it may act again | the same |
//! | the server does not know keys | **not covered**; [`Profile::none`] then sends nothing twice | the same |
//!
//! A page has stores of its own (feature `browser`): `BrowserJournal` in IndexedDB, which survives a
//! killed browser, and in localStorage, which survives a reload. A store of one's own is right when it
//! passes `journal::conformance` (feature `conformance`).
//!
//! # Features
//!
//! | Feature | Default | What it brings |
//! |---|---|---|
//! | `native` | yes | HTTP over hyper and rustls, the system's clock and randomness |
//! | `sqlite` | yes | `SqliteJournal`, with SQLite compiled in |
//! | `json` | yes | `.json(&value)`, with sorted members, so that a re-run freezes the same bytes |
//! | `sealing` | yes | [`Body::Sealed`]: bodies and answers encrypted under a key of yours |
//! | `tracing` | yes | spans for every operation and attempt; the key only as its reference |
//! | `facts` | yes | what each profile says about its provider, and where that was read |
//! | `blocking` | no | a client for programs without an async runtime |
//! | `conformance` | no | the suite that every journal must pass |
//! | `browser` | no | IndexedDB, localStorage and `fetch` for pages; nothing natively |
//!
//! Without any of them the core is left: no runtime, no HTTP, no SQLite; its client is built with
//! [`Client::with_parts`].
//!
//! # Where to start reading
//!
//! To use it: [`Client`], then [`Operation`] and [`Outcome`]; [`retry`] for how often and how long;
//! [`profile`] for how your provider speaks; [`testing`] for your own tests. To understand it:
//! [`machine`] first, which decides everything and does nothing; then [`journal`] and [`transport`],
//! the two traits that it speaks through. The `examples` folder begins with `checkout`.
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
pub mod clock;
pub mod entry;
mod error;
mod fingerprint;
pub mod journal;
mod json;
mod key;
pub mod machine;
mod message;
mod operation;
mod outcome;
#[doc(hidden)]
pub mod planted;
pub mod platform;
pub mod profile;
pub mod retry;
mod seal;
pub mod seam;
pub mod testing;
mod text;
mod time;
mod trace;
pub mod transport;
mod update;

pub use client::{Asked, Client, ClientBuilder, Credentials, CredentialsError, Parts};
pub use entry::{Grade, Phase, Scope};
pub use error::{Error, ErrorKind};
pub use fingerprint::Fingerprint;
pub use journal::stores::*;
pub use key::{InvalidKey, InvalidReference, Key, Reference};
pub use message::{
    Content, Failure, FailureKind, Headers, InvalidMessage, Method, Origin, Response, Sent,
};
pub use operation::{Finding, Operation, OperationBuilder};
pub use outcome::{Outcome, Provenance};
pub use profile::Profile;
pub use retry::Policy;
pub use retry::classify::Reason;
pub use seal::Body;
#[cfg(feature = "sealing")]
pub use seal::SealingKey;
pub use time::{Now, Timestamp};
pub use update::{Update, Updates};

/// The README's program must compile.
#[cfg(all(doctest, feature = "native", feature = "sqlite", feature = "json"))]
#[doc = include_str!("../README.md")]
struct Readme;
