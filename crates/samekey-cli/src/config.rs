//! The configuration file: defaults for everything, and settings per host.
//!
//! It names environment variables, never secrets: what it holds may be shown to anyone.

use crate::exit::Trouble;
use crate::when;
use etcetera::BaseStrategy;
use samekey::Origin;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The journal, unless the command line names one.
    pub(crate) journal: Option<PathBuf>,
    /// The scope, unless the command line names one.
    pub(crate) scope: Option<String>,
    /// By host, or by host and port.
    #[serde(default)]
    pub(crate) host: BTreeMap<String, Host>,
}

/// What is said about one host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub(crate) profile: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) window: Option<Duration>,
    pub(crate) bearer_env: Option<String>,
    pub(crate) basic_env: Option<String>,
    /// Header by header, the variable that holds its value.
    #[serde(default)]
    pub(crate) header_env: BTreeMap<String, String>,
    pub(crate) max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) give_up_after: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) body: Option<crate::house::Keep>,
}

fn duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    when::parse_duration(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

impl Config {
    /// Where the file is, if it is where it is looked for.
    pub(crate) fn default_path() -> Option<PathBuf> {
        let folders = etcetera::choose_base_strategy().ok()?;
        Some(folders.config_dir().join("samekey").join("config.toml"))
    }

    /// Reads the file that was named, which must be there, or the usual one, which need not.
    pub(crate) fn load(named: Option<&Path>) -> Result<Config, Trouble> {
        let usual = Config::default_path();
        let Some(path) = named.or(usual.as_deref()) else {
            return Ok(Config::default());
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Config::parse(&text).map_err(|why| {
                Trouble::usage(format!(
                    "the configuration file {} cannot be used: {why}",
                    path.display()
                ))
                .todo("mend it, or name another with --config")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
                Ok(Config::default())
            }
            Err(error) => Err(Trouble::usage(format!(
                "the configuration file {} cannot be read: {error}",
                path.display()
            ))
            .todo("check the path and who may read it")),
        }
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        for (name, host) in &config.host {
            let variables = host.bearer_env.iter().chain(&host.basic_env);
            for variable in variables.chain(host.header_env.values()) {
                check_variable(variable).map_err(|why| format!("host {name:?}: {why}"))?;
            }
        }
        Ok(config)
    }

    /// What is said about the host of `origin`; with its port goes before without.
    pub(crate) fn host(&self, origin: &Origin) -> Host {
        let text = origin.to_string();
        let with_port = text.split_once("://").map_or("", |(_, rest)| rest);
        self.host
            .get(with_port)
            .or_else(|| self.host.get(origin.host()))
            .cloned()
            .unwrap_or_default()
    }
}

/// A variable's name, and surely not the secret itself.
pub(crate) fn check_variable(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.starts_with(begins) && name.chars().all(fits) {
        return Ok(());
    }
    Err(
        "credentials are given by the name of an environment variable, such as API_TOKEN, and what \
         stands there is none"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        scope = "acme"
        [host."api.example.com"]
        profile = "stripe"
        window = "12h"
        bearer_env = "STRIPE_KEY"
        [host."api.example.com:8443"]
        header_env = { "X-Api-Key" = "OTHER_KEY" }
        max_attempts = 3
    "#;

    #[test]
    fn a_host_is_found_with_its_port_first() {
        let config = Config::parse(FILE).unwrap();
        let of = |url| config.host(&Origin::of(url).unwrap());
        let usual = of("https://API.example.com/v1");
        assert_eq!(usual.window, Some(Duration::from_secs(12 * 3600)));
        assert_eq!(usual.bearer_env.as_deref(), Some("STRIPE_KEY"));
        assert_eq!(of("https://api.example.com:8443/").max_attempts, Some(3));
        assert_eq!(of("https://elsewhere.example/"), Host::default());
    }

    #[test]
    fn mistakes_are_named_and_secrets_are_not_repeated() {
        let unknown = Config::parse("[host.\"a\"]\nbearer = \"x\"").unwrap_err();
        assert!(unknown.contains("bearer"), "{unknown}");
        let secret = Config::parse("[host.\"a\"]\nbearer_env = \"sk-12-canary\"").unwrap_err();
        assert!(!secret.contains("canary"), "{secret}");
        let time = Config::parse("[host.\"a\"]\nwindow = \"a while\"").unwrap_err();
        assert!(time.contains("no duration"), "{time}");
    }
}
