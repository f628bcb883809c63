//! I9 no secrets at rest · I15 bound destination · I16 bound identity · I21 bounded and tidy.

use super::super::config::Keeping;
use super::super::monitor::CANARY;
use super::{Ending, Sending, Writing, says};
use samekey::entry::{Kept, REMEMBERED_ATTEMPTS};

pub(super) fn i09_no_secret_of_an_answer_is_kept(it: &Writing<'_>) -> Option<String> {
    let answer = it.after.answer.as_ref()?;
    let secret = answer
        .headers
        .iter()
        .any(|(_, value)| value.contains(CANARY));
    says(secret, "a secret was kept")
}

pub(super) fn i09_no_body_is_kept_in_plain_that_should_not_be(it: &Ending<'_>) -> Option<String> {
    let entry = &it.row.entry;
    let answer = entry.progress.answer.as_ref();
    let bodies = [Some(&entry.frozen.body), answer.map(|it| &it.body)];
    let mut bodies = bodies.into_iter().flatten();
    match it.world.config.keeping {
        Keeping::Plain => None,
        Keeping::Nothing => says(
            bodies.any(|body| matches!(body, Kept::Plain(_) | Kept::Sealed(_))),
            "a body was kept that was to be forgotten",
        ),
        Keeping::Sealed => says(
            bodies.any(|body| match body {
                Kept::Plain(_) => true,
                Kept::Sealed(bytes) => bytes.windows(8).any(|part| part == b"\"amount\""),
                _ => false,
            }),
            "a body was kept that can be read without the key",
        ),
    }
}

pub(super) fn i09_no_credential_is_kept(it: &Ending<'_>) -> Option<String> {
    let mut lines = it.row.entry.frozen.headers.iter();
    let kept = lines.any(|(_, value)| value.contains("Bearer"));
    says(kept, "a credential was kept")
}

pub(super) fn i15_nowhere_else(it: &Sending<'_>) -> Option<String> {
    let elsewhere = !it.permit.url().starts_with("https://s");
    says(elsewhere, "it was sent elsewhere")
}

pub(super) fn i16_for_nobody_else(it: &Sending<'_>) -> Option<String> {
    let (first, now) = (&it.watch.tenant, &it.packet.tenant);
    says(
        !first.is_empty() && first != now,
        "it was sent for somebody else",
    )
}

pub(super) fn i21_entries_do_not_grow(it: &Writing<'_>) -> Option<String> {
    says(
        it.after.recent.len() > REMEMBERED_ATTEMPTS,
        "an entry grows with every attempt",
    )
}

pub(super) fn i21_only_what_ended_is_reaped(it: &Ending<'_>) -> Option<String> {
    says(
        it.row.gone.is_some() && !it.phase.is_settled(),
        "what has not ended was reaped",
    )
}
