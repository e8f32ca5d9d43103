//! `cargo xtask api`: the public API of the published crates as text, in `api.txt` of each, so that every change to it
//! shows in a diff.

use crate::sqlx08;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The snapshot of a crate, in its folder.
const FILE: &str = "api.txt";

/// Runs rustdoc, and for a library a second time with JSON as the output.
const RUSTDOC: &str = r#"#!/bin/sh
rustdoc "$@" || exit
case " $* " in
  *" --crate-type lib "*)
    RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Z unstable-options --output-format json ;;
esac
"#;

/// Arguments of `cargo xtask api`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the snapshots instead of comparing with them.
    #[arg(long)]
    update: bool,
}

/// The output of `cargo metadata`, as far as it is needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    /// The registries that it may be published to. `None` for any, empty for none.
    publish: Option<Vec<String>>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Package {
    /// The name of the library, if it is published and has one that other crates link.
    fn library(&self) -> Option<&str> {
        let is_published = self.publish.as_ref().is_none_or(|to| !to.is_empty());
        let library = self.targets.iter();
        let mut library = library.filter(|target| target.kind.iter().any(|kind| kind == "lib"));
        library
            .next()
            .filter(|_| is_published)
            .map(|target| target.name.as_str())
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for mut command in document()? {
        let status = command.status().context("cannot start cargo")?;
        ensure!(status.success(), "cargo doc failed: {status}");
    }
    let found = snapshots()?;
    if args.update {
        for (file, text) in found {
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match judged(&found) {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

/// Fails if the API of a crate differs from its snapshot. The workspaces must have been documented with [`document`].
pub(crate) fn check() -> anyhow::Result<Outcome> {
    Ok(judged(&snapshots()?))
}

/// Compares with the files, and prints the differences.
fn judged(found: &[(PathBuf, String)]) -> Outcome {
    let mut differing = Vec::new();
    for (file, text) in found {
        let kept = fs::read_to_string(file).unwrap_or_default();
        let differences = steps::differences(&kept, text);
        if !differences.is_empty() {
            println!("{}:\n{differences}", file.display());
            differing.push(file.display().to_string());
        }
    }
    if differing.is_empty() {
        return Outcome::Passed;
    }
    println!(
        "Removed or changed items break users of that crate. If the change is intended, run \
         `cargo xtask api --update` and mention it in CHANGELOG.md."
    );
    Outcome::Failed(format!("the public API differs: {}", differing.join(", ")))
}

/// File and text for each crate, from the JSON that [`document`] has written.
fn snapshots() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut packages = Vec::new();
    for folder in sqlx08::PUBLISHED {
        let metadata: Metadata = steps::metadata(&steps::workspace_root().join(folder))?;
        packages.extend(metadata.packages);
    }
    let crates: Vec<(&Package, &str)> = packages
        .iter()
        .filter_map(|package| Some((package, package.library()?)))
        .collect();
    ensure!(!crates.is_empty(), "no crate is published");
    let snapshot = |(package, library): &(&Package, &str)| {
        let json = steps::target_folder().join("doc");
        let json = json.join(format!("{library}.json"));
        let api = public_api::Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .with_context(|| format!("cannot read {}", json.display()))?;
        Ok((package.manifest_path.with_file_name(FILE), api.to_string()))
    };
    crates.iter().map(snapshot).collect()
}

/// The commands that document the workspaces: for people, and as JSON beside it.
///
/// The JSON of each library is written by the same call of rustdoc as its pages, so that cargo keeps both until the
/// source changes. Its format is not stable, so only rustdoc itself runs as if it were a nightly. If cargo got the same
/// variable, it would build all dependencies once more.
pub(crate) fn document() -> anyhow::Result<Vec<Command>> {
    let folder = steps::target_folder().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let rustdoc = folder.join("rustdoc");
    // A file of its own is complete whenever another run starts it.
    let mut written = tempfile::NamedTempFile::new_in(&folder)?;
    written.write_all(RUSTDOC.as_bytes())?;
    let executable = fs::Permissions::from_mode(0o755);
    written.as_file().set_permissions(executable)?;
    written.persist(&rustdoc)?;
    let command = |folder| {
        let mut command = sqlx08::cargo(folder);
        command
            .args(["doc", "--workspace", "--no-deps", "--all-features"])
            .env("RUSTDOC", &rustdoc)
            // The cfg has no other effect than to tell these pages from pages without JSON beside them.
            .env("RUSTDOCFLAGS", "-D warnings --cfg with_json");
        command
    };
    Ok(sqlx08::PUBLISHED.map(command).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_published_libraries_have_a_snapshot() {
        let package = |publish, kind: &str| Package {
            manifest_path: PathBuf::from("a/Cargo.toml"),
            publish,
            targets: vec![Target {
                name: "a".to_owned(),
                kind: vec![kind.to_owned()],
            }],
        };
        assert_eq!(package(None, "lib").library(), Some("a"));
        assert_eq!(package(None, "proc-macro").library(), None);
        assert_eq!(package(None, "bin").library(), None);
        assert_eq!(package(Some(Vec::new()), "lib").library(), None);
    }
}
