//! What a journal gives back: an entry is read as it was written, or refused.

use crate::{Check, Target, rule, shape};
use samekey::entry::{
    Answer, Attempt, DecodeError, FORMAT, Frozen, Kept, Owner, Phase, Progress, Scope, WindowSource,
};
use samekey::retry::classify::{Complete, Once, Reason, Replayed};
use samekey::{Fingerprint, Headers, Key, Method, Timestamp};
use sha2::{Digest, Sha256};
use std::time::Duration;

pub(crate) const TARGET: Target = Target {
    name: "entry",
    check: |data| check(read_back, data),
    planted: &[|data| check(blind, data), |data| check(lenient, data)],
    words: &[
        "idempotency-key",
        "https://api.example.com/orders",
        "stripe",
        "\x01",
        "\u{80}",
        "order-42",
    ],
    made: samples,
};

/// Decodes, and says what would be written.
type Reread = fn(Half, &[u8], &Key) -> Result<Vec<u8>, DecodeError>;

#[derive(Clone, Copy, PartialEq)]
enum Half {
    Frozen,
    Progress,
}

fn read_back(half: Half, bytes: &[u8], key: &Key) -> Result<Vec<u8>, DecodeError> {
    match half {
        Half::Frozen => Frozen::decode(bytes).map(|frozen| frozen.encode()),
        Half::Progress => Progress::decode(bytes, key).map(|progress| progress.encode(key)),
    }
}

/// A bug: the digest is not looked at.
fn blind(half: Half, bytes: &[u8], key: &Key) -> Result<Vec<u8>, DecodeError> {
    let content = bytes
        .split_last_chunk::<16>()
        .map_or(bytes, |(content, _)| content);
    read_back(half, &sealed(content, half, key), key)
}

/// A bug: what should be 0 or 1 may be anything.
fn lenient(half: Half, bytes: &[u8], key: &Key) -> Result<Vec<u8>, DecodeError> {
    match read_back(half, bytes, key) {
        Err(DecodeError::Content("flag")) => Ok(Vec::new()),
        read => read,
    }
}

/// The digest by its definition, so that the fuzzer gets past it.
fn sealed(content: &[u8], half: Half, key: &Key) -> Vec<u8> {
    let bound_to = match half {
        Half::Frozen => b"frozen".as_slice(),
        Half::Progress => key.as_str().as_bytes(),
    };
    let mut hash = Sha256::new();
    hash.update((bound_to.len() as u64).to_le_bytes());
    hash.update(bound_to);
    hash.update(content);
    let digest: [u8; 32] = hash.finalize().into();
    [content, &digest[..16]].concat()
}

/// The first byte says which half; the rest is its content without the digest.
fn check(reread: Reread, data: &[u8]) -> Check {
    let (half, content) = match data.split_first() {
        Some((first, rest)) if first % 2 == 0 => (Half::Frozen, rest),
        Some((_, rest)) => (Half::Progress, rest),
        None => return Ok(0),
    };
    let key = Key::from_random([7; 16]);
    rule(
        reread(half, data, &key).is_err(),
        "bytes without a digest are refused",
    )?;
    let written = sealed(content, half, &key);
    let spot = usize::try_from(shape(&content) % (written.len() as u64 * 8)).unwrap_or(0);
    let mut flipped = written.clone();
    flipped[spot / 8] ^= 1 << (spot % 8);
    rule(
        reread(half, &flipped, &key).is_err(),
        "a flipped bit is noticed",
    )?;
    let cut = &written[..spot / 8];
    rule(reread(half, cut, &key).is_err(), "a cut is noticed")?;
    if half == Half::Progress {
        let other = Key::from_random([8; 16]);
        rule(
            reread(half, &written, &other).is_err(),
            "another entry's progress is refused",
        )?;
    }
    match reread(half, &written, &key) {
        Ok(again) => {
            rule(
                again == written,
                "what is read is written back byte for byte, or refused",
            )?;
            Ok(shape(&(half == Half::Frozen, written.len() / 4)))
        }
        Err(DecodeError::TooNew(version)) => {
            rule(version > FORMAT, "only a newer format is called too new")?;
            Ok(1)
        }
        Err(error) => Ok(shape(&(
            error.to_string(),
            half == Half::Frozen,
            content.len() / 16,
        ))),
    }
}

fn headers() -> Headers {
    let mut headers = Headers::new();
    let _fits = headers.push("content-type", "application/json");
    let _fits = headers.push("prefer", "return=minimal");
    headers
}

fn samples() -> Vec<Vec<u8>> {
    let key = Key::from_random([7; 16]);
    let frozen = Frozen {
        key: key.clone(),
        scope: Scope::from_stored("shop/alice"),
        intent: "cart/9".into(),
        generation: 1,
        method: Method::Post,
        url: "https://api.example.com/orders?x=1".into(),
        headers: headers(),
        key_line: Some(("Idempotency-Key".into(), key.as_str().into())),
        body: Kept::Plain(br#"{"amount":1}"#[..].into()),
        body_digest: [3; 32],
        fingerprint: Fingerprint::from_bytes([4; 32]),
        profile: "default".into(),
        begun_at: Timestamp::from_millis(1_800_000_000_000),
        complete: Complete::Header("x-order".into()),
    };
    let bare = Frozen {
        key_line: None,
        headers: Headers::new(),
        body: Kept::NotKept,
        generation: 0,
        ..frozen.clone()
    };
    let content = |first: u8, bytes: &[u8]| [&[first], &bytes[..bytes.len() - 16]].concat();
    let mut seeds: Vec<Vec<u8>> = [frozen, bare]
        .iter()
        .map(|frozen| content(0, &frozen.encode()))
        .collect();
    let ready = Progress::ready(
        Owner(9),
        Timestamp::from_millis(1_800_000_000_000),
        Duration::from_secs(86_400),
        WindowSource::Assumed,
    );
    seeds.push(content(1, &ready.encode(&key)));
    seeds.push(content(1, &eventful(&ready).encode(&key)));
    seeds
}

/// A progress with something in every place.
fn eventful(ready: &Progress) -> Progress {
    let at = Timestamp::from_millis(1_800_000_100_000);
    Progress {
        phase: Phase::Attention(Reason::Exhausted),
        revision: 300,
        attempts: 2,
        recent: vec![Attempt {
            number: 1,
            ended_at: at,
            took: Duration::from_millis(250),
            status: Some(503),
            reason: "the server is not available".into(),
        }],
        maybe_applied: true,
        used: vec![Once::Reauthorise, Once::PollLost],
        not_before: Some(at),
        moved_to: Some("https://api.example.com/v2".into()),
        poll_url: Some("https://api.example.com/jobs/7".into()),
        answer: Some(Answer {
            status: 201,
            headers: headers(),
            body: Kept::Plain(b"paid"[..].into()),
            replayed: Replayed::Yes,
            at,
        }),
        note: Some("seen".into()),
        ..ready.clone()
    }
}
