//! Every seed holds, and every rule can fail.

use samekey_fuzz::{TARGETS, campaign, coverage, maze};

#[test]
fn every_seed_and_every_input_that_once_failed_keeps_the_rules() {
    for target in TARGETS {
        let seeds = target.seeds().expect("the corpus");
        assert!(
            seeds.len() >= 3,
            "{}: only {} seeds",
            target.name,
            seeds.len()
        );
        for seed in seeds {
            if let Err(why) = (target.check)(&seed) {
                panic!(
                    "{} breaks \"{why}\" with {:?}",
                    target.name,
                    String::from_utf8_lossy(&seed)
                );
            }
        }
    }
}

#[test]
fn a_short_campaign_from_the_seeds_breaks_no_rule() {
    for target in TARGETS {
        let seeds = target.seeds().expect("the corpus");
        let ended = campaign(target, target.check, seeds, 1, |runs| runs < 2_000);
        if let Err(broken) = ended {
            panic!(
                "{} breaks \"{}\" with {:?}",
                target.name, broken.why, broken.input
            );
        }
    }
}

/// The twin of the two above: the same rules, the same seeds, a parser with a bug.
#[test]
fn the_same_campaign_finds_every_bug_that_is_planted() {
    for target in TARGETS {
        for (number, planted) in target.planted.iter().enumerate() {
            let seeds = target.seeds().expect("the corpus");
            let found = campaign(target, *planted, seeds, 1, |runs| runs < 20_000);
            assert!(found.is_err(), "{} {number}: nobody noticed", target.name);
        }
    }
}

#[test]
fn a_seed_of_the_dice_gives_the_same_campaign_again() {
    for target in TARGETS {
        let run = || {
            let seeds = target.seeds().expect("the corpus");
            let planted = *target.planted.last().expect("a twin");
            campaign(target, planted, seeds, 7, |runs| runs < 20_000).map_err(|b| b.input)
        };
        assert_eq!(run(), run(), "{}", target.name);
    }
}

/// The twin of the check that `cargo xtask fuzz` makes at its start.
#[test]
fn without_counted_branches_there_is_no_way_through_the_maze() {
    assert!(!coverage::is_measured());
    assert!(maze::walk(200_000).is_ok());
}
