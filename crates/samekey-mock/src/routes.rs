//! The shop's routes, and which of them a key protects.

use crate::naughty::{Habits, Naughty};
use serde::Serialize;

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Order,
    Payment,
    Refund,
    Export,
    ChangeOrder,
    ReplaceOrder,
    CancelOrder,
    Read,
    KeyState,
}

/// Whether a route wants a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Need {
    Required,
    Optional,
    None,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// A pattern; `{}` stands for one segment.
    pub(crate) pattern: &'static str,
    pub(crate) kind: Kind,
    pub(crate) need: Need,
}

const fn route(method: &'static str, pattern: &'static str, kind: Kind, need: Need) -> Route {
    Route {
        method,
        pattern,
        kind,
        need,
    }
}

pub(crate) const ROUTES: &[Route] = &[
    route("POST", "/orders", Kind::Order, Need::Required),
    route("POST", "/payments", Kind::Payment, Need::Required),
    route("POST", "/refunds", Kind::Refund, Need::Required),
    route("POST", "/exports", Kind::Export, Need::Required),
    route("PATCH", "/orders/{}", Kind::ChangeOrder, Need::Required),
    route("PUT", "/orders/{}", Kind::ReplaceOrder, Need::Optional),
    route("DELETE", "/orders/{}", Kind::CancelOrder, Need::Optional),
    route("GET", "/orders/{}", Kind::Read, Need::None),
    route("GET", "/payments/{}", Kind::Read, Need::None),
    route("GET", "/refunds/{}", Kind::Read, Need::None),
    route("GET", "/exports/{}", Kind::Read, Need::None),
    route("GET", "/keys/{}", Kind::KeyState, Need::None),
];

/// Finds a route; on failure says whether the path exists under another method.
pub(crate) fn find<'p>(method: &str, path: &'p str) -> Result<(Route, &'p str), bool> {
    let mut known = false;
    for route in ROUTES {
        let Some(segment) = fits(route.pattern, path) else {
            continue;
        };
        if route.method == method {
            return Ok((*route, segment));
        }
        known = true;
    }
    Err(known)
}

fn fits<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    match pattern.strip_suffix("{}") {
        None => (pattern == path).then_some(""),
        Some(start) => path.strip_prefix(start).filter(|rest| !rest.contains('/')),
    }
}

/// Method and pattern: what a key is scoped to.
pub(crate) fn operation(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    let pattern = find(method, path).map_or(path, |(route, _)| route.pattern);
    format!("{method} {pattern}")
}

/// One line of the audit at start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Method and pattern.
    pub operation: String,
    /// Whether a repeat under the same key is recognised.
    pub covered: bool,
}

/// Every state-changing route and whether keys protect it.
pub(crate) fn audit(habits: Habits) -> Vec<Coverage> {
    let writes = ROUTES.iter().filter(|route| route.need != Need::None);
    writes
        .map(|route| Coverage {
            operation: format!("{} {}", route.method, route.pattern),
            covered: is_covered(route.kind, habits),
        })
        .collect()
}

pub(crate) fn is_covered(kind: Kind, habits: Habits) -> bool {
    !(kind == Kind::Refund && habits.has(Naughty::UncoveredRoute))
}
