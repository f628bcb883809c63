//! `cargo xtask size`: what a page downloads, and what of it costs what.

use crate::setup::WASM;
use crate::shell::{Outcome, cargo, output};
use crate::web;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than this is too much for a checkout page.
const CEILING: u64 = 53_248;
/// Crates that must not be in the tree, and one that may be there but must not be linked.
const BANNED: [&str; 4] = ["http", "url", "chacha20poly1305", "reqwest"];
const UNLINKED: &str = "serde_json";

/// Builds the package, prints the table and the figure, and judges both.
pub(crate) fn run() -> Outcome {
    web::run()?;
    let total = report()?;
    if total > CEILING {
        return Err(format!(
            "the page downloads {total} bytes, {} more than the ceiling of {CEILING}",
            total - CEILING
        ));
    }
    Ok(())
}

/// Prints the table and the figure of a package that is built; returns the total.
pub(crate) fn report() -> Result<u64, String> {
    let named = web::target()?.join(WASM).join("web/samekey_wasm.wasm");
    let module = read(&named)?;
    let sizes = by_crate(&module).ok_or("the module cannot be read")?;
    if sizes.keys().any(|name| name == UNLINKED) {
        return Err(format!("{UNLINKED} is linked into the module"));
    }
    light_tree()?;
    println!("code before wasm-opt, by crate, in bytes");
    let mut rows: Vec<_> = sizes.iter().collect();
    rows.sort_by_key(|(_, size)| std::cmp::Reverse(**size));
    for (name, size) in rows.iter().take(14) {
        println!("  {size:>8}  {name}");
    }
    let mut total = 0;
    println!("what a page downloads, in bytes: as it is, and after gzip -9");
    for file in ["samekey_bg.wasm", "index.js"] {
        let content = read(&web::package().join("dist").join(file))?;
        let zipped = gzip(&content)?;
        println!("  {:>8}  {zipped:>8}  {file}", content.len());
        total += zipped;
    }
    println!("figure web_total_gz {total} bytes");
    Ok(total)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn gzip(content: &[u8]) -> Result<u64, String> {
    let fail = |e: std::io::Error| format!("gzip: {e}");
    let mut child = Command::new("gzip")
        .args(["-9", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let mut input = child.stdin.take().ok_or("gzip takes no input")?;
    let content = content.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&content));
    let zipped = child.wait_with_output().map_err(fail)?;
    writer.join().map_err(|_| "gzip's input")?.map_err(fail)?;
    Ok(zipped.stdout.len() as u64)
}

fn light_tree() -> Outcome {
    let mut arguments = vec!["tree", "--package", "samekey-wasm", "--edges", "normal"];
    arguments.extend(["--prefix", "none", "--target", WASM]);
    let tree = output(&mut cargo(&arguments))?;
    let names = |line: &&str, name: &str| line.split(' ').next() == Some(name);
    match BANNED
        .iter()
        .find(|name| tree.lines().any(|line| names(&line, name)))
    {
        Some(found) => Err(format!("the page's tree holds {found}")),
        None => Ok(()),
    }
}

/// Bytes of code by crate, after the names in the module.
fn by_crate(module: &[u8]) -> Option<BTreeMap<String, usize>> {
    let (mut imports, mut sizes, mut names) = (0, Vec::new(), BTreeMap::new());
    let mut rest = module.get(8..)?;
    while let Some((kind, after)) = rest.split_first() {
        let (length, after) = number(after)?;
        let (section, next) = after.split_at_checked(length)?;
        match kind {
            2 => imports = imported(section)?,
            10 => sizes = bodies(section)?,
            0 => names.extend(function_names(section)?),
            _ => {}
        }
        rest = next;
    }
    let mut found = BTreeMap::new();
    for (at, size) in sizes.into_iter().enumerate() {
        let name = names
            .get(&(at + imports))
            .map_or("?", |name| crate_of(name));
        // Removed by wasm-bindgen: it runs these to learn of types.
        if !name.starts_with("__wbindgen_describe") {
            *found.entry(name.to_owned()).or_default() += size;
        }
    }
    Some(found)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = number(bytes)?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// How many functions are imported. wasm-bindgen's modules import functions only.
fn imported(section: &[u8]) -> Option<usize> {
    let (count, mut rest) = number(section)?;
    let mut functions = 0;
    for _ in 0..count {
        (_, rest) = text(rest)?;
        (_, rest) = text(rest)?;
        functions += usize::from(rest.first()? == &0);
        (_, rest) = number(rest.get(1..)?)?;
    }
    Some(functions)
}

fn bodies(section: &[u8]) -> Option<Vec<usize>> {
    let (count, mut rest) = number(section)?;
    let mut sizes = Vec::with_capacity(count);
    for _ in 0..count {
        let (size, after) = number(rest)?;
        sizes.push(size);
        rest = after.get(size..)?;
    }
    Some(sizes)
}

fn function_names(section: &[u8]) -> Option<BTreeMap<usize, String>> {
    let mut names = BTreeMap::new();
    let (section_name, mut rest) = text(section)?;
    while section_name == "name"
        && let Some((kind, after)) = rest.split_first()
    {
        let (length, after) = number(after)?;
        let (part, next) = after.split_at_checked(length)?;
        if *kind == 1 {
            let (count, mut list) = number(part)?;
            for _ in 0..count {
                let (index, after) = number(list)?;
                let (name, after) = text(after)?;
                names.insert(index, name.to_owned());
                list = after;
            }
        }
        rest = next;
    }
    Some(names)
}

/// The standard library's crates as its own names hold them.
const STANDARD: [&str; 4] = ["4core", "5alloc", "3std", "8dlmalloc"];
/// Crates behind names such as `_$LT$samekey..journal…`.
const OURS: [&str; 7] = [
    "samekey_wasm",
    "samekey",
    "js_sys",
    "wasm_bindgen",
    "web_sys",
    "core",
    "alloc",
];

/// The crate in a mangled name: `_ZN7samekey…` or, in the standard library, `_RNv…4core…`.
fn crate_of(name: &str) -> &str {
    if name.starts_with("_R") {
        let found = STANDARD.iter().filter(|part| name.contains(**part));
        let first = found.min_by_key(|part| name.find(**part));
        return first.map_or("?", |part| &part[1..]);
    }
    let Some(path) = name.strip_prefix("_ZN") else {
        return name;
    };
    let end = path.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let length = path[..end].parse().unwrap_or(0);
    let part = path.get(end..end + length).unwrap_or(name);
    let part = part.trim_start_matches("_$LT$");
    let ours = OURS.iter().find(|ours| part.starts_with(**ours));
    ours.copied().unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_crates() {
        for (name, wanted) in [
            ("_ZN7samekey7machine7Machine4step17h0E", "samekey"),
            ("_ZN10serde_json2de17h0E", UNLINKED),
            (
                "_ZN107_$LT$samekey..journal..J$u20$as$u20$X$GT$6record17h0E",
                "samekey",
            ),
            ("_RNvMNtNtCsgXGp5Oqx2Ny_4core4char7methodsc16escape", "core"),
            ("main", "main"),
        ] {
            let name = name.replace("107_", "38_");
            assert!(
                crate_of(&name).starts_with(wanted),
                "{name}: {}",
                crate_of(&name)
            );
        }
    }
}
