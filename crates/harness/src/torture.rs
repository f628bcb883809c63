//! Torture: real processes are killed, real disks are cut off, filled, broken and altered; an outside
//! judge compares the server's ledger, the journal and what callers were told.
//!
//! Every gate has a twin, a client with a bug on purpose or a store without the safeguard, which the
//! same gate must turn red; a gate that stays green for its twin makes the run red.

mod cuts;
mod disk;
mod faults;
mod flips;
mod judge;
mod kills;
mod leaks;
mod planted;
mod server;
mod told;
mod tools;
mod wire;
mod worker;

use judge::Counts;
use kills::Deaths;
use std::process::ExitCode;
use tools::{Res, figure, now};

const USAGE: &str = "\
Usage: cargo xtask torture [--kills N] [--cuts N] [--faults N|all] [--flips N] [--full] [--seed N]

Real processes against the real mock server, judged from outside. Without numbers: the short run.
With at least one of the first four, only those arms run.

  --kills N       kill -9 of clients on one journal: by timer, at the n-th system call (strace), after a
                  stop of twice the lease; servers are killed too (300, full 10,000)
  --cuts N        power cuts of an ext4 file system, and controls that must lose (10, full 300); needs root
  --faults N|all  the n-th write, sync, open or truncation fails (240, full: every n until a run is clean);
                  also a full and a read-only disk
  --flips N       flipped bits in database, log, tape and entries (200, full 20,000)
  --full          the full size of every arm
  --seed N        moments and choices are drawn from it (1); it is printed, but processes are not replayed
                  by it, as a simulation is
";

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, rest)) if first == "worker" => worker::main(rest),
        Some((first, _)) if first == "planted" => planted::main(),
        _ if arguments
            .iter()
            .any(|word| word == "--help" || word == "-h") =>
        {
            print!("{USAGE}");
            Ok(())
        }
        _ => Size::of(&arguments).and_then(|size| run(&size)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// How much of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    kills: u64,
    cuts: u64,
    /// `u64::MAX` for every point there is.
    faults: u64,
    flips: u64,
    seed: u64,
}

const SHORT: Size = Size {
    kills: 300,
    cuts: 10,
    faults: 240,
    flips: 200,
    seed: 1,
};
const FULL: Size = Size {
    kills: 10_000,
    cuts: 300,
    faults: u64::MAX,
    flips: 20_000,
    seed: 1,
};

impl Size {
    fn of(arguments: &[String]) -> Res<Size> {
        let (mut base, mut chosen, mut some) = (SHORT, Size::default(), false);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let arm = match word.as_str() {
                "--full" => {
                    base = FULL;
                    continue;
                }
                "--seed" => &mut base.seed,
                "--kills" => &mut chosen.kills,
                "--cuts" => &mut chosen.cuts,
                "--faults" => &mut chosen.faults,
                "--flips" => &mut chosen.flips,
                _ => return Err(format!("`{word}` is not known\n\n{USAGE}")),
            };
            *arm = match words.next().map(String::as_str) {
                Some("all") if word == "--faults" => u64::MAX,
                Some(number) => number
                    .parse()
                    .map_err(|_| format!("{word} wants a number, not `{number}`"))?,
                None => return Err(format!("{word} wants a number")),
            };
            some |= word != "--seed";
        }
        chosen.seed = base.seed;
        Ok(if some { chosen } else { base })
    }
}

/// What a run has found so far.
#[derive(Debug, Default)]
struct Run {
    counts: Counts,
    deaths: Deaths,
    controls: u64,
    red: Vec<String>,
}

impl Run {
    /// Notes what an arm found.
    fn take(&mut self, arm: &str, counts: Counts, words: &[String]) {
        self.counts += counts;
        if !counts.is_clean() {
            words
                .iter()
                .take(20)
                .for_each(|word| println!("{arm}: {word}"));
            self.red.push(format!("{arm}: {counts:?}"));
        }
    }

    /// A twin that must be caught, by what is named for it.
    fn control(&mut self, what: &str, caught: u64, by: &str) {
        println!("control: {what}: {by} {caught}");
        if caught == 0 {
            self.red.push(format!("nobody noticed the control: {what}"));
        } else {
            self.controls += 1;
        }
    }
}

fn run(size: &Size) -> Res<()> {
    // Before anything else: this starts the program anew.
    let apart = if size.cuts > 0 || size.faults > 0 {
        disk::go_apart()
    } else {
        Ok(())
    };
    println!("torture, seed {}: {size:?}", size.seed);
    let started = now();
    let mut run = Run::default();
    if size.kills > 0 {
        kill(&mut run, size)?;
    }
    if size.cuts > 0 {
        cut(&mut run, size, apart.as_ref().err())?;
    }
    if size.faults > 0 {
        fail(&mut run, size, apart.as_ref().err())?;
    }
    if size.flips > 0 {
        flip(&mut run, size)?;
    }
    for (name, value) in run.counts.all() {
        figure(name, value, "times");
    }
    figure("controls", run.controls, "caught");
    figure("torture_seconds", started.elapsed().as_secs(), "seconds");
    if run.red.is_empty() {
        return Ok(());
    }
    Err(run.red.join("\n"))
}

