//! Who asks: read from environment variables at every attempt, kept nowhere.

use crate::config::{Config, Host, check_variable};
use crate::exit::Trouble;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samekey::seam::BoxFuture;
use samekey::{Asked, Credentials, CredentialsError, Headers, Origin};
use std::sync::Arc;

/// Where the secrets are; never the secrets.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Credentials")]
pub(crate) struct CredentialArgs {
    /// Send `Authorization: Bearer` with what this variable holds
    #[arg(long, value_name = "VAR", value_parser = variable, conflicts_with = "basic_env")]
    bearer_env: Option<String>,
    /// Send `Authorization: Basic` with the user:password in this variable
    #[arg(long, value_name = "VAR", value_parser = variable)]
    basic_env: Option<String>,
    /// Send a header with what a variable holds; may be given several times
    #[arg(long, value_name = "NAME=VAR", value_parser = header_and_variable)]
    header_env: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<String, String> {
    check_variable(text).map(|()| text.to_owned())
}

fn header_and_variable(text: &str) -> Result<(String, String), String> {
    let (name, from) = text
        .split_once('=')
        .ok_or("write it as X-Api-Key=VARIABLE")?;
    Ok((name.to_owned(), variable(from)?))
}

/// One header, and the variable that it is made from.
#[derive(Clone, Debug)]
enum Source {
    Bearer(String),
    Basic(String),
    Header(String, String),
}

/// What the command line says, else what the configuration says about the host.
#[derive(Clone, Debug)]
pub(crate) struct EnvCredentials {
    typed: Vec<Source>,
    config: Arc<Config>,
}

impl CredentialArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.bearer_env.is_some() || self.basic_env.is_some() || !self.header_env.is_empty()
    }
}

fn sources(
    bearer: Option<&String>,
    basic: Option<&String>,
    headers: impl Iterator<Item = (String, String)>,
) -> Vec<Source> {
    let bearer = bearer.cloned().map(Source::Bearer);
    let basic = basic.cloned().map(Source::Basic);
    let headers = headers.map(|(name, from)| Source::Header(name, from));
    bearer.into_iter().chain(basic).chain(headers).collect()
}

impl EnvCredentials {
    pub(crate) fn new(args: &CredentialArgs, config: Arc<Config>) -> EnvCredentials {
        let typed = sources(
            args.bearer_env.as_ref(),
            args.basic_env.as_ref(),
            args.header_env.iter().cloned(),
        );
        EnvCredentials { typed, config }
    }

    fn sources_for(&self, origin: &Origin) -> Vec<Source> {
        if !self.typed.is_empty() {
            return self.typed.clone();
        }
        let Host {
            bearer_env,
            basic_env,
            header_env,
            ..
        } = self.config.host(origin);
        sources(
            bearer_env.as_ref(),
            basic_env.as_ref(),
            header_env.into_iter(),
        )
    }

    fn headers_for(&self, origin: &Origin) -> Result<Headers, CredentialsError> {
        let mut headers = Headers::new();
        for source in self.sources_for(origin) {
            match source {
                Source::Bearer(from) => {
                    headers.push("authorization", &format!("Bearer {}", read(&from)?))?;
                }
                Source::Basic(from) => {
                    let encoded = STANDARD.encode(read(&from)?);
                    headers.push("authorization", &format!("Basic {encoded}"))?;
                }
                Source::Header(name, from) => headers.push(&name, &read(&from)?)?,
            }
        }
        Ok(headers)
    }

    /// Whether everything is there: found out before anything is begun.
    pub(crate) fn check(&self, origin: &Origin) -> Result<(), Trouble> {
        match self.headers_for(origin) {
            Ok(_) => Ok(()),
            Err(error) => Err(Trouble::usage(error.to_string())
                .todo("set it, or name another variable")
                .nothing_was_sent()),
        }
    }
}

fn read(variable: &str) -> Result<String, CredentialsError> {
    match std::env::var(variable) {
        Ok(value) if !value.is_empty() => Ok(value),
        Ok(_) => Err(format!("the environment variable {variable} is empty").into()),
        Err(_) => Err(format!("the environment variable {variable} is not set").into()),
    }
}

impl Credentials for EnvCredentials {
    fn headers(&self, asked: Asked) -> BoxFuture<'_, Result<Headers, CredentialsError>> {
        Box::pin(async move { self.headers_for(&asked.origin) })
    }

    fn can_refresh(&self) -> bool {
        // A process sees the same variables for as long as it lives.
        false
    }
}
