//! What shedlock changes in an application that adds it: nothing in the clients that it has already, and of tokio only
//! the features that the README lists.

use crate::host;
use crate::steps::{self, Outcome};
use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folders of the applications, and a crypto library that each must not have.
const APPLICATIONS: [(&str, &[&str]); 3] = [
    ("aws-lc", &["ring"]),
    ("ring", &["aws-lc-rs", "aws-lc-sys"]),
    (
        "no-tls",
        &["ring", "aws-lc-rs", "aws-lc-sys", "rustls", "webpki-roots"],
    ),
];

/// A web service, and how many packages of others it may compile more with shedlock.
const SERVICE: (&str, usize) = ("service", 8);

/// How the names of the packages begin that must be as they were.
const UNCHANGED: [&str; 7] = [
    "sqlx",
    "rustls",
    "tokio-rustls",
    "ring",
    "aws-lc",
    "webpki",
    "native-tls",
];

/// Features of tokio that its other features bring: the names of its own dependencies.
const IMPLIED: [&str; 2] = ["signal-hook-registry", "tokio-macros"];

/// The sentence of the README about the features of tokio starts with this, and ends with a full stop.
const SENTENCE: &str = "shedlock adds to tokio";

const LTO: (&str, &str) = ("CARGO_PROFILE_RELEASE_LTO", "fat");
const ONE_UNIT: (&str, &str) = ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
const SMALL: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s");

/// How services are built: what they are called, and the settings.
const PROFILES: [(&str, &[(&str, &str)]); 3] = [
    ("release", &[]),
    (
        "release with lto = \"fat\", codegen-units = 1",
        &[LTO, ONE_UNIT],
    ),
    ("the same with opt-level = \"s\"", &[LTO, ONE_UNIT, SMALL]),
];

/// The features of each package.
#[derive(Debug, Default, PartialEq, Eq)]
struct Features(BTreeMap<String, BTreeSet<String>>);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Build the web service without shedlock and with it, as services are built, and print how large it is. Takes ten
    /// minutes.
    #[arg(long)]
    size: bool,
}

/// Runs the check, and prints what it finds.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (packages, _) = added()?;
    println!(
        "packages of others that shedlock adds to a service: {}",
        packages.join(", ")
    );
    if args.size {
        for (profile, settings) in PROFILES {
            let sizes = [&[][..], &["--features", "shedlock"]].map(|it| size(it, settings));
            let [without, with] = sizes;
            let (without, with) = (without?, with?);
            let more = with.saturating_sub(without);
            println!("{profile}: {without} bytes without shedlock, {with} with it: {more} more");
        }
    }
    Ok(match check()? {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) | Outcome::Skipped(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// Fails if an application's own crates have other features with shedlock than without.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let root = steps::workspace_root();
    let readme = fs::read_to_string(root.join("README.md")).context("README.md cannot be read")?;
    let listed = listed_in(&readme)?;
    let mut complaints = Vec::new();
    for (application, forbidden) in APPLICATIONS {
        let folder = folder_of(application)?;
        let without = resolved(&folder, &[])?;
        let with = resolved(&folder, &["--features", "shedlock"])?;
        let found = without.complaints(&with, forbidden, &listed);
        complaints.extend(found.iter().map(|found| format!("{application}: {found}")));
    }
    let (packages, most) = added()?;
    if packages.len() > most {
        complaints.push(format!(
            "more than {most} packages are added: {}",
            packages.join(", ")
        ));
    }
    Ok(match complaints.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(complaints.join("; ")),
    })
}

/// The folder of an application, with the versions of this workspace, so that nothing is downloaded.
fn folder_of(application: &str) -> anyhow::Result<PathBuf> {
    let root = steps::workspace_root();
    let folder = root.join("testing/adoption").join(application);
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("Cargo.lock cannot be copied")?;
    Ok(folder)
}

/// The packages of others that the service compiles only with shedlock, and how many there may be.
fn added() -> anyhow::Result<(Vec<String>, usize)> {
    let (service, most) = SERVICE;
    let folder = folder_of(service)?;
    let without = resolved(&folder, &[])?;
    let with = resolved(&folder, &["--features", "shedlock"])?;
    let names = with.0.into_keys();
    let is_added = |name: &String| !without.0.contains_key(name) && !name.starts_with("shedlock");
    Ok((names.filter(is_added).collect(), most))
}

/// The size of the service, built with these features and these settings of the profile.
fn size(features: &[&str], settings: &[(&str, &str)]) -> anyhow::Result<u64> {
    let folder = folder_of(SERVICE.0)?;
    let target = steps::target_folder().join("adoption-size");
    let mut build = steps::cargo();
    build
        .current_dir(&folder)
        .args(["build", "--release", "--offline"]);
    build
        .args(features)
        .envs(settings.iter().copied())
        .env("CARGO_TARGET_DIR", &target);
    host::output(&mut build)?;
    let program = target.join("release/adoption-service");
    Ok(fs::metadata(program)?.len())
}

