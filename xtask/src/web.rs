//! `cargo xtask web`: the npm package, from the bindings to what a page loads.

use crate::setup::{WASM, npm_packages, standard_library, wasm_target};
use crate::shell::{Outcome, cargo, command, output, root, run as sh};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Members of objects that no page sees and no store keeps; in the package they get short names.
const INNER: [&str; 54] = [
    "adopted",
    "ask",
    "beat",
    "begun",
    "begunHere",
    "channel",
    "connect",
    "core",
    "database",
    "decide",
    "decree",
    "drive",
    "driving",
    "ended",
    "flights",
    "found",
    "handles",
    "hear",
    "insist",
    "keepReserve",
    "keepSweeping",
    "later",
    "learn",
    "letGoIfBegun",
    "listeners",
    "liveness",
    "looked",
    "maybeSent",
    "notes",
    "parked",
    "perform",
    "plain",
    "prefix",
    "previous",
    "prove",
    "reap",
    "ride",
    "row",
    "run",
    "scan",
    "showAgain",
    "shown",
    "stopSweeping",
    "storage",
    "stranger",
    "swap",
    "sweep",
    "takeUp",
    "tell",
    "users",
    "view",
    "watched",
    "wipe",
    "yield",
];

/// The module as it runs, and as a page downloads it.
const OPTIMISED: &str = "wasm/optimised.wasm";
pub(crate) const MODULE: &str = "dist/samekey.wasm.lzma";

/// Where the package is made.
pub(crate) fn package() -> PathBuf {
    root().join("pkg")
}

/// A file of the package as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Where cargo builds: this program lies in it.
pub(crate) fn target() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| format!("cannot find my own place: {e}"))?;
    let target = here
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target
        .map(Path::to_path_buf)
        .ok_or_else(|| "cannot find cargo's target folder".into())
}

/// A tool that npm installed.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> Outcome {
    let path = package().join("node_modules/.bin").join(name);
    sh(command(&text(&path), arguments).current_dir(package()))
}

/// Builds `pkg/dist`.
pub(crate) fn run() -> Outcome {
    wasm_target()?;
    npm_packages()?;
    let module = compile()?;
    // With a loader of our own: the generated one minds much that does not occur here.
    bind(&module, &package().join("wasm"), &["bare"])?;
    let dist = package().join("dist");
    fs::create_dir_all(&dist).map_err(|e| format!("cannot make pkg/dist: {e}"))?;
    // No flags for features: wasm-opt reads them from the module, and with all of them it would
    // write one that no browser takes.
    // Rust puts nothing into the first kilobyte. The loops are made anew from scratch in between.
    let mut optimise = vec!["wasm/samekey_bg.wasm", "-o", OPTIMISED];
    optimise.extend([
        "--strip-target-features",
        "--low-memory-unused",
        "-Oz",
        "--flatten",
        "--rereloop",
        "-Oz",
        "-Oz",
        "--converge",
    ]);
    tool("wasm-opt", &optimise)?;
    let arguments = [OPTIMISED, MODULE].map(|file| text(&package().join(file)));
    let pack = ["run", "--quiet", "--package", "xtask-web", "--", "pack"];
    sh(cargo(&pack).args(&arguments))?;
    tool("tsc", &["--project", "tsconfig.json"])?;
    let inner = format!("--mangle-props=^({})$", INNER.join("|"));
    let bundle = [
        &inner,
        "--bundle",
        "--minify",
        "--format=esm",
        "--target=es2022",
        "--outdir=dist",
    ];
    let page = ["src/index.ts", "--platform=browser"];
    tool("esbuild", &[&page[..], &bundle[..]].concat())?;
    let node = ["src/node.ts", "--platform=node"];
    tool("esbuild", &[&node[..], &bundle[..]].concat())?;
    // It finds a twentieth that esbuild leaves.
    for script in ["dist/index.js", "dist/node.js"] {
        let smaller = ["--module", "--compress", "passes=3", "--mangle", "--output"];
        tool("terser", &[&[script], &smaller[..], &[script]].concat())?;
    }
    Ok(())
}

