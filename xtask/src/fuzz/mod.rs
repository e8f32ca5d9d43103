//! `cargo xtask fuzz`: fuzzes the readers of untrusted input for as long as requested.

mod guided;

use crate::steps::{self, Steps};
use anyhow::{Context as _, bail};
use shedlock_rig::engine::{Profile, Servers};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::rc::Rc;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to run each target, in minutes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Run only this target, such as `redis/url`, or all targets of a package, such as `redis`; can
    /// be repeated.
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    /// Repeat the random choices of an earlier run, which printed this seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use libFuzzer, which follows the code that each input reaches: needs a C++ compiler, and
    /// builds the clients again. The command and the attributes are not libraries, so they cannot
    /// be tested this way.
    #[arg(long)]
    guided: bool,
}

/// The folder of a package's corpora.
const CORPORA: &str = "tests/corpus";

/// A package with targets.
struct Package {
    /// Its name without `shedlock-`.
    name: String,
    folder: PathBuf,
    has_library: bool,
    /// The features that its targets may need.
    features: Vec<String>,
    /// Whether libFuzzer can use its targets: they are public for `cfg(fuzzing)`.
    is_shown: bool,
}

/// A target: its corpus is a folder of its package.
struct Target {
    package: Rc<Package>,
    name: String,
    corpus: PathBuf,
}

/// Runs each of them.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let targets = targets(args)?;
    // The folder and guard of the run.
    let host = Servers::start(&[], &Profile::default())?;
    let mut steps = Steps::new();
    let program = if args.guided {
        Some(guided::build(&mut steps, &host, &targets)?)
    } else {
        None
    };
    for target in &targets {
        let name = target.full_name();
        let mut command = match &program {
            Some(program) => guided::command(program, target, args)?,
            None => mutated(target, args),
        };
        steps.run(&name, || steps::complete(host.run(), &mut command));
    }
    println!("\n{}", steps.summary());
    Ok(if steps.all_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// All packages that have corpora.
fn packages() -> anyhow::Result<Vec<Rc<Package>>> {
    let mut packages = Vec::new();
    for group in ["crates", "stores"] {
        let group = steps::workspace_root().join(group);
        let entries = fs::read_dir(&group);
        let entries = entries.with_context(|| format!("{} cannot be read", group.display()))?;
        let mut folders: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        folders.sort();
        for folder in folders {
            if !folder.join(CORPORA).is_dir() {
                continue;
            }
            let manifest = fs::read_to_string(folder.join("Cargo.toml"))
                .with_context(|| format!("{} has no manifest", folder.display()))?;
            let mut lines = manifest.lines();
            let name = lines.find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            let name = name.with_context(|| format!("{} has no name", folder.display()))?;
            let library = fs::read_to_string(folder.join("src/lib.rs"));
            packages.push(Rc::new(Package {
                name: name.strip_prefix("shedlock-").unwrap_or(name).to_owned(),
                features: features(&manifest),
                has_library: library.is_ok(),
                is_shown: library.is_ok_and(|text| text.contains("#[cfg(any(test, fuzzing))]")),
                folder,
            }));
        }
    }
    Ok(packages)
}

/// The features that this manifest has.
fn features(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]");
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| Some(line.split_once(" = [")?.0));
    names.map(str::to_owned).collect()
}

/// The requested targets: each folder of a corpus is one.
fn targets(args: &Args) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    for package in packages()? {
        let corpora = package.folder.join(CORPORA);
        let entries = fs::read_dir(&corpora)
            .with_context(|| format!("{} cannot be read", corpora.display()))?;
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            let target = Target {
                package: Rc::clone(&package),
                corpus: corpora.join(&name),
                name,
            };
            let is_asked = args.targets.is_empty()
                || args
                    .targets
                    .iter()
                    .any(|it| *it == package.name || *it == target.full_name());
            if is_asked && (package.is_shown || !args.guided) {
                targets.push(target);
            }
        }
    }
    if targets.is_empty() {
        bail!("no such target: each folder in tests/corpus of a package is a target");
    }
    Ok(targets)
}

impl Target {
    /// The name as users write it.
    fn full_name(&self) -> String {
        format!("{}/{}", self.package.name, self.name)
    }
}

/// The test of the target, run for longer than in the tests.
fn mutated(target: &Target, args: &Args) -> Command {
    let kind = if target.package.has_library {
        "--lib"
    } else {
        "--bins"
    };
    let mut command = steps::cargo();
    command
        .args(["test", "--quiet", "--all-features", kind, "--manifest-path"])
        .arg(target.package.folder.join("Cargo.toml"))
        .args(["--", "--exact", "--nocapture"])
        .arg(format!("fuzz::tests::{}", target.name))
        .env("SHEDLOCK_FUZZ_SECONDS", (args.minutes * 60).to_string())
        .env("SHEDLOCK_FUZZ_SEED", args.seed.to_string());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock::__stores::STORES;

    #[test]
    fn every_store_has_targets() {
        let packages = packages().unwrap();
        for (feature, crates) in STORES.iter().flat_map(|entry| entry.features) {
            let own = crates.iter().find_map(|it| it.strip_prefix("shedlock-"));
            let own = own.unwrap_or("sql");
            let found = packages.iter().find(|package| package.name == own);
            let is_guided = found.is_some_and(|package| package.is_shown);
            assert!(
                is_guided,
                "{feature}: {own} has no tests/corpus, or does not export its module fuzz"
            );
        }
        assert!(packages.iter().any(|package| package.name == "shedlock"));
    }
}
