//! A page's script, played by hand.

use super::*;

const OWNER: [u8; 16] = [7; 16];
const LOAD: u32 = 0;
const LIVENESS: u32 = 1;
const SWAP: u32 = 2;
const EXCHANGE: u32 = 5;
const DONE: u32 = 6;
const FAILED: u32 = 7;
const INVALID_REQUEST: f64 = 0.0;
const INVALID_CONFIGURATION: f64 = 1.0;
const JOURNAL: f64 = 2.0;

/// Asks as the script does; the answer without its first value, which says whether it is a refusal.
fn ask(what: u32, client: usize, about: impl FnOnce(&mut Pack)) -> Result<Vec<u8>, Vec<u8>> {
    let mut asked = Pack::default();
    asked.number(f64::from(what));
    asked.number(client as f64);
    asked.number(1_800_000_000_000.0);
    asked.number(5_000.0);
    asked.bytes(&[9; 16]);
    about(&mut asked);
    let answer = call(asked.as_bytes());
    match Values::new(&answer).flag() {
        false => Ok(answer[1..].to_vec()),
        true => Err(answer[1..].to_vec()),
    }
}

/// A client with an operation that it has just begun.
struct Stage {
    client: usize,
    added: Vec<u8>,
}

/// What a drive asks for.
struct Wants {
    maybe_sent: bool,
    what: u32,
    values: Vec<u8>,
}

impl Wants {
    fn read(answer: &[u8], with_number: bool) -> (usize, Wants) {
        let mut values = Values::new(answer);
        let number = if with_number { values.number() } else { 0.0 };
        let (maybe_sent, update) = (values.flag(), values.bytes().len());
        let what = values.number() as u32;
        let skipped = if with_number { 9 } else { 0 } + 1 + 5 + update + 9;
        let values = answer[skipped..].to_vec();
        let wants = Wants {
            maybe_sent,
            what,
            values,
        };
        (number as usize, wants)
    }
}

impl Stage {
    fn new() -> Stage {
        let opened = ask(0, 0, |asked| {
            asked.text("shop");
            asked.nothing();
            asked.nothing();
            asked.bytes(&[]);
            asked.bytes(&[]);
            asked.flag(true);
            asked.flag(false);
        });
        let client = Values::new(&opened.unwrap()).number() as usize;
        let added = begin(client, "cart/9").unwrap();
        Stage { client, added }
    }

    /// The row as it was added, or with this progress and revision.
    fn row(&self, told: &mut Pack, changed: Option<(&[u8], f64)>) {
        let mut added = Values::new(&self.added);
        told.number(1.0);
        told.text(added.text());
        told.text(added.text());
        told.bytes(added.bytes());
        let (progress, revision) = changed.unwrap_or((added.bytes(), 1.0));
        told.bytes(progress);
        told.number(revision);
        told.flag(false);
    }

    /// The progress of the operation once it is let go.
    fn released(&self) -> Vec<u8> {
        let mut added = Values::new(&self.added);
        for _ in 0..4 {
            added.bytes();
        }
        added.flag();
        added.bytes().to_vec()
    }

    /// What was read of the row, and whether this drive may rely on nothing having left.
    fn read(&self, drive: usize, held: bool, changed: Option<(&[u8], f64)>) -> Wants {
        self.tell(drive, |told| {
            match held {
                true => told.number(1.0),
                false => told.nothing(),
            }
            self.row(told, changed);
        })
    }

    fn drive(&self, begun_here: bool) -> (usize, Wants) {
        let answer = ask(8, self.client, |asked| {
            asked.bytes(&OWNER);
            asked.number(3.0);
            asked.flag(false);
            asked.flag(false);
            asked.flag(begun_here);
            asked.flag(false);
            asked.nothing();
            self.row(asked, None);
        });
        Wants::read(&answer.unwrap(), true)
    }

