//! What most commands need: the configuration, the journal, clients, and references that people
//! typed.

use crate::cli::Common;
use crate::config::{Config, Host};
use crate::credentials::{CredentialArgs, EnvCredentials};
use crate::exit::{Exit, Trouble};
use crate::when;
use clap::ValueEnum;
use samekey::entry::Entry;
use samekey::journal::{Damaged, Journal, JournalErrorKind, Listing, Query, SqliteJournal};
use samekey::platform::native::default_journal_path;
use samekey::{
    Body, Client, Key, Operation, Origin, Policy, Profile, Reference, Scope, SealingKey,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The application's name, unless another is given.
const APPLICATION: &str = "samekey";
/// The variable that holds the sealing key, unless another is named.
const SEALING_KEY: &str = "SAMEKEY_SEALING_KEY";

/// What the journal keeps of bodies and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keep {
    // The bytes; the file is readable by its owner only.
    Stored,
    // Only a fingerprint: the body is given again to resume.
    Fingerprint,
    // The bytes, encrypted under a key from an environment variable.
    Sealed,
}

/// How long to keep at it.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Patience")]
pub(crate) struct PatienceArgs {
    /// Attempts at most, the first included [default: 6]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Time for all attempts and waits together [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = when::parse_duration)]
    give_up_after: Option<Duration>,
    /// Time for one attempt [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = when::parse_duration)]
    attempt_timeout: Option<Duration>,
}

/// The key that opens what is sealed.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SealArgs {
    /// The variable that holds the sealing key [default: SAMEKEY_SEALING_KEY]
    #[arg(long, value_name = "VAR")]
    seal_env: Option<String>,
}

impl SealArgs {
    fn key(&self) -> Result<Option<SealingKey>, Trouble> {
        let variable = self.seal_env.as_deref().unwrap_or(SEALING_KEY);
        let Ok(text) = std::env::var(variable) else {
            if self.seal_env.is_some() {
                return Err(Trouble::usage(format!(
                    "the environment variable {variable} is not set"
                ))
                .todo("put the sealing key there: 32 random bytes as 64 hex digits"));
            }
            return Ok(None);
        };
        let mut bytes = [0; 32];
        let text = text.trim();
        let sound = text.len() == 64 && text.is_ascii();
        for (i, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * i..2 * i + 2).unwrap_or("");
            match u8::from_str_radix(digits, 16) {
                Ok(value) if sound && !digits.starts_with('+') => *byte = value,
                _ => {
                    return Err(Trouble::usage(format!(
                        "the environment variable {variable} holds no sealing key"
                    ))
                    .todo("make one with: openssl rand -hex 32"));
                }
            }
        }
        Ok(Some(SealingKey::new(bytes)))
    }
}

/// What is asked for with a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) patience: PatienceArgs,
    pub(crate) credentials: CredentialArgs,
    pub(crate) seal: SealArgs,
    pub(crate) profile: Option<Profile>,
    pub(crate) headers: Vec<String>,
    pub(crate) keep: Option<Keep>,
}

/// A reference, or a whole key where two operations share one.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Reference(Reference),
    Key(Key),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text.parse::<Reference>() {
            Ok(reference) => Ok(Wanted::Reference(reference)),
            Err(wrong) => match Key::adopt(text) {
                Ok(key) if text.len() > 20 => Ok(Wanted::Key(key)),
                _ => Err(wrong.to_string()),
            },
        }
    }
}

impl Wanted {
    pub(crate) fn reference(&self) -> Reference {
        match self {
            Wanted::Reference(reference) => *reference,
            Wanted::Key(key) => key.reference(),
        }
    }

    fn fits(&self, key: &Key) -> bool {
        match self {
            Wanted::Reference(reference) => key.reference() == *reference,
            Wanted::Key(wanted) => wanted == key,
        }
    }
}

/// The configuration and where the journal is.
#[derive(Debug)]
pub(crate) struct House {
    common: Common,
    pub(crate) config: Arc<Config>,
    path: PathBuf,
}

impl House {
    pub(crate) fn new(common: Common) -> Result<House, Trouble> {
        let config = Config::load(common.config.as_deref())?;
        let application = common.application.as_deref().unwrap_or(APPLICATION);
        let path = match (&common.journal, &config.journal, &common.application) {
            (Some(path), ..) => path.clone(),
            (None, Some(path), None) => path.clone(),
            _ => default_journal_path(application).map_err(|error| {
                Trouble::usage(error.to_string()).todo("name a file with --journal")
            })?,
        };
        Ok(House {
            common,
            config: Arc::new(config),
            path,
        })
    }

    pub(crate) fn application(&self) -> &str {
        self.common.application.as_deref().unwrap_or(APPLICATION)
    }

    /// Whom to act for, if anyone in particular.
    pub(crate) fn principal(&self) -> Option<&str> {
        let typed = self.common.scope.as_deref();
        typed.or(self.config.scope.as_deref())
    }

