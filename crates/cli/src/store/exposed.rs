//! Warnings about secrets that other users of this host can read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use shedlock_support::redact;

use super::handover::Source;
use super::{file, journal};
use crate::args::{StoreArgs, settings_file};
use crate::output::shell_word;
use crate::terminal::Terminal;

/// Where containers find their secrets, with a mode that they often cannot choose.
const MOUNTED: [&str; 2] = ["/run/secrets", "/var/run/secrets"];

/// Warns about the passwords of the stores that were chosen, and of the configuration file.
pub(crate) fn warn_of_exposed_stores(args: &StoreArgs, terminal: Terminal) {
    let variable = |name: &str| std::env::var_os(name);
    // What is wrong with them is reported when they are used.
    let store = Source::of(args, variable).ok();
    let journal = journal::source(args, variable).ok().flatten();
    for source in store.into_iter().chain(journal) {
        warn_of_exposed_source(&source, terminal);
    }
    if let Some(path) = settings_file() {
        let what = "the password of a store";
        warn_of_exposed_file("configuration", path, what, has_password, terminal);
    }
}

/// Warns about the password of a store.
pub(crate) fn warn_of_exposed_source(source: &Source, terminal: Terminal) {
    match source {
        Source::Url { url, from } if from.starts_with("--") && has_password(url) => {
            // Options that take a name too.
            let option = from.split(' ').next().unwrap_or_default();
            let variable = match option {
                "--store" => "set SHEDLOCK_STORE, or ",
                "--journal-store" => "set SHEDLOCK_JOURNAL_STORE, or ",
                _ => "",
            };
            terminal.warning(&format!(
                "{from}: other users of this host can read the password on the command line (ps); \
                 {variable}write the URL into a file and use {option}-file"
            ));
        }
        Source::File { path, from } => {
            let what = "the password of a store";
            warn_of_exposed_file(from, path, what, has_password, terminal);
        }
        _ => {}
    }
}

/// Warns if other users may read this file, and there is a secret in its text.
pub(crate) fn warn_of_exposed_file(
    from: &str,
    path: &Path,
    what: &str,
    is_secret: impl FnOnce(&str) -> bool,
    terminal: Terminal,
) {
    let Some(mode) = exposed(path) else { return };
    let text = file::bytes(path).unwrap_or_default();
    if is_secret(&String::from_utf8_lossy(&text)) {
        let place = path.display();
        terminal.warning(&format!(
            "{from}: other users of this host can read {what} in {place} (mode {mode:04o}); run `chmod 600 {}`",
            shell_word(&place.to_string())
        ));
    }
}

/// The mode of this file, if others than its owner may read it.
fn exposed(path: &Path) -> Option<u32> {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|it| !it.is_empty());
    if is_in_pod || MOUNTED.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    // A pipe can be read only once.
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    // The group is how this user may read the file of another user.
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    let others = if is_ours { 0o044 } else { 0o004 };
    (found.mode() & others != 0).then_some(found.mode() & 0o7777)
}

fn has_password(text: &str) -> bool {
    redact(text) != text
}
