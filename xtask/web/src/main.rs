//! `xtask-web FILE.wasm FOLDER`: the JavaScript glue of a module, next to the module.
//!
//! A crate of its own, so that the other chores do not wait for its dependencies.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = arguments.as_slice() else {
        eprintln!("usage: xtask-web FILE.wasm FOLDER");
        return ExitCode::from(2);
    };
    match generate(Path::new(module), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask-web: {why}");
            ExitCode::FAILURE
        }
    }
}

fn generate(module: &Path, folder: &Path) -> Result<(), String> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name("samekey")
        .typescript(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        // Else `init()` would not know where its module is.
        .omit_default_module_path(false);
    bindgen
        .web(true)
        .and_then(|bindgen| bindgen.generate(folder))
        .map_err(|error| format!("{}: {error:#}", module.display()))
}
