//! What the libraries' advice is called on this command line.

use std::sync::OnceLock;

use shedlock::Operation;
use shedlock_core::{Setting, Words, set_words};

use crate::args::Command;

static STORE_OPTION: OnceLock<String> = OnceLock::new();

/// Sets the words for a command. Its messages name its own options, and its store without the URL, which may contain a
/// password.
pub(crate) fn set(command: &mut Command) {
    let option = command.store_mut().map(|store| store.option());
    set_store_option(option.unwrap_or_default());
    let at_most = match command {
        Command::Extend(_) => "--for",
        _ => "--lock-at-most-for",
    };
    set_words(Box::new(OfCommand { at_most }));
}

/// Sets [`store_option`].
pub(crate) fn set_store_option(option: String) {
    // Set only once, at the start.
    let _ = STORE_OPTION.set(option);
}

/// The option that selects this command's store again, for commands that a message quotes.
pub(crate) fn store_option() -> &'static str {
    STORE_OPTION.get().map_or("", String::as_str)
}

#[derive(Debug)]
struct OfCommand {
    at_most: &'static str,
}

impl Words for OfCommand {
    fn operation(&self, operation: Operation) -> String {
        let line = match operation {
            Operation::Migrate => "migrate",
            Operation::PlanMigration => "migrate --print",
            Operation::Grants => "migrate --print --grant-to ROLE",
            Operation::NewTable => "migrate --new-table",
            Operation::CreateFile => {
                return "create the file with `shedlock migrate` (`shedlock run` creates it too)"
                    .to_owned();
            }
            Operation::ResetSlot => "slot reset NAME --to TIME",
            Operation::ForceUnlock => "unlock --force NAME",
            Operation::PauseNew => "pause NAME --create",
            Operation::Resume => "resume NAME",
            Operation::Prune => "prune NAME --idle-for 1d --yes",
            Operation::Restore => "migrate --restore-from-journal",
            Operation::History => "history NAME",
            Operation::WatchJava => "jobs --watched-by-java JOB",
            Operation::RaiseAtMost => return format!("raise {}", self.at_most),
            other => return other.in_code().to_owned(),
        };
        format!("`shedlock {line}{}`", store_option())
    }

    fn setting(&self, setting: Setting) -> &'static str {
        match setting {
            Setting::AtMost => self.at_most,
            Setting::AtLeast => "--lock-at-least-for",
        }
    }
}