    fn tell(&self, drive: usize, about: impl FnOnce(&mut Pack)) -> Wants {
        let answer = ask(9, self.client, |asked| {
            asked.number(drive as f64);
            asked.flag(false);
            about(asked);
        });
        Wants::read(&answer.unwrap(), false).1
    }

    /// How many writes let go of what is ours.
    fn end(&self, drive: usize) -> usize {
        let answer = ask(10, self.client, |asked| asked.number(drive as f64)).unwrap();
        let (mut values, mut writes) = (Values::new(&answer), 0);
        while !values.is_empty() {
            values.bytes();
            writes += 1;
        }
        writes
    }
}

fn begin(client: usize, intent: &str) -> Result<Vec<u8>, Vec<u8>> {
    ask(1, client, |asked| {
        asked.bytes(&OWNER);
        asked.nothing();
        asked.flag(false);
        asked.text(intent);
        asked.text("https://api.example.com/orders");
        asked.text("POST");
        asked.bytes(b"{}");
        asked.text("application/json");
        for _ in 0..5 {
            asked.nothing();
        }
        asked.bytes(&[]);
    })
}

fn created(told: &mut Pack) {
    told.number(0.0);
    told.number(201.0);
    told.bytes(b"{}");
    told.flag(false);
}

#[test]
fn what_this_page_began_is_sent_once_it_was_looked_at_and_told_once_it_is_written() {
    let stage = Stage::new();
    let (drive, wants) = stage.drive(true);
    assert_eq!(wants.what, LOAD);
    let wants = stage.read(drive, true, None);
    assert_eq!(wants.what, EXCHANGE);
    assert!(wants.maybe_sent);
    let mut request = Values::new(&wants.values);
    assert_eq!(request.text(), "POST");
    assert_eq!(request.text(), "https://api.example.com/orders");
    assert_eq!(request.bytes(), b"{}");
    let wants = stage.tell(drive, created);
    assert_eq!(wants.what, SWAP);
    let wants = stage.tell(drive, |told| told.flag(true));
    assert_eq!(wants.what, DONE);
    assert_eq!(Values::new(&wants.values).text(), "succeeded");
    assert_eq!(stage.end(drive), 0);
}

#[test]
fn t17_nothing_is_handed_out_to_be_sent_before_the_store_says_that_the_claim_is_written() {
    let stage = Stage::new();
    let released = stage.released();
    let unowned = |drive| stage.read(drive, false, Some((&released, 2.0)));
    let (drive, _) = stage.drive(false);
    assert_eq!(unowned(drive).what, SWAP);
    // Somebody else wrote first: look again.
    assert_eq!(stage.tell(drive, |told| told.flag(false)).what, LOAD);
    assert_eq!(unowned(drive).what, SWAP);
    assert_eq!(stage.tell(drive, |told| told.flag(true)).what, EXCHANGE);
    // Broken off while it is out there: it is let go, and counts as maybe sent.
    assert_eq!(stage.end(drive), 1);
}

#[test]
fn i19_a_drive_that_is_broken_off_lets_go_of_what_is_its_own_and_of_nothing_else() {
    let stage = Stage::new();
    let released = stage.released();
    let unowned = |drive| stage.read(drive, false, Some((&released, 2.0)));
    let (drive, _) = stage.drive(false);
    assert_eq!(stage.end(drive), 0, "nothing was looked at yet");
    let (drive, _) = stage.drive(false);
    unowned(drive);
    assert_eq!(stage.end(drive), 1, "a claim that nobody heard of");
    let (drive, _) = stage.drive(false);
    unowned(drive);
    stage.tell(drive, |told| told.flag(false));
    assert_eq!(stage.end(drive), 0, "a claim that bounced");
    let (drive, _) = stage.drive(true);
    stage.read(drive, true, None);
    stage.tell(drive, created);
    stage.tell(drive, |told| told.flag(true));
    assert_eq!(stage.end(drive), 0, "it ended");
}

