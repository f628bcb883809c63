//! One small part, done so many times: `parts CASE TIMES FOLDER`. Run below callgrind.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a case that breaks ends the run")]

#[path = "../cases.rs"]
mod cases;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--list"] {
        cases::CASES.iter().for_each(|case| println!("{case}"));
        return Ok(());
    }
    let [name, times, folder] = arguments.as_slice() else {
        return Err("takes a case, a count and a folder, or --list".into());
    };
    let case = cases::CASES.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| format!("there is no case `{name}`"))?;
    let times: u32 = times.parse().map_err(|e| format!("{times}: {e}"))?;
    let mut once = (case.ready)(folder.as_ref());
    for _ in 0..times {
        once();
    }
    // What a journal does when it is closed is no part of it.
    std::process::exit(0)
}
