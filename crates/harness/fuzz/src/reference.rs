//! The reference that people read aloud: whatever is typed, it is understood or refused.

use crate::{Check, Target, rule, shape};
use samekey::{InvalidReference, Key, Reference};

pub(crate) const TARGET: Target = Target {
    name: "reference",
    check: |data| check(&|text| text.parse(), data),
    planted: &[|data| check(&credulous, data)],
    words: &[
        "7D3F-92AB-1C4E-7",
        "abab abab abab g",
        "O",
        "l",
        "—",
        "7d3f92ab-1c4e-4c1f",
        "order-42",
    ],
    made: || {
        let keys = (0..16u8).map(|n| Key::from_random([n.wrapping_mul(37); 16]));
        keys.map(|key| key.reference().to_string().into_bytes())
            .collect()
    },
};

type Parse<'a> = &'a dyn Fn(&str) -> Result<Reference, InvalidReference>;

/// A bug: a last character that does not fit is put right instead of refused.
fn credulous(text: &str) -> Result<Reference, InvalidReference> {
    let whole = text.parse();
    if whole != Err(InvalidReference::Check) {
        return whole;
    }
    let mut short = text.to_owned();
    short.pop();
    let fits = "0123456789ABCDEFGHJKMNPQRSTVWXY".chars();
    let mut tried = fits.map(|last| format!("{short}{last}").parse());
    tried.find(Result::is_ok).unwrap_or(whole)
}

fn check(parse: Parse<'_>, data: &[u8]) -> Check {
    let text = String::from_utf8_lossy(data);
    if let Ok(key) = Key::adopt(&text) {
        round_trip(parse, key.reference())?;
        let uuid = key.as_str().starts_with(&key.reference().key_prefix());
        rule(
            key.as_str() == text && (uuid || key.reference() == key.clone().reference()),
            "an adopted key stays as it is",
        )?;
    }
    match parse(&text) {
        Ok(reference) => {
            round_trip(parse, reference)?;
            slips(parse, reference)?;
            Ok(shape(&(text.len(), text.is_ascii())))
        }
        Err(error) => Ok(shape(&(format!("{error:?}"), text.len() / 4))),
    }
}

fn round_trip(parse: Parse<'_>, reference: Reference) -> Result<(), String> {
    let shown = reference.to_string();
    let same = |text: &str| parse(text) == Ok(reference);
    rule(
        shown.len() == 16 && same(&shown),
        "what is shown is read back",
    )?;
    let sloppy = shown.to_lowercase().replace('-', " ").replace('0', "o");
    rule(same(&sloppy), "what is typed loosely is read back")?;
    rule(
        reference.key_prefix().replace('-', "") == reference.digits(),
        "the prefix is made of the digits",
    )
}

/// Every character misread as every other, and every two that were swapped.
fn slips(parse: Parse<'_>, reference: Reference) -> Result<(), String> {
    let right: Vec<u8> = reference.to_string().replace('-', "").into_bytes();
    for at in 0..right.len() {
        for put in b"0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
            let mut slip = right.clone();
            slip[at] = *put;
            if slip != right {
                let slip = String::from_utf8_lossy(&slip).into_owned();
                rule(parse(&slip).is_err(), "one misread character is noticed")?;
            }
        }
        for other in at + 1..12 {
            let mut swap = right.clone();
            swap.swap(at, other);
            if at < 12 && swap != right {
                let swap = String::from_utf8_lossy(&swap).into_owned();
                rule(parse(&swap).is_err(), "two swapped digits are noticed")?;
            }
        }
    }
    Ok(())
}
