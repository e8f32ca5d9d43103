//! Checks the crates that declare an older Rust than CI builds with, using that Rust.

use crate::host;
use crate::sqlx08;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Which features of a crate are checked, if not all: those whose clients need no newer Rust, and of two crypto libraries
/// the one that is built sooner.
const FEATURES: [(&str, &[&str]); 2] = [
    (
        "shedlock",
        &[
            "consul",
            "http",
            "macros",
            "metrics",
            "scheduler",
            "tokio-postgres",
            "zookeeper",
        ],
    ),
    (sqlx08::CRATE, &["mysql", "postgres", "tls-ring"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    rust_version: String,
    manifest_path: PathBuf,
    features: BTreeMap<String, Vec<String>>,
}

/// Runs the check, and prints the reason if it was skipped.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    Ok(match check(false)? {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) | Outcome::Skipped(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// Checks each crate with the Rust that it declares, if that is an older one.
pub(crate) fn check(no_install: bool) -> anyhow::Result<Outcome> {
    let root = steps::workspace_root();
    let metadata: Metadata = steps::metadata(&root)?;
    let sqlx08: Metadata = steps::metadata(&root.join(sqlx08::FOLDER))?;
    let ours = env!("CARGO_PKG_RUST_VERSION");
    let mut older: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in metadata.packages.iter().chain(&sqlx08.packages) {
        if package.rust_version != ours {
            older
                .entry(&package.rust_version)
                .or_default()
                .push(package);
        }
    }
    let mut unchecked = Vec::new();
    let mut is_any_checked = false;
    for (version, packages) in older {
        let names: Vec<_> = packages.iter().map(|package| &*package.name).collect();
        let rustc = match compiler(version, no_install)? {
            Ok(rustc) => rustc,
            Err(why) => {
                println!("NOT CHECKED: {}: {why}", names.join(", "));
                unchecked.push(why);
                continue;
            }
        };
        is_any_checked = true;
        let folder = program(version, &packages)?;
        let mut command = steps::cargo();
        command
            .current_dir(folder)
            .arg("check")
            .env("RUSTC", &rustc);
        command.env("CARGO_TARGET_DIR", steps::target_folder());
        let status = command.status().context("cannot start cargo")?;
        if !status.success() {
            return Ok(Outcome::Failed(format!(
                "{} with Rust {version}",
                names.join(", ")
            )));
        }
    }
    Ok(match is_any_checked {
        true => Outcome::Passed,
        false => Outcome::Skipped(unchecked.join("; ")),
    })
}

/// Writes a program that depends on these crates, as a user of this version would: cargo then chooses the dependencies
/// that this version can build.
fn program(version: &str, packages: &[&Package]) -> anyhow::Result<PathBuf> {
    let folder = steps::target_folder().join(format!("oldest-rust/{version}"));
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let mut manifest = format!(
        "[workspace]\nresolver = \"3\"\n\n[package]\nname = \"oldest-rust\"\nedition = \"2021\"\n\
         rust-version = \"{version}\"\n\n[dependencies]\n"
    );
    for package in packages {
        let chosen = FEATURES.iter().find(|(name, _)| *name == package.name);
        let features: Vec<&str> = match chosen {
            Some((_, features)) => features.to_vec(),
            None => package.features.keys().map(String::as_str).collect(),
        };
        let path = package
            .manifest_path
            .parent()
            .context("a manifest in a folder")?;
        let name = &package.name;
        manifest += &format!("{name} = {{ path = {path:?}, features = {features:?} }}\n");
    }
    fs::write(folder.join("Cargo.toml"), manifest)?;
    Ok(folder)
}

/// The compiler of this version: rustup's, or the one that Debian builds browsers with. Otherwise the reason why there
/// is none.
fn compiler(version: &str, no_install: bool) -> anyhow::Result<Result<PathBuf, String>> {
    let installed = host::output(Command::new("rustup").args(["toolchain", "list"]));
    if let Some(toolchain) = installed.ok().and_then(|list| toolchain_of(&list, version)) {
        let which = ["which", "rustc", "--toolchain", &toolchain];
        let rustc = host::output(Command::new("rustup").args(which))?;
        return Ok(Ok(PathBuf::from(rustc.trim())));
    }
    let folder = host::cache_dir()?.join(format!("rust-{version}"));
    let rustc = folder.join("rustc");
    if !works(&rustc) {
        if no_install || !host::is_debian() {
            return Ok(Err(format!(
                "Rust {version} is not installed; `rustup toolchain install {version}`"
            )));
        }
        if let Err(error) = unpack(version, &folder) {
            return Ok(Err(format!(
                "Rust {version} is not installed, and Debian's packages of it are unavailable: \
                 {error:#}"
            )));
        }
    }
    Ok(Ok(rustc))
}

/// The toolchain of this version, such as `1.85.1-x86_64-unknown-linux-gnu`, in rustup's list.
fn toolchain_of(list: &str, version: &str) -> Option<String> {
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            name.strip_prefix(version)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        })
        .map(str::to_owned)
}