/// What cargo resolves for the application in this folder.
fn resolved(folder: &Path, features: &[&str]) -> anyhow::Result<Features> {
    let tree = [
        "tree",
        "--offline",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "-f",
        "{p}\t{f}",
    ];
    let mut command = steps::cargo();
    command.current_dir(folder).args(tree).args(features);
    Ok(Features::parse(&host::output(&mut command)?))
}

impl Features {
    /// Reads lines like `tokio v1.41.0<tab>rt,sync (*)`.
    fn parse(tree: &str) -> Self {
        let mut features = Self::default();
        for line in tree.lines().filter_map(|line| line.split_once('\t')) {
            let (package, listed) = line;
            let name = package.split(' ').next().unwrap_or_default();
            let listed = listed.trim_end_matches(" (*)").split(',');
            let listed = listed.filter(|feature| !feature.is_empty());
            let known = features.0.entry(name.to_owned()).or_default();
            known.extend(listed.map(str::to_owned));
        }
        features
    }

    /// What shedlock must not have changed, and the features of tokio that are not listed.
    fn complaints(
        &self,
        with: &Self,
        forbidden: &[&str],
        listed: &BTreeSet<String>,
    ) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(with.0.keys()).collect();
        let unchanged = names
            .iter()
            .filter(|name| UNCHANGED.iter().any(|it| name.starts_with(it)));
        let changed = unchanged.filter(|name| self.0.get(**name) != with.0.get(**name));
        let mut found: Vec<_> = changed
            .map(|name| {
                let [was, is] = [self, with].map(|features| features.0.get(*name));
                format!("{name} has {is:?} with shedlock, {was:?} without")
            })
            .collect();
        let present = forbidden.iter().filter(|name| with.0.contains_key(**name));
        found.extend(present.map(|name| format!("it has {name}")));
        for package in ["shedlock", "shedlock-sqlx", "sqlx-core"] {
            if !with.0.contains_key(package) {
                found.push(format!("it lacks {package}, so this check sees nothing"));
            }
        }
        let tokio = |features: &Self| features.0.get("tokio").cloned().unwrap_or_default();
        let added = &tokio(with) - &tokio(self);
        let unlisted = added
            .iter()
            .filter(|added| !listed.contains(*added) && !IMPLIED.contains(&added.as_str()));
        found.extend(unlisted.map(|added| format!("tokio gets {added:?}, which README.md omits")));
        let unused = listed
            .iter()
            .filter(|listed| !tokio(with).contains(*listed));
        found.extend(unused.map(|listed| format!("tokio does not get {listed:?} of README.md")));
        found
    }
}

/// The features of tokio in the README's sentence about them.
fn listed_in(readme: &str) -> anyhow::Result<BTreeSet<String>> {
    let sentence = readme.split_once(SENTENCE).map(|(_, rest)| rest);
    let sentence = sentence.with_context(|| format!("README.md does not say {SENTENCE:?}"))?;
    let sentence = sentence.split(". ").next().unwrap_or_default();
    let words = sentence.split('`').skip(1).step_by(2);
    Ok(words
        .filter(|word| *word != "scheduler")
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: &str = "sqlx-core v0.9.0\t_rt-tokio\ntokio v1.41.0\trt,sync (*)\n";
    const SHEDLOCK: &str = "shedlock v0.1.0 (/w)\tmacros\nshedlock-sqlx v0.1.0 (/w)\t\n";

    fn complaints(with: &str) -> Vec<String> {
        let with = Features::parse(&format!("{SHEDLOCK}{with}"));
        let listed = BTreeSet::from(["sync".to_owned()]);
        Features::parse(WITHOUT).complaints(&with, &["ring"], &listed)
    }

    #[test]
    fn an_application_that_keeps_its_features_passes() {
        assert_eq!(complaints(WITHOUT), Vec::<String>::new());
    }

    #[test]
    fn a_feature_that_shedlock_turns_on_is_found() {
        let with =
            "sqlx-core v0.9.0\t_rt-tokio,_tls-rustls\nring v0.17.14\t\ntokio v1.41.0\trt,fs,sync\n";
        let found = complaints(with).join("; ");
        for says in ["_tls-rustls", "it has ring", "tokio gets \"fs\""] {
            assert!(found.contains(says), "{found}");
        }
    }

    #[test]
    fn a_tree_without_shedlock_proves_nothing() {
        let with = Features::parse(WITHOUT);
        let found = Features::parse(WITHOUT).complaints(&with, &[], &BTreeSet::new());
        assert!(found[0].contains("lacks shedlock"), "{found:?}");
    }

    #[test]
    fn the_sentence_of_the_readme_is_read() {
        let readme = "All. It says shedlock adds to tokio `rt`,\n`sync` and, with `scheduler`, `signal`. And `fs`. ";
        let listed = listed_in(readme).unwrap();
        assert_eq!(Vec::from_iter(listed), ["rt", "signal", "sync"]);
    }
}
