//! How long the small parts take. `cargo xtask bench` measures the whole.

#[path = "../bench/src/cases.rs"]
mod cases;

use cases::{CASES, Case};

fn main() {
    divan::main();
}

#[divan::bench(args = CASES)]
fn part(bencher: divan::Bencher<'_, '_>, case: &Case) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut once = (case.ready)(folder.path());
    bencher.bench_local(&mut once);
}
