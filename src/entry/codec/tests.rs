use super::*;
use proptest::prelude::*;

fn headers(pairs: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(name, value).unwrap();
    }
    headers
}

fn frozen(body: Vec<u8>) -> Frozen {
    Frozen {
        key: Key::from_random([3; 16]),
        scope: Scope::new("shop", Some("ann")).unwrap(),
        intent: "cart/9".into(),
        generation: 2,
        method: Method::Patch,
        url: "https://a.example/orders?x=1".into(),
        headers: headers(&[("content-type", "application/json"), ("accept", "*/*")]),
        key_line: Some(("Idempotency-Key".into(), "\"k\"".into())),
        body: Kept::Plain(body.into()),
        body_digest: [9; 32],
        fingerprint: Fingerprint::from_bytes([8; 32]),
        profile: "default".into(),
        begun_at: Timestamp::from_millis(1_700_000_000_123),
        complete: Complete::Header("x-order-id".into()),
    }
}

fn progress(phase: Phase) -> Progress {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut progress = Progress::ready(
        Owner(77),
        now,
        Duration::from_secs(86_400),
        WindowSource::Server,
    );
    progress.phase = phase;
    progress.attempts = 40;
    for number in 1..=40 {
        progress.note_attempt(Attempt {
            number,
            ended_at: now,
            took: Duration::from_millis(12),
            status: (number % 2 == 0).then_some(503),
            reason: "the server is overloaded".into(),
        });
    }
    progress.used = ONCES.to_vec();
    progress.not_before = Some(now);
    progress.moved_to = Some("https://a.example/b".into());
    progress.poll_url = Some("https://a.example/jobs/1".into());
    progress.answer = Some(Answer {
        status: 201,
        headers: headers(&[("location", "/orders/1")]),
        body: Kept::Sealed(vec![1, 2, 3]),
        replayed: Replayed::Yes,
        at: now,
    });
    progress.note = Some("checked with the bank".into());
    progress
}

#[test]
fn what_is_written_is_read_back_in_every_phase() {
    let entry = frozen(b"{}".to_vec());
    for complete in [entry.complete.clone(), Complete::Body, Complete::Status] {
        let entry = Frozen {
            complete,
            ..entry.clone()
        };
        assert_eq!(Frozen::decode(&entry.encode()), Ok(entry.clone()));
    }
    let attention = REASONS.map(Phase::Attention);
    for phase in PHASES.into_iter().chain(attention) {
        let progress = progress(phase);
        assert_eq!(
            Progress::decode(&progress.encode(&entry.key), &entry.key),
            Ok(progress)
        );
    }
}

#[test]
fn an_entry_remembers_only_the_latest_attempts() {
    let progress = progress(Phase::Waiting);
    assert_eq!(progress.recent.len(), super::super::REMEMBERED_ATTEMPTS);
    assert_eq!(progress.recent.last().map(|a| a.number), Some(40));
}

#[test]
fn progress_of_one_entry_is_not_taken_for_anothers() {
    let bytes = progress(Phase::Waiting).encode(&Key::from_random([1; 16]));
    let other = Key::from_random([2; 16]);
    assert_eq!(Progress::decode(&bytes, &other), Err(DecodeError::Digest));
}

#[test]
fn e39_a_newer_format_is_named_and_not_guessed_at() {
    let mut newer = Writer(vec![FORMAT + 1]);
    newer.text("whatever comes");
    assert_eq!(
        Frozen::decode(&newer.finish(b"frozen")),
        Err(DecodeError::TooNew(FORMAT + 1))
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = frozen(b"amount=100".to_vec()).encode();
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(Frozen::decode(&altered).is_err(), "bit {bit}");
    }
}

#[test]
fn without_its_digest_a_flipped_bit_would_pass() {
    let entry = frozen(b"amount=100".to_vec());
    let bytes = entry.encode();
    let at = bytes.windows(10).position(|w| w == b"amount=100").unwrap() + 7;
    let mut content = bytes[..bytes.len() - DIGEST].to_vec();
    content[at] = b'9';
    let forged = Frozen::decode(&Writer(content).finish(b"frozen")).unwrap();
    assert_ne!(
        forged, entry,
        "the control must get past a digest made anew"
    );
}

/// Found by the fuzzer: such bytes were read as if they were the usual ones.
#[test]
fn what_no_release_writes_is_refused_even_if_its_digest_fits() {
    fn read<'a, T>(
        left: &'a [u8],
        read: impl FnOnce(&mut Reader<'a>) -> T,
    ) -> Result<T, DecodeError> {
        let mut reader = Reader { left, broken: None };
        let value = read(&mut reader);
        reader.end().map(|()| value)
    }
    for content in [&[0x80, 0][..], &[0x85, 0x80, 0], &[0xff; 10]] {
        let number = read(content, Reader::number);
        assert_eq!(number, Err(DecodeError::Content("number")), "{content:?}");
    }
    assert_eq!(read(&[0x80, 1], Reader::number), Ok(128));
    let mut most = [0xff; 10];
    most[9] = 1;
    assert_eq!(read(&most, Reader::number), Ok(u64::MAX));
    most[9] = 2;
    assert!(read(&most, Reader::number).is_err());
    assert_eq!(
        read(&[2], Reader::present),
        Err(DecodeError::Content("flag"))
    );
    for line in [&b"\x01\x01A\x01b"[..], b"\x01\x01a\x02b "] {
        let headers = read(line, Reader::headers);
        assert_eq!(headers, Err(DecodeError::Content("header")), "{line:?}");
    }
    assert!(read(b"\x01\x01a\x01b", Reader::headers).is_ok());
}

proptest! {
    #[test]
    fn e39_every_cut_is_noticed(body: Vec<u8>, cut in 0..400usize) {
        let bytes = frozen(body).encode();
        if cut < bytes.len() {
            prop_assert!(Frozen::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
        let key = Key::from_random([1; 16]);
        let _ = Frozen::decode(&Writer([&[FORMAT], &bytes[..]].concat()).finish(b"frozen"));
        let _ = Progress::decode(
            &Writer([&[FORMAT], &bytes[..]].concat()).finish(key.as_str().as_bytes()),
            &key,
        );
    }
}
