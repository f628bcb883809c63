//! `xtask-web FILE.wasm FOLDER [bare]`: the JavaScript glue of a module, next to the module; bare
//! is without the part that loads the module.
//!
//! A crate of its own, so that the other chores do not wait for its dependencies.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (module, folder, bare) = match arguments.as_slice() {
        [module, folder] => (module, folder, false),
        [module, folder, bare] if bare == "bare" => (module, folder, true),
        _ => {
            eprintln!("usage: xtask-web FILE.wasm FOLDER [bare]");
            return ExitCode::from(2);
        }
    };
    match generate(Path::new(module), Path::new(folder), bare) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask-web: {why}");
            ExitCode::FAILURE
        }
    }
}

fn generate(module: &Path, folder: &Path, bare: bool) -> Result<(), String> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name("samekey")
        .typescript(true)
        // wasm-opt drops the names.
        .remove_producers_section(true)
        // Else `init()` would not know where its module is.
        .omit_default_module_path(false);
    let kind = match bare {
        true => bindgen.bundler(true),
        false => bindgen.web(true),
    };
    let fail = |error| format!("{}: {error}", module.display());
    kind.and_then(|bindgen| bindgen.generate(folder))
        .map_err(|error| fail(format!("{error:#}")))
}