fn kill(run: &mut Run, size: &Size) -> Res<()> {
    if !kills::can_trace() {
        println!("WARNING: strace is missing: nobody is killed at the n-th system call");
    }
    let started = now();
    for (name, verdict, deaths) in kills::many(size.kills, size.seed)? {
        run.take(&name, verdict.counts, &verdict.words);
        run.deaths.add(deaths);
    }
    let deaths = run.deaths;
    figure("kills", deaths.kills(), "kills");
    figure("kills_by_timer", deaths.by_timer, "kills");
    figure("kills_at_a_call", deaths.at_a_call, "kills");
    figure("kills_at_a_word", deaths.at_a_word, "kills");
    figure("kills_on_tape", deaths.on_tape, "kills");
    if deaths.on_tape == 0 {
        run.red.push("nobody who was killed had a tape".into());
    }
    figure("stops", deaths.stopped, "stops");
    figure("server_kills", deaths.servers, "kills");
    figure("kill_operations", deaths.operations, "operations");
    figure("kill_requests", deaths.requests, "requests");
    figure("kill_seconds", started.elapsed().as_secs(), "seconds");
    for twin in planted::TWINS {
        let caught = planted::in_a_scene(twin, size.seed);
        run.control(twin.what, caught, twin.gate);
    }
    Ok(())
}

/// How outcomes are flushed when the power goes, and what of them a cut may take.
struct Arm {
    name: &'static str,
    flush: bool,
    /// Its share of the cuts, in thirds.
    share: u64,
}

const ARMS: &[Arm] = &[
    Arm {
        name: "normal",
        flush: false,
        share: 2,
    },
    Arm {
        name: "full",
        flush: true,
        share: 1,
    },
];

/// The cuts of one arm. As hard as `full` flushes, nothing that was told may be gone; as `normal` does,
/// some successes must be, to be learnt again: else the cuts cut nothing, and prove nothing.
fn cut_arm(run: &mut Run, bench: &mut cuts::Bench, arm: &Arm, size: &Size) -> Res<()> {
    let (name, started) = (arm.name, now());
    let cuts = (size.cuts * arm.share).div_ceil(3);
    let (mut outcomes, mut relearnt, mut lost, mut taped) = (0, 0, 0, 0);
    for number in 0..cuts {
        let plan = cuts::Plan {
            seed: size.seed.wrapping_mul(1_000_003).wrapping_add(number),
            flush: arm.flush,
            first: number % 2 == 0,
            bug: 0,
        };
        let cut = bench.cut(plan)?;
        outcomes += cut.outcomes;
        taped += u64::from(cut.taped);
        relearnt += cut.verdict.relearnt;
        lost += cut.verdict.counts.lost;
        let what = format!("{name} cut {number} of seed {}", size.seed);
        run.take(&what, cut.verdict.counts, &cut.verdict.words);
        if number % 10 == 9 {
            let seconds = started.elapsed().as_secs();
            println!("{} of {cuts} {name} cuts, {seconds} s", number + 1);
        }
    }
    figure(&format!("cuts_{name}"), cuts, "cuts");
    figure(&format!("cuts_{name}_on_tape"), taped, "cuts");
    figure(&format!("cut_{name}_lost_begins"), lost, "begins");
    figure(&format!("cut_{name}_outcomes"), outcomes, "outcomes told");
    figure(
        &format!("cut_{name}_reopened"),
        relearnt,
        "outcomes, learnt again",
    );
    if arm.flush && relearnt > 0 {
        let why = format!("{relearnt} outcomes were lost though all were flushed fully");
        run.red.push(why);
    }
    if !arm.flush && relearnt == 0 {
        run.red
            .push("no cut cost a success its place: they cut nothing".into());
    }
    if taped == 0 {
        run.red.push(format!("no {name} cut met a tape"));
    }
    if outcomes == 0 {
        run.red
            .push(format!("nothing was told before any {name} cut"));
    }
    Ok(())
}

/// Begins without a full sync, which a cut must be seen to lose.
const UNSYNCED: &[(u8, &str)] = &[
    (3, "begins under synchronous=NORMAL"),
    (4, "begins under synchronous=OFF"),
];

