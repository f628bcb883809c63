//! `xtask-web FILE.wasm FOLDER [bare]`: the JavaScript glue of a module, next to the module; bare
//! is without the part that loads the module. `xtask-web pack FILE PACKED`: a file as `pkg/src/unpack.ts` unpacks it.
//!
//! A crate of its own, so that the other chores do not wait for its dependencies.
#![forbid(unsafe_code)]

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let made = match arguments.as_slice() {
        [pack, file, packed] if pack == "pack" => self::pack(Path::new(file), Path::new(packed)),
        [module, folder] => generate(Path::new(module), Path::new(folder), false),
        [module, folder, bare] if bare == "bare" => {
            generate(Path::new(module), Path::new(folder), true)
        }
        _ => {
            eprintln!("usage: xtask-web FILE.wasm FOLDER [bare], or: xtask-web pack FILE PACKED");
            return ExitCode::from(2);
        }
    };
    match made {
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

/// Packs a file with LZMA, without bits for a position: the code of a module has no columns.
fn pack(file: &Path, packed: &Path) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", file.display());
    let content = fs::read(file).map_err(fail)?;
    let mut how = LzmaOptions::with_preset(9);
    (how.lc, how.lp, how.pb) = (3, 0, 0);
    (how.nice_len, how.depth_limit, how.dict_size) = (273, 1000, 1 << 18);
    let size = content.len() as u64;
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &how, Some(size)).map_err(fail)?;
    writer.write_all(&content).map_err(fail)?;
    fs::write(packed, writer.finish().map_err(fail)?).map_err(fail)
}
