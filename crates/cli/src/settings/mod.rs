//! The configuration file: values for options that are neither typed nor in a variable.
//!
//! The values become defaults of the command line's parser, so that it reads them, and reports what
//! is wrong with them, as if they had been typed.

mod file;
mod keys;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

pub(crate) use keys::is_of_one_call;

/// What a file sets. It was found where `from` says.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    path: PathBuf,
    from: &'static str,
    sections: Vec<Section>,
    entries: Vec<Entry>,
}

/// The head of a section.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    line: usize,
}

/// A key and its value.
#[derive(Clone, Debug)]
struct Entry {
    /// The command that it is for. `None` at the top of the file, for all that have such an option.
    section: Option<String>,
    key: String,
    value: Scalar,
    line: usize,
}

/// A value that an option can have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scalar {
    Text(String),
    Number(String),
    Flag(bool),
}

/// The store that a file chooses.
#[derive(Clone, Debug)]
pub(crate) struct StoreSetting {
    pub(crate) choice: StoreChoice,
    /// The key, the file and its line.
    pub(crate) from: String,
    /// The file and its line.
    pub(crate) place: String,
}

/// One of the keys for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Url(String),
    File(PathBuf),
    Local,
}

/// Keys of which only one can be set. The store's own code decides between them and the variables.
const STORE_KEYS: [&str; 3] = ["store", "store-file", "local"];

/// The same for the store of the journal.
const JOURNAL_KEYS: [&str; 2] = ["journal-store", "journal-store-file"];

/// A file, and whether it must exist.
struct Candidate {
    path: PathBuf,
    from: &'static str,
    is_named: bool,
}

impl Settings {
    /// Reads the file: the one that was named, otherwise the user's, otherwise the host's.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn find(
        named: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, String> {
        for candidate in candidates(named, variable) {
            if let Some(text) = file::read(&candidate)? {
                let Candidate { path, from, .. } = candidate;
                let (sections, entries) = file::entries(&path, &text)?;
                return Ok(Some(Self {
                    path,
                    from,
                    sections,
                    entries,
                }));
            }
        }
        Ok(None)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How the file was found.
    pub(crate) fn from(&self) -> &'static str {
        self.from
    }

    /// The parser with these values as its defaults.
    ///
    /// # Errors
    /// A text about a key that it does not have.
    pub(crate) fn as_defaults(&self, mut parser: Command) -> Result<Command, String> {
        for section in &self.sections {
            keys::check_section(&parser, &section.name)
                .map_err(|why| format!("{}:{}: {why}", self.path.display(), section.line))?;
        }
        for entry in &self.entries {
            let place = self.place(entry);
            keys::check(&parser, entry).map_err(|why| format!("{place}: {why}"))?;
        }
        self.check_volume()?;
        // Sections last, because they win.
        let sections = self.entries.iter().filter(|entry| entry.section.is_some());
        let top = self.entries.iter().filter(|entry| entry.section.is_none());
        for entry in top.chain(sections) {
            let key = &&*entry.key;
            if STORE_KEYS.contains(key) || JOURNAL_KEYS.contains(key) {
                continue;
            }
            parser = match &entry.section {
                None => with_default(parser, entry),
                Some(section) => {
                    parser.mut_subcommand(section, |command| with_default(command, entry))
                }
            };
        }
        Ok(parser)
    }

    /// Refuses both a quiet and a verbose log, as the command line does.
    fn check_volume(&self) -> Result<(), String> {
        let is_set = |entry: &&Entry| match (&*entry.key, &entry.value) {
            ("quiet", value) => *value == Scalar::Flag(true),
            ("verbose", Scalar::Number(number) | Scalar::Text(number)) => number != "0",
            _ => false,
        };
        let mut set = self.entries.iter().filter(is_set);
        match (set.next(), set.next()) {
            (Some(_), Some(second)) => Err(format!(
                "{}: quiet and verbose are both set: remove one of them",
                self.place(second)
            )),
            _ => Ok(()),
        }
    }

    /// The store that the file chooses for this command.
    ///
    /// # Errors
    /// A text about two choices.
    pub(crate) fn store(&self, command: &str) -> Result<Option<StoreSetting>, String> {
        self.chosen(command, &STORE_KEYS)
    }

