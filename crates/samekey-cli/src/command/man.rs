//! `samekey man`: the manual pages.

use crate::cli::Cli;
use crate::exit::{Exit, Trouble};
use crate::out::Out;
use clap::CommandFactory;
use clap_mangen::Man as Page;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  samekey man | man -l -
  samekey man send > samekey-send.1
  samekey man --dir man1";

/// Print the manual page, of the program or of one command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// The command; without it the program's own page
    #[arg(conflicts_with = "dir")]
    command: Option<String>,
    /// Write all pages into this folder instead
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Man, out: &Out) -> Result<Exit, Trouble> {
    let mut program = Cli::command();
    program.build();
    if let Some(folder) = &args.dir {
        return write_all(folder, program, out);
    }
    let command = match &args.command {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            Trouble::usage(format!("there is no command {name:?}")).todo("see `samekey --help`")
        })?,
    };
    let name = page_name(&command);
    let mut page = Vec::new();
    let failed = |error: std::io::Error| Trouble::usage(format!("the page failed: {error}"));
    Page::new(command.disable_help_flag(true))
        .title(name.to_uppercase())
        .render(&mut page)
        .map_err(failed)?;
    if out.is_json() {
        out.document(&serde_json::json!({
            "name": format!("{name}.1"),
            "page": String::from_utf8_lossy(&page),
        }));
    } else {
        out.bytes(&page);
    }
    Ok(Exit::Fine)
}

fn page_name(command: &clap::Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.to_owned()
}

fn write_all(folder: &PathBuf, program: clap::Command, out: &Out) -> Result<Exit, Trouble> {
    let failed = |error: std::io::Error| {
        Trouble::usage(format!("{} cannot be written: {error}", folder.display()))
            .todo("choose another folder")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    let mut pages: Vec<String> = std::fs::read_dir(folder)
        .map_err(failed)?
        .filter_map(|page| Some(page.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.starts_with("samekey") && name.ends_with(".1"))
        .collect();
    pages.sort();
    if out.is_json() {
        out.document(&serde_json::json!({ "folder": folder, "pages": pages }));
    }
    out.note(&format!("{} pages in {}", pages.len(), folder.display()));
    Ok(Exit::Fine)
}