fn works(rustc: &Path) -> bool {
    host::output(Command::new(rustc).arg("--version")).is_ok()
}

/// Unpacks Debian's packages of this version into the folder without installing them, because they cannot be installed
/// next to rustup.
fn unpack(version: &str, folder: &Path) -> anyhow::Result<()> {
    let listed = host::output(Command::new("apt-cache").args(["madison", "rustc-web"]))?;
    let release = release_of(&listed, version)
        .with_context(|| format!("rustc-web has no version {version}"))?;
    let library = format!("libstd-rust-web-{version}");
    let needed = host::output(Command::new("apt-cache").args(["depends", &library]))?;
    let llvm = needed
        .split_whitespace()
        .find(|word| word.starts_with("libllvm"))
        .with_context(|| format!("{library} depends on no libllvm"))?;
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    let versioned = ["rustc-web", "libstd-rust-web-dev", &library];
    let versioned = versioned.map(|package| format!("{package}={release}"));
    let mut download = Command::new("apt-get");
    download.current_dir(scratch.path());
    host::output(download.args(["-q", "download", llvm]).args(versioned))?;
    let root = folder.join("root");
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    for package in fs::read_dir(scratch.path())? {
        let mut extract = Command::new("dpkg-deb");
        host::output(extract.arg("-x").arg(package?.path()).arg(&root))?;
    }
    let usr = root.join("usr");
    let libraries = usr.join("lib");
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{libs}/{arch}-linux-gnu:{libs}/{llvm}/lib' exec '{usr}/bin/rustc' \
         --sysroot '{usr}' \"$@\"\n",
        libs = libraries.display(),
        arch = std::env::consts::ARCH,
        llvm = llvm.replace("libllvm", "llvm-"),
        usr = usr.display(),
    );
    let rustc = folder.join("rustc");
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o755);
    let mut file = options.open(&rustc)?;
    std::io::Write::write_all(&mut file, script.as_bytes())?;
    drop(file);
    ensure!(works(&rustc), "{} does not run", rustc.display());
    Ok(())
}

/// Debian's version of this release, in what `apt-cache madison` prints.
fn release_of(listed: &str, version: &str) -> Option<String> {
    let versions = listed.lines().filter_map(|line| line.split('|').nth(1));
    versions
        .map(str::trim)
        .find(|found| {
            found
                .strip_prefix(version)
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_version() {
        let list = "stable-x86_64\n1.8.0-x86_64\n1.85.1-x86_64 (active)\n";
        assert_eq!(toolchain_of(list, "1.85").as_deref(), Some("1.85.1-x86_64"));
        assert_eq!(toolchain_of("1.850.0-x86_64\n", "1.85"), None);
        assert_eq!(
            toolchain_of("1.85-x86_64\n", "1.85").as_deref(),
            Some("1.85-x86_64")
        );
    }

    #[test]
    fn debian_has_several_versions_of_a_package() {
        let listed = " rustc-web | 1.96.0+dfsg1-1 | http://a bookworm-security/main amd64 Packages\n \
                      rustc-web | 1.85.0+dfsg3-1 | http://b bookworm/main amd64 Packages\n";
        assert_eq!(
            release_of(listed, "1.85").as_deref(),
            Some("1.85.0+dfsg3-1")
        );
        assert_eq!(release_of(listed, "1.9"), None);
    }
}
