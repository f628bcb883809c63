//! I6 success is the server's word · I8 unknown is not failure · I12 ends stand · I13 only what was not
//! sent is given up.

use super::super::monitor::Monitor;
use super::super::world::World;
use super::{Ending, Sending, Writing, says};
use samekey::entry::Phase;
use samekey::{Error, ErrorKind, Key, Outcome, Provenance};

/// Nobody can look once more while it is stopped between the look and the send.
pub(super) fn i12_nothing_is_sent_after_the_end(it: &Sending<'_>) -> Option<String> {
    if it.row.is_some_and(|row| row.gone.is_some()) {
        return says(true, "it was sent after it was forgotten");
    }
    let cuts = it.world.hosts[it.watch.host].cuts;
    let told = it.watch.told_phase.is_some() || it.watch.told_after_cuts == Some(cuts);
    says(
        told && !it.was_stopped(),
        "it was sent after its end was told",
    )
}

pub(super) fn i12_nothing_leaves_an_end(it: &Writing<'_>) -> Option<String> {
    let (before, after) = (it.before, it.after);
    if !before.phase.is_settled() {
        return None;
    }
    if before.phase != after.phase {
        return Some(format!("{} became {}", before.phase, after.phase));
    }
    says(before.answer != after.answer, "a final answer was replaced")
}

/// By attempts without an answer, and by what the server has done.
pub(super) fn i13_only_what_was_not_sent_is_abandoned(it: &Writing<'_>) -> Option<String> {
    let abandoned = it.after.phase == Phase::Abandoned && it.before.phase != it.after.phase;
    if !abandoned || it.watch.by_hand {
        return None;
    }
    if it.watch.effects > 0 {
        return says(true, "it was abandoned, and it had happened");
    }
    says(
        it.watch.left > it.watch.answered,
        "it was abandoned, and an attempt has no answer",
    )
}

pub(super) fn i08_the_disk_does_not_contradict_the_server(it: &Ending<'_>) -> Option<String> {
    let (phase, effects) = (it.phase, it.watch.effects);
    let unfounded = phase == Phase::Succeeded && effects == 0;
    let false_end = matches!(phase, Phase::Rejected | Phase::Abandoned) && effects > 0;
    ((unfounded || false_end) && !it.watch.by_hand)
        .then(|| format!("the disk says {phase}, the server {effects} effects"))
}

pub(super) fn i12_what_was_told_stands(it: &Ending<'_>) -> Option<String> {
    let (watch, phase) = (it.watch, it.phase);
    if let Some(told) = watch.told_phase
        && told != phase
    {
        return Some(format!(
            "it was told to be {told}, and the disk says {phase:?}"
        ));
    }
    let cuts = it.world.hosts[watch.host].cuts;
    (watch.told_after_cuts == Some(cuts) && phase != Phase::Succeeded)
        .then(|| format!("it was told to have succeeded, and the disk says {phase:?}"))
}

impl World {
    /// The server acted: I2, I7, I8, I13.
    pub(crate) fn effect(&mut self, key: &str, deed: usize, answer: &str) {
        let excused = match self.monitor.keys.get(key) {
            Some(watch) => self.was_set_back(watch),
            None => false,
        };
        let monitor = &mut self.monitor;
        let watch = monitor.keys.entry(key.into()).or_default();
        watch.effects += 1;
        watch.answers.push(answer.into());
        let excused_again = excused && watch.effects > 1;
        let (failed, abandoned) = (watch.told_failure, watch.abandoned);
        monitor.i07_effects(key, deed, excused);
        if failed {
            let what = "it happened after it was told that it had not and would not";
            monitor.broken("I8", deed, what);
        }
        if abandoned {
            monitor.broken("I13", deed, "it happened after it was abandoned");
        }
        if !excused_again {
            monitor.i02_effects(deed);
        }
    }

    pub(crate) fn told_error(&mut self, key: Option<&Key>, error: &Error) {
        let stopped = self.was_stopped(self.turn);
        self.monitor.told_error(key, error, stopped);
    }

    pub(crate) fn told_outcome(&mut self, key: &Key, outcome: &Outcome) {
        let host = self.watch_of(key).map_or(0, |watch| watch.host);
        let cuts = self.hosts[host].cuts;
        self.monitor.told_outcome(key, outcome, cuts);
    }
}

impl Monitor {
    /// The phase that somebody was told in so many words: I13.
    pub(crate) fn told_phase(&mut self, key: &Key, phase: Phase) {
        let Some(watch) = self.keys.get_mut(key.as_str()) else {
            return;
        };
        if phase == Phase::Abandoned && !watch.by_hand {
            self.counters.abandoned += 1;
            watch.told_failure = true;
            if watch.effects > 0 {
                let deed = watch.deed;
                self.broken("I13", deed, "it was called abandoned, and it had happened");
                return;
            }
        }
        if phase.is_settled() {
            watch.told_phase = Some(phase);
        }
    }

    /// I6, I8, I12.
    fn told_outcome(&mut self, key: &Key, outcome: &Outcome, cuts: u64) {
        let Some(watch) = self.keys.get_mut(key.as_str()) else {
            return;
        };
        let deed = watch.deed;
        if outcome.provenance() == Provenance::ByHand || watch.by_hand {
            return;
        }
        let (mut rule, mut what) = ("", "");
        if outcome.is_success() {
            self.counters.told_success += 1;
            watch.told_success = true;
            if outcome.is_recorded() && outcome.provenance() != Provenance::Recovered {
                watch.told_after_cuts = Some(cuts);
            }
            let given = |body: &[u8]| watch.answers.iter().any(|it| it.as_bytes() == body);
            if watch.effects == 0 {
                rule = "I6";
                what = "it was told to have succeeded, and it had not happened";
            } else if watch.told_failure {
                rule = "I12";
                what = "it was told to have failed, and then to have succeeded";
            } else if outcome.body().is_some_and(|body| !given(body)) {
                rule = "I6";
                what = "the answer that was told is not the one that was given";
            }
        } else {
            self.counters.told_rejected += 1;
            watch.told_failure = true;
            if outcome.is_recorded() {
                watch.told_phase = Some(Phase::Rejected);
            }
            if watch.effects > 0 {
                rule = "I8";
                what = "it was told to have failed, and it had happened";
            } else if watch.told_success {
                rule = "I12";
                what = "it was told to have succeeded, and then to have failed";
            }
        }
        if !rule.is_empty() {
            self.broken(rule, deed, what);
        }
    }

    /// I8. `stopped` if whoever tells it has just come back: what it last saw may be long ago.
    fn told_error(&mut self, key: Option<&Key>, error: &Error, stopped: bool) {
        if error.is_unresolved() {
            self.counters.unknown += 1;
        }
        match error.kind() {
            ErrorKind::Attention(samekey::Reason::WindowClosed) => {
                self.counters.windows_closed += 1;
            }
            ErrorKind::Deferred(_) => self.counters.deferred += 1,
            ErrorKind::Damaged => self.counters.damage_refused += 1,
            _ => {}
        }
        if !error.nothing_was_sent() {
            return;
        }
        self.counters.told_not_sent += 1;
        let Some(watch) = key.and_then(|key| self.keys.get(key.as_str())) else {
            return;
        };
        if watch.left > 0 && !stopped {
            let deed = watch.deed;
            let what = format!("it was told that nothing was sent, and something was: {error}");
            self.broken("I8", deed, &what);
        }
    }
}
