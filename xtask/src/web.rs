//! `cargo xtask web`: the npm package, from the bindings to what a page loads.

use crate::setup::{WASM, npm_packages, wasm_target};
use crate::shell::{Outcome, cargo, command, output, root, run as sh};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

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
    bind(&module, &package().join("wasm"))?;
    let dist = package().join("dist");
    fs::create_dir_all(&dist).map_err(|e| format!("cannot make pkg/dist: {e}"))?;
    // No flags for features: wasm-opt reads them from the module, and with all of them it would
    // write one that no browser takes.
    tool(
        "wasm-opt",
        &["-Oz", "wasm/samekey_bg.wasm", "-o", "dist/samekey_bg.wasm"],
    )?;
    tool("tsc", &["--project", "tsconfig.json"])?;
    let bundle = [
        "--bundle",
        "--minify",
        "--format=esm",
        "--target=es2022",
        "--outdir=dist",
    ];
    let page = ["src/index.ts", "--platform=browser"];
    tool("esbuild", &[&page[..], &bundle[..]].concat())?;
    let node = ["src/node.ts", "--platform=node"];
    tool("esbuild", &[&node[..], &bundle[..]].concat())
}

/// Compiles the bindings; the module still has its names.
pub(crate) fn compile() -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--package", "samekey-wasm", "--profile", "web"]);
    build.args(["--target", WASM]);
    let mut flags = nameless_paths()?;
    // A digest over a few hundred bytes need not be quick: its loop is not unrolled.
    for choice in ["sha2_backend=\"soft\"", "sha2_backend_soft=\"compact\""] {
        flags.extend(["--cfg".into(), choice.into()]);
    }
    sh(build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")))?;
    Ok(target()?.join(WASM).join("web/samekey_wasm.wasm"))
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
pub(crate) fn bind(module: &Path, folder: &Path) -> Outcome {
    let arguments = [text(module), text(folder)];
    let run = ["run", "--quiet", "--package", "xtask-web", "--"];
    sh(cargo(&run).args(&arguments))
}
