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
const BANNED: [&str; 4] = ["http", "url", "chacha20poly1305", "hyper"];
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
    let functions = functions(&module).ok_or("the module cannot be read")?;
    let sizes = by(&functions, crate_of);
    if sizes.iter().any(|(name, _)| name == UNLINKED) {
        return Err(format!("{UNLINKED} is linked into the module"));
    }
    // One `format!` or `to_string` brings a kilobyte, compressed: `text::filled` and `text::digits` do.
    if let Some((name, _)) = functions
        .iter()
        .find(|(name, _)| name.starts_with("core::fmt::"))
    {
        return Err(format!("formatting is linked into the module: {name}"));
    }
    light_tree()?;
    let largest = by(&functions, |name| name);
    for (what, rows, shown) in [
        ("crate", sizes, 14),
        ("module", by(&functions, module_of), 24),
        ("function", largest, 16),
    ] {
        println!("code before wasm-opt, by {what}, in bytes");
        for (name, size) in rows.iter().take(shown) {
            println!("  {size:>8}  {name}");
        }
    }
    let mut total = 0;
    println!("what a page downloads, in bytes: as it is, and after gzip -9");
    for file in [web::MODULE, "dist/index.js"] {
        let content = read(&web::package().join(file))?;
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

/// Bytes of code by what `of` makes of a function's name, the largest first.
fn by(functions: &[(String, usize)], of: fn(&str) -> &str) -> Vec<(String, usize)> {
    let mut sums = BTreeMap::<_, usize>::new();
    for (name, size) in functions {
        *sums.entry(of(name).to_owned()).or_default() += size;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    rows
}

/// Every function of the module, as `path::of::it`, and the bytes of its code.
fn functions(module: &[u8]) -> Option<Vec<(String, usize)>> {
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
    let mut found = Vec::new();
    for (at, size) in sizes.into_iter().enumerate() {
        let name = names.get(&(at + imports)).map_or("?", String::as_str);
        // Removed by wasm-bindgen: it runs these to learn of types.
        if !name.starts_with("__wbindgen_describe") {
            found.push((plain(name), size));
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

/// A mangled name as a path, without angle brackets: `<a::B as c::D>::e` stands with `a::B`.
fn plain(name: &str) -> String {
    let path = format!("{:#}", rustc_demangle::demangle(name));
    path.replace(['<', '>', '&'], "").replace("mut ", "")
}

/// The crate in a path.
fn crate_of(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &path[..end.unwrap_or(path.len())]
}

/// The first three steps of a path.
fn module_of(path: &str) -> &str {
    let third = path.match_indices("::").nth(2);
    &path[..third.map_or(path.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_crates_and_modules() {
        for (name, of_crate, module) in [
            (
                "_ZN7samekey7machine7Machine4step17h0123456789abcdefE",
                "samekey",
                "samekey::machine::Machine",
            ),
            (
                "_ZN10serde_json2de17h0123456789abcdefE",
                UNLINKED,
                "serde_json::de",
            ),
            (
                "_ZN44_$LT$samekey..journal..J$u20$as$u20$X..Y$GT$6record17h0123456789abcdefE",
                "samekey",
                "samekey::journal::J as X",
            ),
            (
                "_RNvXs0_NtCsa7e25hjXJrd_4core3fmteNtB5_7Display3fmt",
                "str",
                "str as core::fmt::Display",
            ),
            (
                "_RNvNvNtCsfOTafEpjIOh_12samekey_wasm3raw3ask26___wbg_ask_638556493e61930c",
                "samekey_wasm",
                "samekey_wasm::raw::ask",
            ),
            ("main", "main", "main"),
        ] {
            let path = plain(name);
            assert_eq!(crate_of(&path), of_crate, "{path}");
            assert_eq!(module_of(&path), module, "{path}");
        }
    }
}
