//! The store for hosts without one: a file of this user.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shedlock::{LockProvider, identify_store};
use shedlock_sqlx::open_sqlite;

use crate::exit::{Failure, STORE};
use crate::output;
use crate::private;
use crate::terminal::Terminal;

/// The marker of refused commands.
const REFUSED: &str = "refused-local";

/// An SQLite file in the user's state directory.
#[derive(Debug)]
pub(super) struct LocalStore {
    file: PathBuf,
}

impl LocalStore {
    /// Determines the file's location. Nothing is created.
    pub(super) fn locate() -> Result<Self, Failure> {
        let file = state_folder()?.join("locks.db");
        Ok(Self { file })
    }

    /// Opens the file. Creates it, with its folder and its table, if it does not exist.
    pub(super) async fn open_or_create(&self) -> Result<Arc<dyn LockProvider>, Failure> {
        let folder = self.file.parent().unwrap_or(&self.file);
        // Private to this user: write access to the file allows holding and freeing locks.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        if let Err(error) = made {
            return Err(Failure::new(
                STORE,
                format!(
                    "cannot create directory {} for the local store: {error}; make it writable, \
                     set XDG_STATE_HOME, or use another store with --store",
                    folder.display()
                ),
            ));
        }
        self.check()?;
        let is_new = !self.file.exists();
        let provider = Arc::new(open_sqlite(&self.file).await?);
        if let Some(journal) = provider.journal().filter(|_| is_new) {
            // Without them the first runs would be missing from the history; locks work all the same.
            let _ = journal.migrate().await;
            let _ = identify_store(&*provider, None).await;
        }
        Ok(provider)
    }

    /// Refuses a file that other users could have written, or put in its place.
    fn check(&self) -> Result<(), Failure> {
        let folder = self.file.parent().unwrap_or(&self.file);
        for path in [folder, &self.file] {
            private::check(path)
                .map_err(|why| Failure::usage(format!("cannot use the local store: {why}")))?;
        }
        Ok(())
    }

    /// Opens the file. Creates nothing.
    pub(super) async fn open(&self) -> Result<Arc<dyn LockProvider>, Failure> {
        let Some(url) = super::sqlite::url_of(&self.file) else {
            // A URL holds only paths in UTF-8.
            return self.open_or_create().await;
        };
        self.check()?;
        Ok(shedlock::connect(&format!("{url}?create=false")).await?)
    }

    /// Where the locks are, for a message.
    pub(super) fn place(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }

    /// The file itself.
    pub(super) fn into_file(self) -> PathBuf {
        self.file
    }

    /// Warns that this lock does not exclude other hosts, once for this user on this host.
    pub(super) fn tell_once(&self, terminal: Terminal) {
        // Only a notice that was printed counts.
        if terminal.is_quiet() {
            return;
        }
        let mark = self.marker("told-local");
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(mark);
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return,
            Ok(mut mark) => {
                let _ = mark.write_all(b"shedlock printed its notice about local locks once.\n");
            }
            // The warning is repeated next time. A store that cannot be written has its own error.
            Err(_) => {}
        }
        terminal.notice(&format!(
            "no store is set: locks are kept in {} and apply to this user on this host only; to \
             share them with other hosts, set --store or SHEDLOCK_STORE; a crontab line needs one of \
             them, or --local (shown once; --local hides this)",
            self.file.display()
        ));
    }

    /// Refuses to take a lock in this file, because no one would see that it is local. Leaves a note for
    /// the next command on a terminal.
    pub(super) fn refuse(&self) -> Failure {
        let note = self.marker(REFUSED);
        let folder = self.file.parent().unwrap_or(&self.file);
        // Without a note the refusal is still an error with a code of its own.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let _ = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(note);
        Failure::usage(
            "no store is set: a lock in a file on this host does not exclude other hosts; set the URL \
             of a store that all hosts share with --store or SHEDLOCK_STORE, or use --local \
             (SHEDLOCK_STORE=local) if only this host runs the job; on a terminal, the file is the \
             default",
        )
    }

    /// Prints the note of [`refuse`](Self::refuse), and removes it.
    pub(super) fn report_refusals(&self, terminal: Terminal) {
        let note = self.marker(REFUSED);
        let Ok(left) = note.metadata().and_then(|found| found.modified()) else {
            return;
        };
        terminal.error(&format!(
            "since {} at least one `shedlock` on this host was refused, because no store was set and it \
             was not on a terminal, as in a crontab: its job did not run; set the URL of a store with \
             --store or SHEDLOCK_STORE there, or add --local",
            output::second(left)
        ));
        let _ = fs::remove_file(note);
    }

    /// A file that this user has on each host: hosts may share the home folder.
    fn marker(&self, name: &str) -> PathBuf {
        let host = rustix::system::uname();
        let host: String = host.nodename().to_string_lossy().replace(
            |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.',
            "_",
        );
        self.file.with_file_name(format!("{name}.{host}"))
    }
}

/// The XDG base directory specification's location for state that a program keeps between its runs.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    state_folder_of(|name| std::env::var_os(name))
}

fn state_folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .map(|state| state.join(Path::new("shedlock")))
        .ok_or_else(|| {
            Failure::usage(
                "no store is set, and no local one can be used: neither HOME nor XDG_STATE_HOME is \
                 an absolute path; set one of them, or set the URL of a store with --store or \
                 SHEDLOCK_STORE",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(variables: &[(&str, &str)]) -> Result<PathBuf, Failure> {
        state_folder_of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_state_folder_is_where_xdg_says() {
        let home = ("HOME", "/home/u");
        let of = |variables: &[(&str, &str)]| folder(variables).unwrap();
        assert_eq!(of(&[home]), Path::new("/home/u/.local/state/shedlock"));
        let set = [home, ("XDG_STATE_HOME", "/s")];
        assert_eq!(of(&set), Path::new("/s/shedlock"));
        // The specification requires that relative paths are ignored.
        let relative = [home, ("XDG_STATE_HOME", "s")];
        assert_eq!(of(&relative), Path::new("/home/u/.local/state/shedlock"));
        assert!(folder(&[]).is_err());
        assert!(folder(&[("HOME", "")]).is_err());
    }
}