/// Compiles the bindings; the module still has its names.
///
/// With a standard library of its own: built for size like the rest, and without the texts and the
/// printing of panics, which end the page's module either way. The compiler lets nightly alone do this,
/// or whoever sets `RUSTC_BOOTSTRAP`; where it cannot be done the shipped library serves, a tenth
/// larger.
pub(crate) fn compile() -> Result<PathBuf, String> {
    let built = standard_library().and_then(|()| {
        let mut build = cargo(&["build", "--package", "samekey-wasm", "--profile", "web"]);
        build.args(["--target", &text(&many_valued()?), "-Zjson-target-spec"]);
        build.args([
            "-Zbuild-std=std,panic_abort",
            "-Zbuild-std-features=optimize_for_size",
        ]);
        let quiet = [
            "-Zunstable-options",
            "-Cpanic=immediate-abort",
            "-Zlocation-detail=none",
            "-Zfmt-debug=none",
        ];
        let flags = [flags()?, quiet.map(String::from).to_vec()].concat();
        build.env("RUSTC_BOOTSTRAP", "1");
        sh(build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")))?;
        let made = target()?.join(MANY_VALUED).join("web/samekey_wasm.wasm");
        let fail = |e| format!("cannot copy the module: {e}");
        let module = fs::read(&made).map_err(fail)?;
        // The linker puts a trap where a function is called by other types than it has.
        if module.windows(TRAPPED.len()).any(|name| name == TRAPPED) {
            return Err("it multiplies in 128 bits somewhere, which cannot be called so".into());
        }
        let folder = target()?.join(WASM).join("web");
        fs::create_dir_all(&folder).map_err(fail)?;
        fs::write(folder.join("samekey_wasm.wasm"), module).map_err(fail)
    });
    if let Err(why) = built {
        println!("note: built with the shipped standard library, which is larger: {why}");
        let mut build = cargo(&["build", "--package", "samekey-wasm", "--profile", "web"]);
        build.args(["--target", WASM]);
        sh(build.env("CARGO_ENCODED_RUSTFLAGS", flags()?.join("\u{1f}")))?;
    }
    Ok(target()?.join(WASM).join("web/samekey_wasm.wasm"))
}

const MANY_VALUED: &str = "wasm32-many-valued";
const TRAPPED: &[u8] = b"signature_mismatch:";

/// A description of the usual target but for one thing: a function may return several values, such as a
/// place and a length, where else each caller makes room for them in memory and reads them from there.
/// Every browser can do that since 2020; code is a twelfth smaller by it.
fn many_valued() -> Result<PathBuf, String> {
    let print = ["-Zunstable-options", "--print", "target-spec-json"];
    let mut rustc = command("rustc", &print);
    let usual = output(rustc.args(["--target", WASM]).env("RUSTC_BOOTSTRAP", "1"))?;
    let changed = usual.replacen('{', "{\"llvm-abiname\": \"experimental-mv\",", 1);
    let path = target()?.join(MANY_VALUED).with_extension("json");
    // Written only when it is another: cargo would build everything anew.
    if fs::read_to_string(&path).ok().as_deref() != Some(&changed) {
        fs::write(&path, changed).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(path)
}

/// What the compiler is told in any case.
fn flags() -> Result<Vec<String>, String> {
    let mut flags = nameless_paths()?;
    // A digest over a few hundred bytes need not be quick: its loop is not unrolled.
    for choice in ["sha2_backend=\"soft\"", "sha2_backend_soft=\"compact\""] {
        flags.extend(["--cfg".into(), choice.into()]);
    }
    // Small before fast: nothing is inlined or computed twice for speed's sake. With a stack of a quarter
    // of a megabyte below them, addresses take a byte less; tasks live on the heap.
    for choice in [
        "-Cllvm-args=-inline-threshold=0",
        "-Cllvm-args=-enable-pre=false",
        "-Cllvm-args=-enable-load-pre=false",
        "-Cllvm-args=-disable-machine-licm",
        "-Cllvm-args=-disable-lsr",
        "-Clink-arg=-zstack-size=262144",
        // Only bytes and numbers cross: no table of the page's objects is needed.
        "-Ctarget-feature=-reference-types",
    ] {
        flags.push(choice.into());
    }
    Ok(flags)
}

/// Flags that keep the paths of whoever builds it out of the module.
fn nameless_paths() -> Result<Vec<String>, String> {
    let sysroot = output(&mut command("rustc", &["--print", "sysroot"]))?;
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let home = home.ok_or("cannot find cargo's home folder")?;
    let mut hidden = vec![sources, root()];
    let registry = home.join("registry/src");
    let registries = fs::read_dir(&registry).into_iter().flatten();
    hidden.extend(registries.flatten().map(|folder| folder.path()));
    let flag = |path: &PathBuf| format!("--remap-path-prefix={}=", text(path));
    Ok(hidden.iter().map(flag).collect())
}

/// Writes the JavaScript glue of `module`, and the module as the glue wants it, into `folder`.
pub(crate) fn bind(module: &Path, folder: &Path, how: &[&str]) -> Outcome {
    let arguments = [text(module), text(folder)];
    let run = ["run", "--quiet", "--package", "xtask-web", "--"];
    sh(cargo(&run).args(&arguments).args(how))
}
