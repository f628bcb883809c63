//! The body of a request, from the command line, a file or the standard input.

use crate::exit::Trouble;
use std::io::Read;

/// What to send, given at `send` and, where the journal does not keep it, again at `resume`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BodyArgs {
    /// A JSON body: the text, @FILE, or - for the standard input
    #[arg(long, value_name = "TEXT|@FILE|-", conflicts_with = "data")]
    json: Option<String>,
    /// A body of any kind: the text, @FILE, or - for the standard input
    #[arg(long, value_name = "TEXT|@FILE|-")]
    data: Option<String>,
}

/// A body and its type.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: &'static str,
}

impl BodyArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.json.is_some() || self.data.is_some()
    }

    /// Reads it. JSON is checked and sent as it was written: not one byte is changed.
    pub(crate) fn read(&self) -> Result<Option<Given>, Trouble> {
        if let Some(source) = &self.json {
            let bytes = bytes("--json", source)?;
            if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
                return Err(Trouble::usage(format!("the body is not JSON: {error}"))
                    .todo("mend it, or send it as it is with --data and -H 'Content-Type: …'"));
            }
            return Ok(Some(Given {
                bytes,
                content_type: "application/json",
            }));
        }
        let Some(source) = &self.data else {
            return Ok(None);
        };
        Ok(Some(Given {
            bytes: bytes("--data", source)?,
            content_type: "application/octet-stream",
        }))
    }
}

fn bytes(option: &str, source: &str) -> Result<Vec<u8>, Trouble> {
    let unread = |what: &str, error: std::io::Error| {
        Trouble::usage(format!("{what} cannot be read: {error}"))
            .todo(format!("check what follows {option}"))
    };
    if source == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| unread("the standard input", error))?;
        return Ok(bytes);
    }
    match source.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| unread(path, error)),
        None => Ok(source.as_bytes().to_vec()),
    }
}