fn cut(run: &mut Run, size: &Size, apart: Option<&String>) -> Res<()> {
    let bench = match apart {
        Some(why) => Err(why.clone()),
        None => cuts::Bench::new(size.seed),
    };
    let mut bench = match bench {
        Ok(bench) => bench,
        Err(why) => {
            println!("WARNING: no power is cut: {why}");
            println!("figure cuts 0 cuts ({why})");
            return Ok(());
        }
    };
    let started = now();
    for arm in ARMS {
        cut_arm(run, &mut bench, arm, size)?;
    }
    figure("cuts", bench.cuts(), "cuts");
    lose_what_is_not_synced(run, &mut bench, size.seed)?;
    let leaks = bench.leaks();
    run.take(
        "cuts",
        Counts {
            leaks,
            ..Counts::default()
        },
        &["a secret was found".into()],
    );
    let told = cuts::Plan {
        seed: size.seed,
        bug: 23,
        ..cuts::Plan::default()
    };
    bench.control(told)?;
    run.control("credentials are on the disk", bench.leaks(), "leaks");
    figure("cut_seconds", started.elapsed().as_secs(), "seconds");
    Ok(())
}

/// The controls of the cuts: they show that the cuts cut, and that a kill would not.
fn lose_what_is_not_synced(run: &mut Run, bench: &mut cuts::Bench, seed: u64) -> Res<()> {
    for (bug, what) in UNSYNCED {
        let mut lost = 0;
        for round in 0..4 {
            let plan = cuts::Plan {
                seed: seed.wrapping_add(u64::from(*bug) * 100 + round),
                bug: *bug,
                ..cuts::Plan::default()
            };
            lost += bench.control(plan)?;
        }
        run.control(what, lost, "lost");
    }
    Ok(())
}

fn fail(run: &mut Run, size: &Size, apart: Option<&String>) -> Res<()> {
    let started = now();
    let bench = faults::Bench::new(size.seed)?;
    if kills::can_trace() {
        let (verdicts, reach) = bench.points(size.faults, size.seed)?;
        for verdict in verdicts {
            run.take("faults", verdict.counts, &verdict.words);
        }
        figure("fault_points", reach.points, "points");
        figure("fault_calls_on_tape", reach.on_tape, "calls");
        if reach.on_tape == 0 {
            run.red.push("nothing was written to a tape".into());
        }
        figure("fault_points_beyond_the_end", reach.not_reached, "points");
        if reach.unclean > 0 {
            let why = format!("{} kinds of faults never came to an end", reach.unclean);
            run.red.push(why);
        }
        if size.faults < u64::MAX && reach.points < size.faults {
            run.red
                .push(format!("only {} fault points were reached", reach.points));
        }
    } else {
        println!("WARNING: strace is missing: no call fails");
        println!("figure fault_points 0 points (strace is missing)");
    }
    let unsent = bench.twin()?;
    run.control(
        "a begin that was not written is sent",
        unsent,
        "unjournalled",
    );
    if let Some(why) = apart {
        println!("WARNING: no disk is full or read-only: {why}");
    } else {
        fill(run, &bench)?;
    }
    let counts = Counts {
        leaks: bench.leaks(),
        ..Counts::default()
    };
    run.take("faults", counts, &["a secret was found".into()]);
    figure("fault_seconds", started.elapsed().as_secs(), "seconds");
    Ok(())
}

/// Disks that are full or cannot be written.
fn fill(run: &mut Run, bench: &faults::Bench) -> Res<()> {
    let (refused, verdict) = bench.full()?;
    run.take("a full disk", verdict.counts, &verdict.words);
    figure("refused_by_a_full_disk", refused, "begins");
    if refused == 0 {
        run.red.push("the small disk never was full".into());
    }
    let (sent, verdict) = bench.read_only()?;
    run.take("a read-only disk", verdict.counts, &verdict.words);
    if sent > 0 {
        run.red
            .push(format!("{sent} things were done with a read-only journal"));
    }
    Ok(())
}

fn flip(run: &mut Run, size: &Size) -> Res<()> {
    let started = now();
    let (flips, words) = flips::run(size.flips, size.seed)?;
    figure(
        "flips",
        flips.noticed + flips.harmless + flips.silent,
        "bits",
    );
    figure("flips_noticed", flips.noticed, "bits");
    figure("flips_harmless", flips.harmless, "bits");
    figure("flips_silent", flips.silent, "bits");
    figure("flip_seconds", started.elapsed().as_secs(), "seconds");
    if flips.silent > 0 {
        words
            .iter()
            .take(20)
            .for_each(|word| println!("flips: {word}"));
        run.red
            .push(format!("{} flipped bits were not noticed", flips.silent));
    }
    run.control(
        "a log read by plain SQLite",
        flips.silent_without_us,
        "silent",
    );
    Ok(())
}
