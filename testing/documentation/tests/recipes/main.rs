//! The recipes of docs/recipes.md are run, or checked with the programs that read them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cron;
mod crontab;
mod image;
mod kubernetes;
mod page;
mod systemd;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use shedlock_documentation::{root, shedlock, succeed};
use tempfile::TempDir;

/// The text of a file of the recipes.
fn recipe(name: &str) -> String {
    fs::read_to_string(root().join("docs/recipes").join(name)).unwrap()
}

/// A store, a file with its URL, and a command to run under a lock.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(site.path("store"), site.store() + "\n").unwrap();
        let report = format!("#!/bin/sh\necho reported >> {}\n", site.shown("reports"));
        fs::write(site.path("report"), report).unwrap();
        succeed(Command::new("chmod").arg("755").arg(site.path("report")));
        succeed(Command::new(shedlock()).args(["migrate", "--store", &site.store()]));
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.shown("locks.db"))
    }

    /// The recipe with the program, the store and the command of this site.
    fn adapted(&self, recipe: &str) -> String {
        let mut adapted = recipe.to_owned();
        for (shown, here) in [
            ("/usr/local/bin/shedlock", shedlock().display().to_string()),
            ("postgres://app@db/app", self.store()),
            ("/etc/shedlock/store", self.shown("store")),
            ("/opt/report", self.shown("report")),
            ("/opt/consumer", self.shown("report")),
        ] {
            adapted = adapted.replace(shown, &here);
        }
        adapted
    }

    /// How often the command has run.
    fn reports(&self) -> usize {
        let reports = fs::read_to_string(self.path("reports"));
        reports.unwrap_or_default().lines().count()
    }
}
