//! `cargo xtask planted`: does a test convict each defect that is planted in the product?
//!
//! `testing/planted` has small patches that break the product. Each is applied in a worktree of its own, and the tests
//! that concern it run, the cheapest first, until one fails that passes without the defect. The verdicts are compared
//! with those on record, so a change of the tests that acquits a defect is noticed. It takes hours, and is run by hand.

mod draw;
mod patch;
mod trial;
mod verdict;

use crate::faketime;
use crate::servers::{self, Store};
use crate::steps;
use anyhow::{Context as _, bail};
use patch::Patch;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trial::Court;
use verdict::Record;

/// Arguments of `cargo xtask planted`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the patches whose names contain this text; can be repeated.
    #[arg(value_name = "TEXT")]
    names: Vec<String>,
    /// Run the tests of this revision instead of the last commit.
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    revision: String,
    /// Write the verdicts on record instead of comparing with them. The other patches keep theirs.
    #[arg(long)]
    record: bool,
    /// Only judge patches that have no verdict on record.
    #[arg(long)]
    missing: bool,
    /// Do not run tests: draw patches from the list of cargo-mutants, with this seed.
    #[arg(long, value_name = "SEED")]
    draw: Option<u64>,
}

/// Where the patches and their verdicts are.
fn folder() -> PathBuf {
    steps::workspace_root().join("testing/planted")
}

/// Judges the patches. The exit code reports whether each defect that was convicted still is.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(seed) = args.draw {
        return draw::run(seed, &folder()).map(|()| ExitCode::SUCCESS);
    }
    let mut record = Record::read(&folder())?;
    let patches = selected(args, &record)?;
    let servers = servers::start(Store::all(), true, &servers::of_all_tests())?;
    if let Err(why) = faketime::library(false) {
        eprintln!("xtask: NO WRONG CLOCKS: {why}");
    }
    let court = Court::open(&servers, &args.revision)?;
    let mut is_good = true;
    for (number, patch) in patches.iter().enumerate() {
        print!("{:3}/{}  {}: ", number + 1, patches.len(), patch.name);
        let verdict = court.judge(patch);
        println!("{verdict}");
        is_good &= record.permits(&patch.name, &verdict);
        record.set(&patch.name, verdict);
        if args.record {
            // After each, because the rest may take hours.
            record.write(&folder())?;
        }
    }
    println!("\n{}", record.summary());
    if !is_good {
        println!(
            "A defect that was convicted is acquitted, or a patch does not fit the code any more."
        );
    }
    Ok(if is_good || args.record {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The patches that the arguments name.
fn selected(args: &Args, record: &Record) -> anyhow::Result<Vec<Patch>> {
    let is_named = |patch: &Patch| {
        args.names.is_empty() || args.names.iter().any(|text| patch.name.contains(text))
    };
    let is_missing = |patch: &Patch| !args.missing || record.verdict(&patch.name).is_none();
    let patches: Vec<_> = patches(&folder())?
        .into_iter()
        .filter(|patch| is_named(patch) && is_missing(patch))
        .collect();
    if patches.is_empty() {
        bail!("no patch in testing/planted matches");
    }
    Ok(patches)
}

/// All patches, in the order of their names.
fn patches(folder: &Path) -> anyhow::Result<Vec<Patch>> {
    let entries = folder.read_dir();
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|ending| ending == "patch"))
        .collect();
    files.sort();
    files.iter().map(|file| Patch::read(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn each_patch_is_small_and_names_tests_that_exist() {
        let patches = patches(&folder()).unwrap();
        let targets = trial::targets(&steps::workspace_root()).unwrap();
        for patch in &patches {
            assert!(patch.changed_lines() <= patch::MOST_LINES, "{}", patch.name);
            for test in &patch.tests {
                assert!(!test.within(&targets).is_empty(), "{}: {test}", patch.name);
            }
        }
        assert!(patches.len() >= 90, "{} patches", patches.len());
    }

    /// When code moves, its patches must move with it: a patch that does not apply convicts nothing.
    #[test]
    fn each_patch_fits_the_code() {
        for patch in patches(&folder()).unwrap() {
            let mut git = patch.application(&steps::workspace_root());
            if let Err(why) = host::output(git.arg("--check")) {
                panic!("{}: {why:#}", patch.name);
            }
        }
    }

    #[test]
    fn each_verdict_is_about_a_patch() {
        let patches = patches(&folder()).unwrap();
        let record = Record::read(&folder()).unwrap();
        for name in record.names() {
            assert!(patches.iter().any(|patch| patch.name == name), "{name}");
        }
    }
}