/// A person who stops it meanwhile may have been told that nothing was sent.
#[test]
fn i13_who_may_not_rely_on_nothing_having_left_writes_before_anything_is_sent() {
    let stage = Stage::new();
    let (drive, _) = stage.drive(true);
    assert_eq!(stage.read(drive, false, None).what, SWAP);
}

#[test]
fn a_store_in_trouble_is_told_with_what_is_known_of_the_operation() {
    let stage = Stage::new();
    let (drive, _) = stage.drive(true);
    stage.read(drive, true, None);
    stage.tell(drive, created);
    let in_trouble = |told: &mut Pack| {
        told.number(drive as f64);
        told.flag(true);
        told.number(1.0);
        told.text("no room");
    };
    // A success is real, written down or not.
    let answer = ask(9, stage.client, in_trouble).unwrap();
    assert_eq!(Wants::read(&answer, false).1.what, DONE);
    assert_eq!(stage.end(drive), 1, "in the journal it is still open");
    let (drive, _) = stage.drive(true);
    let answer = ask(9, stage.client, |told| {
        told.number(drive as f64);
        told.flag(true);
        told.number(1.0);
        told.text("no room");
    });
    let wants = Wants::read(&answer.unwrap(), false).1;
    assert_eq!(wants.what, FAILED);
    let mut trouble = Values::new(&wants.values);
    assert_eq!((trouble.number(), trouble.text()), (JOURNAL, "full"));
    assert_eq!(trouble.text(), "no room");
    assert!(!trouble.text().is_empty(), "the reference");
}

#[test]
fn another_tabs_operation_is_asked_after_before_it_is_taken() {
    let stage = Stage::new();
    let (drive, _) = stage.drive(false);
    let other = Stage {
        client: stage.client,
        added: ask_as([8; 16], stage.client),
    };
    let wants = other.read(drive, false, None);
    assert_eq!(wants.what, LIVENESS);
    assert_eq!(Values::new(&wants.values).bytes(), [8; 16]);
    assert_eq!(stage.tell(drive, |told| told.number(0.0)).what, SWAP);
}

/// The same operation, begun by another tab.
fn ask_as(owner: [u8; 16], client: usize) -> Vec<u8> {
    let begun = ask(1, client, |asked| {
        asked.bytes(&owner);
        asked.nothing();
        asked.flag(false);
        asked.text("cart/9");
        asked.text("https://api.example.com/orders");
        asked.text("POST");
        for _ in 0..7 {
            asked.nothing();
        }
        asked.bytes(&[]);
    });
    begun.unwrap()
}

#[test]
fn mistakes_are_refused_with_their_kind() {
    let stage = Stage::new();
    let refusal = begin(stage.client, "").unwrap_err();
    assert_eq!(Values::new(&refusal).number(), INVALID_REQUEST);
    let refusal = ask(7, stage.client, |asked| asked.text("no reference")).unwrap_err();
    assert_eq!(Values::new(&refusal).number(), INVALID_CONFIGURATION);
}

#[test]
fn any_bytes_are_answered() {
    let stage = Stage::new();
    for what in 0..12 {
        let answered = ask(what, stage.client, |asked| asked.bytes(&[255; 40]));
        assert!(answered.is_ok() || answered.is_err());
    }
    assert!(!call(&[]).is_empty());
    assert!(!call(&[5, 255, 255, 255, 255, 1]).is_empty());
}

/// A page cannot set how long settled entries are kept, so nobody there checks it.
#[test]
fn every_profile_of_a_page_remembers_no_longer_than_settled_entries_are_kept() {
    let wrong = |profile: Profile, kept: Option<Duration>| {
        let mut settings = Settings::new();
        settings.settled_for = kept.unwrap_or(settings.settled_for);
        settings.profiles.push(profile);
        let mut problems = Problems::default();
        settings.check_retention(&mut problems);
        !problems.is_empty()
    };
    for profile in Profile::all() {
        assert!(!wrong(profile.clone(), None), "{profile:?}");
        assert!(wrong(profile, Some(Duration::ZERO)));
    }
}
