//! The stage of a scene: an empty home on this host, with the program in its path.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::placeholder::Facts;

/// Where the lines of a scene are typed.
pub trait Stage {
    /// The command that runs this line, on a terminal of so many columns or without one.
    fn command(&self, line: &str, columns: Option<u16>) -> Command;

    /// The columns of the terminal of scenes that set none, if they have one.
    fn columns(&self) -> Option<u16> {
        None
    }

    /// What placeholders stand for.
    fn facts(&self) -> Facts;

    /// A folder for outputs, which lines do not see.
    fn outputs(&self) -> &Path;
}

/// `await FILE` returns once the file has a line.
const HELPERS: &str = "await() { until [ -s \"$1\" ]; do sleep 0.02; done; }\n";

/// An empty folder, which is the home and the current directory of each line. Nothing of the outside environment is left
/// but `PATH`.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    outputs: TempDir,
    variables: Vec<(String, String)>,
    facts: Facts,
}

impl Home {
    /// A home whose path has these programs, by the name under which they are called.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(programs: &[(&str, &Path)], version: &str) -> Result<Self, std::io::Error> {
        let (folder, outputs) = (tempfile::tempdir()?, tempfile::tempdir()?);
        for (name, program) in programs {
            std::os::unix::fs::symlink(program, outputs.path().join(name))?;
        }
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let facts = Facts {
            folder: folder.path().display().to_string(),
            host,
            version: version.to_owned(),
            ..Facts::default()
        };
        Ok(Self {
            folder,
            outputs,
            variables: Vec::new(),
            facts,
        })
    }

    /// Sets a variable of all lines.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives a placeholder its value.
    #[must_use]
    pub fn named(mut self, name: &'static str, value: &str) -> Self {
        self.facts.names.push((name, value.to_owned()));
        self
    }

    /// The path of a file in the home.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Stage for Home {
    fn command(&self, line: &str, columns: Option<u16>) -> Command {
        let mut command = match columns {
            Some(columns) => {
                let line = format!("stty cols {columns} rows 24; {HELPERS}{line}");
                let mut command = Command::new("script");
                command.args(["-qefc", &line, "/dev/null"]);
                command
            }
            None => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{HELPERS}{line}")]);
                command
            }
        };
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.outputs.path().display()))
            .env("HOME", self.folder.path())
            .env("SHELL", "/bin/sh")
            // Another one gives `run --schedule` a warning.
            .env("TZ", "UTC");
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn outputs(&self) -> &Path {
        self.outputs.path()
    }
}