    pub(crate) fn scope(&self) -> Result<Scope, Trouble> {
        Scope::new(self.application(), self.principal())
            .map_err(|why| Trouble::usage(why).todo("choose another --scope or --application"))
    }

    /// The scope to look at: every one, unless the command line or the configuration names one.
    pub(crate) fn visible(&self) -> Result<Option<Scope>, Trouble> {
        if self.principal().is_none() && self.common.application.is_none() {
            return Ok(None);
        }
        self.scope().map(Some)
    }

    pub(crate) fn journal_path(&self) -> &Path {
        &self.path
    }

    /// The journal, to write to; made if it is not there.
    pub(crate) fn open(&self) -> Result<SqliteJournal, Trouble> {
        if let Some(folder) = self.path.parent()
            && !folder.as_os_str().is_empty()
            && self.common.journal.is_none()
            && self.config.journal.is_none()
        {
            // The platform's folder for data may be as new as its user.
            let _ = folder.parent().map(std::fs::create_dir_all);
        }
        Ok(SqliteJournal::open(&self.path)?)
    }

    /// The journal, to read; `None` if nothing was ever sent from here.
    pub(crate) fn open_to_read(&self) -> Result<Option<SqliteJournal>, Trouble> {
        if !self.path.exists() {
            return Ok(None);
        }
        match SqliteJournal::open_read_only(&self.path) {
            Ok(journal) => Ok(Some(journal)),
            // Another process is just making it, or died over that.
            Err(error) if error.kind() == JournalErrorKind::Blank => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The journal, which has to be there because something in it is meant.
    pub(crate) fn open_existing(&self) -> Result<SqliteJournal, Trouble> {
        if self.path.exists() {
            return self.open();
        }
        Err(self.no_journal())
    }

    pub(crate) fn no_journal(&self) -> Trouble {
        Trouble::usage(format!("there is no journal at {}", self.path.display()))
            .todo("name the file with --journal, or the program that wrote it with --application")
    }

    /// A client for what goes to `origin`, on an open journal.
    pub(crate) fn client(
        &self,
        journal: &SqliteJournal,
        origin: Option<&Origin>,
        wishes: &Wishes,
    ) -> Result<Client, Trouble> {
        let host = origin.map(|origin| self.config.host(origin));
        let host = host.unwrap_or_default();
        let credentials = EnvCredentials::new(&wishes.credentials, Arc::clone(&self.config));
        let mut builder = Client::builder(self.application())
            .journal(journal.clone())
            .policy(policy(&wishes.patience, &host))
            .profile(profile(wishes, &host)?)
            .credentials(credentials);
        if let Some(principal) = self.principal() {
            builder = builder.principal(principal);
        }
        for name in &wishes.headers {
            builder = builder.keep_header(name);
        }
        let sealing = wishes.seal.key()?;
        let keep = wishes.keep.or(host.body).unwrap_or(Keep::Stored);
        if keep == Keep::Sealed && sealing.is_none() {
            return Err(
                Trouble::usage("there is no key to seal the body with").todo(format!(
                    "set {SEALING_KEY} to 32 random bytes as 64 hex digits: openssl rand -hex 32"
                )),
            );
        }
        if let Some(key) = sealing {
            builder = builder.seal_with(key);
        }
        let body = match keep {
            Keep::Stored => Body::Stored,
            Keep::Fingerprint => Body::FingerprintOnly,
            Keep::Sealed => Body::Sealed,
        };
        Ok(builder.body(body).build()?)
    }

    /// How many attempts one run may make.
    pub(crate) fn attempts(&self, origin: Option<&Origin>, patience: &PatienceArgs) -> u32 {
        let host = origin.map(|origin| self.config.host(origin));
        policy(patience, &host.unwrap_or_default()).attempts()
    }

    /// The operation that is meant, of the scope that is acted for.
    pub(crate) async fn operation(
        &self,
        journal: &SqliteJournal,
        wanted: &Wanted,
        wishes: &Wishes,
    ) -> Result<Operation, Trouble> {
        let entry = self.entry(journal, wanted, Some(self.scope()?)).await?;
        let origin = Origin::of(&entry.frozen.url).ok();
        let client = self.client(journal, origin.as_ref(), wishes)?;
        let found = client.find(wanted.reference()).await?;
        let mut fitting = found.into_iter().filter(|op| op.key() == *entry.key());
        fitting.next().ok_or_else(|| self.not_found(wanted))
    }

    /// The entry that is meant. `scope`: whose it has to be.
    pub(crate) async fn entry(
        &self,
        journal: &SqliteJournal,
        wanted: &Wanted,
        scope: Option<Scope>,
    ) -> Result<Entry, Trouble> {
        let Listing { entries, damaged } = journal.find(wanted.reference(), None).await?;
        let mut fitting: Vec<Entry> = entries
            .into_iter()
            .filter(|entry| wanted.fits(entry.key()))
            .collect();
        let (ours, others): (Vec<Entry>, Vec<Entry>) = fitting
            .drain(..)
            .partition(|entry| scope.as_ref().is_none_or(|s| entry.frozen.scope == *s));
        match (&ours[..], others.first()) {
            ([entry], _) => Ok(entry.clone()),
            ([], Some(other)) => Err(self.other_scope(wanted, other)),
            ([], None) => Err(match damaged.first() {
                Some(damage) => damaged_entry(wanted, damage),
                None => self.not_found(wanted),
            }),
            (several, _) => {
                let keys: Vec<&str> = several.iter().map(|e| e.key().as_str()).collect();
                Err(
                    Trouble::usage(format!("{} operations have this reference", several.len()))
                        .todo(format!("name one by its key: {}", keys.join(", ")))
                        .about(wanted.reference()),
                )
            }
        }
    }

    fn other_scope(&self, wanted: &Wanted, entry: &Entry) -> Trouble {
        let theirs = &entry.frozen.scope;
        let ours = self.scope().map(|scope| scope.to_string());
        let option = match theirs.as_str().split_once('/') {
            Some((application, principal)) if application == self.application() => {
                format!("--scope {}", quoted(principal))
            }
            Some((application, principal)) => {
                format!("--application {application} --scope {}", quoted(principal))
            }
            None if theirs.as_str() == self.application() => "no --scope at all".to_owned(),
            None => format!("--application {theirs}"),
        };
        Trouble::new(
            Exit::Usage,
            "other-scope",
            format!(
                "the operation belongs to {theirs}, and you act for {}: a server would take it for \
                 a new action. Nothing was sent",
                ours.unwrap_or_default()
            ),
        )
        .todo(format!("if you may act for {theirs}, say so with {option}"))
        .about(wanted.reference())
        .nothing_was_sent()
    }

    fn not_found(&self, wanted: &Wanted) -> Trouble {
        Trouble::new(
            Exit::Usage,
            "not-found",
            format!("the journal {} has no such operation", self.path.display()),
        )
        .todo(
            "compare the reference with `samekey list --limit 0`, or name another journal with \
             --journal",
        )
        .about(wanted.reference())
    }

    /// All entries that are asked for, page by page.
    pub(crate) async fn each(
        &self,
        journal: &SqliteJournal,
        mut query: Query,
        mut take: impl FnMut(Listing) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        query.limit = 128;
        loop {
            let listing = journal.list(query.clone()).await?;
            let slots = listing.entries.iter().map(|entry| entry.slot);
            let damaged = listing.damaged.iter().map(|damage| damage.slot);
            let Some(last) = slots.chain(damaged).max() else {
                return Ok(());
            };
            query.after = last;
            take(listing)?;
        }
    }

    /// A command that the user may type next, with the options that lead to the same journal.
    pub(crate) fn hint(&self, command: &str) -> String {
        let mut hint = format!("samekey {command}");
        let options = [
            ("--application", self.common.application.clone()),
            ("--scope", self.common.scope.clone()),
            ("--journal", path(self.common.journal.as_ref())),
            ("--config", path(self.common.config.as_ref())),
        ];
        for (option, value) in options {
            if let Some(value) = value {
                hint.push_str(&format!(" {option} {}", quoted(&value)));
            }
        }
        hint
    }
}

fn path(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn damaged_entry(wanted: &Wanted, damage: &Damaged) -> Trouble {
    Trouble::new(
        Exit::Journal,
        "damaged",
        format!("the journal's entry cannot be trusted: {}", damage.error),
    )
    .todo("find the operation on the server by its reference; nothing is sent for it from here")
    .about(wanted.reference())
    .nothing_was_sent()
}

/// As a shell takes it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn policy(typed: &PatienceArgs, host: &Host) -> Policy {
    let mut policy = Policy::new();
    if let Some(attempts) = typed.max_attempts.or(host.max_attempts) {
        policy = policy.max_attempts(attempts);
    }
    if let Some(total) = typed.give_up_after.or(host.give_up_after) {
        policy = policy.give_up_after(total);
        if policy.timeout() > total && typed.attempt_timeout.or(host.attempt_timeout).is_none() {
            policy = policy.attempt_timeout(total);
        }
    }
    if let Some(timeout) = typed.attempt_timeout.or(host.attempt_timeout) {
        policy = policy.attempt_timeout(timeout);
    }
    policy
}

fn profile(wishes: &Wishes, host: &Host) -> Result<Profile, Trouble> {
    match (&wishes.profile, &host.profile) {
        (Some(profile), _) => Ok(profile.clone()),
        (None, Some(name)) => profile_named(name)
            .map_err(|why| Trouble::usage(format!("the configuration names a profile: {why}"))),
        (None, None) => Ok(Profile::default()),
    }
}

/// A built-in profile.
pub(crate) fn profile_named(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| {
        let all: Vec<String> = Profile::all().map(|p| p.name().to_owned()).collect();
        format!("there is no profile {name:?}; there are {}", all.join(", "))
    })
}
