//! Replays the pages of this folder: what a user of the command types and sees. README.md describes the format.
//!
//! `SHEDLOCK_TRANSCRIPTS=record`, or `--record` as the first argument, writes what is printed into the pages.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod sql;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use shedlock_transcripts::{Home, Mode, Settings, replay};

/// Programs for steps beside the command.
const PROGRAMS: [(&str, fn()); 2] = [("sql", sql::sql), ("age", sql::age)];

/// What the pages say about stores that this build lacks, and what it says instead.
fn absent() -> Vec<(&'static str, &'static str)> {
    let mut absent = Vec::new();
    if !cfg!(feature = "etcd") {
        absent.extend([
            (" etcd (or etcds),", ""),
            ("ZooKeeper, etcd, ", "ZooKeeper, "),
        ]);
    }
    if !cfg!(feature = "tls-aws-lc") {
        absent.push((" (or zookeepers)", ""));
    }
    absent
}

fn main() {
    // Steps call it by these names.
    let name = std::env::args().next().unwrap_or_default();
    if let Some((_, program)) = PROGRAMS
        .iter()
        .find(|(word, _)| Path::new(&name).ends_with(word))
    {
        return program();
    }
    let mut words: Vec<String> = std::env::args().collect();
    let record = words.get(1).is_some_and(|word| word == "--record");
    if record {
        words.remove(1);
    }
    let arguments = Arguments::from_iter(words);
    let mode = match record {
        true => Mode::chosen(Some("record"), std::env::var_os("CI").is_some()),
        false => Mode::from_environment(),
    };
    let trials = pages().into_iter().map(|page| {
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        let mode = mode.clone();
        Trial::test(name, move || {
            Ok(replay(
                &page,
                mode.map_err(Failed::from)?,
                &absent(),
                stage,
            )?)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let files = std::fs::read_dir(folder).unwrap();
    let mut pages: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    pages.retain(|page| {
        page.extension().is_some_and(|extension| extension == "md") && !page.ends_with("README.md")
    });
    pages.sort();
    pages
}

/// A home with the programs in its path. The store is a file in it, unless the scene sets `store: none`.
fn stage(settings: &Settings) -> Result<Home, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let shedlock = ("shedlock", Path::new(env!("CARGO_BIN_EXE_shedlock")));
    let ours = PROGRAMS.iter().map(|(name, _)| (*name, &*this));
    let programs: Vec<_> = ours.chain([shedlock]).collect();
    let home =
        Home::new(&programs, env!("CARGO_PKG_VERSION")).map_err(|error| error.to_string())?;
    match settings.get("store") {
        None => {
            let store = format!("sqlite:{}", home.path("locks.db").display());
            Ok(home.with("SHEDLOCK_STORE", &store))
        }
        Some("none") => Ok(home),
        Some(store) => Err(format!("no transcript can use the store {store:?}")),
    }
}
