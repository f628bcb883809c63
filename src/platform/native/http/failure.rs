//! What a failed attempt means: above all, whether the request can have reached the server.
//!
//! [`Sent::No`] needs proof. A connection that was never there, or a queue that was never left, must
//! be told by the error *and* by the attempt's own trace; otherwise only a server's own word counts
//! (GOAWAY below our stream, REFUSED_STREAM). Everything else is maybe.

use super::Place;
use super::body::Withheld;
use super::dial::{AtProxy, NoAddress, TooLong, UnknownProxy};
use super::trace::{Connections, Trace};
use crate::message::{Failure, FailureKind, Sent};
use hyper_util::client::legacy;
use std::error::Error;
use std::io;

pub(super) fn window_closed(sent: Sent) -> Failure {
    Failure::new(
        FailureKind::WindowClosed,
        sent,
        "the server's window for this key closed before the body was sent",
    )
}

pub(super) fn timed_out(trace: &Trace, connections: &Connections, place: &Place) -> Failure {
    if !trace.revoke() {
        return Failure::new(
            FailureKind::Timeout,
            Sent::Maybe,
            format!("{place} did not answer in time"),
        );
    }
    // Where there were connections, another may be all that it waited for.
    if !connections.were_there() {
        Failure::new(
            FailureKind::Connect,
            Sent::No,
            format!("no connection to {place} in time"),
        )
    } else {
        Failure::new(
            FailureKind::Queued,
            Sent::No,
            format!("no connection to {place} became free in time"),
        )
    }
}

pub(super) fn explain(
    error: &legacy::Error,
    trace: &Trace,
    connections: &Connections,
    place: &Place,
) -> Failure {
    let found = Found::behind(error);
    if let Some(withheld) = found.withheld {
        return match withheld {
            Withheld::Late if trace.late_before_head() => window_closed(Sent::No),
            Withheld::Late => window_closed(Sent::Maybe),
            Withheld::Revoked => timed_out(trace, connections, place),
        };
    }
    if error.is_connect() || found.canceled {
        let sent = if trace.revoke() {
            Sent::No
        } else {
            Sent::Maybe
        };
        return before_sending(error, &found, sent, place);
    }
    while_sending(&found, trace, place)
}

fn before_sending(error: &legacy::Error, found: &Found<'_>, sent: Sent, place: &Place) -> Failure {
    let through = match found.at_proxy {
        true => " through the proxy",
        false => "",
    };
    if let Some(tls) = found.tls {
        let why = short(&tls.to_string());
        return Failure::new(
            FailureKind::Tls,
            sent,
            format!("no secure connection to {place}{through}: {why}"),
        );
    }
    if !error.is_connect() {
        return Failure::new(
            FailureKind::Queued,
            sent,
            format!("the connection to {place} closed before it took the request"),
        );
    }
    let why = match found.io {
        _ if found.unknown_proxy => UnknownProxy.to_string(),
        _ if found.no_address => "its name has no address".to_owned(),
        _ if found.too_long => "it took too long".to_owned(),
        Some(io) => io.kind().to_string(),
        None if found.at_proxy => "it was not let through".to_owned(),
        None => "it could not be made".to_owned(),
    };
    Failure::new(
        FailureKind::Connect,
        sent,
        format!("no connection to {place}{through}: {why}"),
    )
}

fn while_sending(found: &Found<'_>, trace: &Trace, place: &Place) -> Failure {
    let maybe = |kind, what: String| Failure::new(kind, Sent::Maybe, what);
    if let Some(h2) = found.h2 {
        return from_http2(h2, place);
    }
    if let Some(tls) = found.tls {
        let why = short(&tls.to_string());
        return maybe(
            FailureKind::Tls,
            format!("the secure connection to {place} broke: {why}"),
        );
    }
    if found.parse {
        return maybe(
            FailureKind::BadHead,
            format!("the answer of {place} is not HTTP"),
        );
    }
    if trace.is_pooled() && (found.incomplete || found.io.is_some_and(is_end)) {
        return maybe(
            FailureKind::StaleConnection,
            format!("an idle connection to {place} had ended when it was used again"),
        );
    }
    match found.io {
        Some(io) if io.kind() == io::ErrorKind::BrokenPipe && !is_from_h2(io) => maybe(
            FailureKind::Write,
            format!("the connection to {place} broke while the request was sent"),
        ),
        Some(io) if io.raw_os_error().is_some() => maybe(
            FailureKind::Reset,
            format!(
                "the connection to {place} ended before an answer: {}",
                io.kind()
            ),
        ),
        _ => maybe(
            FailureKind::Reset,
            format!("the connection to {place} ended before an answer"),
        ),
    }
}

/// h2 blames a remote GOAWAY only on streams above the last one that the server took.
fn from_http2(error: &h2::Error, place: &Place) -> Failure {
    let refused = error.is_remote()
        && (error.is_go_away()
            || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)));
    if refused {
        return Failure::new(
            FailureKind::Refused,
            Sent::No,
            format!("{place} said that it did not process the request"),
        );
    }
    let kind = if error.is_library() {
        FailureKind::BadHead
    } else {
        FailureKind::Reset
    };
    let reason = error.reason();
    let why = match &reason {
        Some(reason) => reason.description(),
        None => "the connection broke",
    };
    Failure::new(
        kind,
        Sent::Maybe,
        format!("{place} ended the stream before an answer: {why}"),
    )
}

fn is_end(error: &io::Error) -> bool {
    !is_from_h2(error)
        && matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::NotConnected
        )
}

/// When a connection ends, h2 tells its streams of a broken pipe of its own making. Many attempts
/// shared that connection: none of them is to run off at once.
fn is_from_h2(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe && error.raw_os_error().is_none()
}

/// Some certificates have much to say.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The causes that matter, dug out of an error.
#[derive(Default)]
struct Found<'a> {
    withheld: Option<Withheld>,
    canceled: bool,
    parse: bool,
    incomplete: bool,
    no_address: bool,
    too_long: bool,
    at_proxy: bool,
    unknown_proxy: bool,
    h2: Option<&'a h2::Error>,
    tls: Option<&'a rustls::Error>,
    io: Option<&'a io::Error>,
}

impl<'a> Found<'a> {
    fn behind(error: &'a legacy::Error) -> Found<'a> {
        let mut found = Found::default();
        let mut next: Option<&'a (dyn Error + 'static)> = Some(error);
        while let Some(cause) = next {
            found.note(cause);
            next = below(cause);
        }
        found
    }

    fn note(&mut self, cause: &'a (dyn Error + 'static)) {
        if let Some(withheld) = cause.downcast_ref::<Withheld>() {
            self.withheld = Some(*withheld);
        } else if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            self.canceled |= hyper.is_canceled();
            self.parse |= hyper.is_parse();
            self.incomplete |= hyper.is_incomplete_message();
        } else if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            self.h2 = Some(h2);
        } else if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            self.tls = Some(tls);
        } else if let Some(io) = cause.downcast_ref::<io::Error>() {
            self.too_long |= io.kind() == io::ErrorKind::TimedOut;
            self.io = Some(io);
        }
        self.no_address |= cause.is::<NoAddress>();
        self.too_long |= cause.is::<TooLong>();
        self.at_proxy |= cause.is::<AtProxy>();
        self.unknown_proxy |= cause.is::<UnknownProxy>();
    }
}

/// The cause below. An `io::Error` hides the error that it was made from: its `source` is already
/// that one's source.
fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