    /// The same for the store of the journal.
    pub(crate) fn journal_store(&self, command: &str) -> Result<Option<StoreSetting>, String> {
        self.chosen(command, &JOURNAL_KEYS)
    }

    fn chosen(&self, command: &str, keys: &[&str]) -> Result<Option<StoreSetting>, String> {
        let of = |section: Option<&str>| {
            let entries = self.entries.iter().filter(move |entry| {
                entry.section.as_deref() == section
                    && keys.contains(&&*entry.key)
                    && entry.value != Scalar::Flag(false)
            });
            entries.collect::<Vec<_>>()
        };
        let mut chosen = of(Some(command));
        if chosen.is_empty() {
            chosen = of(None);
        }
        let entry = match &chosen[..] {
            [] => return Ok(None),
            [entry] => *entry,
            [first, second, ..] => {
                return Err(format!(
                    "{}: {} and {} are both set: remove one of them",
                    self.place(second),
                    first.key,
                    second.key
                ));
            }
        };
        let choice = match (&*entry.key, &entry.value) {
            ("store" | "journal-store", Scalar::Text(url)) => StoreChoice::Url(url.clone()),
            (_, Scalar::Text(path)) => StoreChoice::File(PathBuf::from(path)),
            _ => StoreChoice::Local,
        };
        let place = self.place(entry);
        Ok(Some(StoreSetting {
            choice,
            from: format!("{} in {place}", entry.key),
            place,
        }))
    }

    /// The file and line that set this option of this command.
    pub(crate) fn place_of(&self, command: &str, option: &str) -> Option<String> {
        let of = |section: Option<&str>| {
            let mut entries = self.entries.iter();
            entries.find(|entry| entry.section.as_deref() == section && entry.key == option)
        };
        let entry = of(Some(command)).or_else(|| of(None))?;
        Some(self.place(entry))
    }

    fn place(&self, entry: &Entry) -> String {
        format!("{}:{}", self.path.display(), entry.line)
    }
}

/// Sets the value in this command and in those below it, wherever there is such an option.
fn with_default(command: Command, entry: &Entry) -> Command {
    let found = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(&entry.key));
    let id = found.map(|arg| arg.get_id().clone());
    let value = match &entry.value {
        Scalar::Text(text) | Scalar::Number(text) => text.clone(),
        Scalar::Flag(flag) => flag.to_string(),
    };
    let command = match id {
        Some(id) => command.mut_arg(id, |arg| arg.default_value(value)),
        None => command,
    };
    command.mut_subcommands(|command| with_default(command, entry))
}

fn candidates(named: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Candidate> {
    let candidate = |path: PathBuf, from, is_named| Candidate {
        path,
        from,
        is_named,
    };
    if let Some(path) = named {
        return vec![candidate(path.to_owned(), "--config", true)];
    }
    if let Some(path) = variable("SHEDLOCK_CONFIG") {
        return vec![candidate(path.into(), "SHEDLOCK_CONFIG", true)];
    }
    let absolute = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let user = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let user = user.map(|folder| folder.join("shedlock/config.toml"));
    let host = candidate("/etc/shedlock/config.toml".into(), "the host's file", false);
    let user = user.map(|path| candidate(path, "the user's file", false));
    user.into_iter().chain([host]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_file_wins_over_the_users_over_the_hosts() {
        let paths = |named: Option<&str>, variables: &[(&str, &str)]| {
            let found = candidates(named.map(Path::new), |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.into())
            });
            let paths = found.into_iter().map(|it| it.path.display().to_string());
            paths.collect::<Vec<_>>()
        };
        let host = "/etc/shedlock/config.toml";
        let home = ("HOME", "/h");
        assert_eq!(paths(Some("a"), &[("SHEDLOCK_CONFIG", "b")]), ["a"]);
        assert_eq!(paths(None, &[("SHEDLOCK_CONFIG", "b"), home]), ["b"]);
        let user = "/h/.config/shedlock/config.toml";
        assert_eq!(paths(None, &[home]), [user, host]);
        assert_eq!(paths(None, &[home, ("XDG_CONFIG_HOME", "x")]), [user, host]);
        let xdg = [home, ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(paths(None, &xdg), ["/x/shedlock/config.toml", host]);
        assert_eq!(paths(None, &[]), [host]);
    }
}
