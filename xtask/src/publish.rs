//! `cargo xtask publish --plan`: what would be published, in which order, and why a set of crates is refused. `--build`, a
//! step of the tests, builds a program from the packaged files as a user would.

use crate::host;
use crate::sqlx08;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print the commands that would publish, in their order. This one publishes nothing.
    #[arg(long, required_unless_present = "build")]
    plan: bool,

    /// Build and run a program from the packaged files, as `cargo xtask test` does.
    #[arg(long, conflicts_with_all = ["plan", "crates"])]
    build: bool,

    /// The crates to publish; all by default.
    crates: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    version: String,
    /// The registries that it may be published to. `None` for any, empty for none.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal one.
    kind: Option<String>,
}

/// The crates whose clients do not build without TLS, which `cargo publish` would try.
const WITH_TLS: [&str; 2] = ["shedlock-mongodb", "shedlock-nats"];

/// The crate whose types and traits the others have in their interfaces.
const CORE: &str = "shedlock-core";

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|to| !to.is_empty())
    }

    fn needs(&self, name: &str) -> bool {
        let mut needed = self.dependencies.iter();
        needed.any(|it| it.name == name && it.kind.as_deref() != Some("dev"))
    }

    /// The part of the version that is the same for all that fit each other: `0.1` of `0.1.7`, `2` of `2.3.1`.
    fn line(&self) -> &str {
        let parts = if self.version.starts_with("0.") { 2 } else { 1 };
        let end = self.version.match_indices('.').nth(parts - 1);
        end.map_or(&self.version, |(end, _)| &self.version[..end])
    }

    /// Publishes it.
    fn command(&self) -> String {
        let Self { name, version, .. } = self;
        let workspace = match name.as_str() {
            sqlx08::CRATE => format!(" --manifest-path {}/Cargo.toml", sqlx08::FOLDER),
            _ => String::new(),
        };
        let features = match WITH_TLS.contains(&name.as_str()) {
            true => " --features tls-ring",
            false => "",
        };
        format!("cargo publish --package {name}{workspace}{features} # {version}")
    }

    /// Whether no earlier version fits this one.
    fn begins_a_line(&self) -> bool {
        let rest = &self.version[self.line().len()..];
        rest.trim_start_matches(['.', '0']).is_empty()
    }
}

/// Prints the plan, or why the set is refused.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.build {
        return match check()? {
            Outcome::Passed => Ok(ExitCode::SUCCESS),
            Outcome::Failed(why) | Outcome::Skipped(why) => bail!(why),
        };
    }
    let all = published()?;
    for name in &args.crates {
        ensure!(
            all.iter().any(|it| it.name == *name),
            "no crate {name} is published"
        );
    }
    let is_meant = |it: &&Package| args.crates.is_empty() || args.crates.contains(&it.name);
    let set: Vec<_> = all.iter().filter(is_meant).cloned().collect();
    let complaints = complaints(&all, &set);
    if !complaints.is_empty() {
        bail!("refused: {}", complaints.join("; "));
    }
    for package in set {
        println!("{}", package.command());
    }
    Ok(ExitCode::SUCCESS)
}

/// The published crates, each after those that it needs.
fn published() -> anyhow::Result<Vec<Package>> {
    let root = steps::workspace_root();
    let mut left = Vec::new();
    for workspace in sqlx08::PUBLISHED {
        let metadata: Metadata = steps::metadata(&root.join(workspace))?;
        left.extend(metadata.packages);
    }
    left.retain(Package::is_published);
    let mut ordered: Vec<Package> = Vec::new();
    while !left.is_empty() {
        let (ready, waiting): (Vec<_>, Vec<_>) = left
            .iter()
            .cloned()
            .partition(|it| !left.iter().any(|other| it.needs(&other.name)));
        ensure!(!ready.is_empty(), "crates need each other in a circle");
        ordered.extend(ready);
        left = waiting;
    }
    Ok(ordered)
}

/// Why these crates may not be published together.
fn complaints(all: &[Package], set: &[Package]) -> Vec<String> {
    let Some(core) = all.iter().find(|it| it.name == CORE) else {
        return vec![format!("there is no {CORE}")];
    };
    let names_core = |it: &&Package| it.needs(CORE);
    let others = all.iter().filter(names_core);
    let mut complaints: Vec<_> = others
        .clone()
        .filter(|it| it.line() != core.line())
        .map(|it| format!("{} {} names {CORE} {}", it.name, it.version, core.version))
        .collect();
    let is_in = |name: &str| set.iter().any(|it| it.name == name);
    if core.begins_a_line() && is_in(CORE) {
        let left_out = others.filter(|it| !is_in(&it.name));
        complaints.extend(left_out.map(|it| {
            let (name, line) = (&it.name, core.line());
            format!("{name} names {CORE} and is left out, although no earlier release fits {line}")
        }));
    }
    complaints
}

/// Builds and runs a program outside of the workspace from the packaged crates, and checks that Cargo refuses two cores.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let all = published()?;
    let complaints = complaints(&all, &all);
    if !complaints.is_empty() {
        return Ok(Outcome::Failed(complaints.join("; ")));
    }
    let folder = steps::target_folder().join("adoption");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let crates = unpacked(&all, &folder)?;
    let outside = folder.join("packaged");
    copy(
        &steps::workspace_root().join("testing/adoption/packaged"),
        &outside,
    )?;
    let service = outside.join("service");
    fs::copy(
        steps::workspace_root().join("Cargo.lock"),
        service.join("Cargo.lock"),
    )?;
    patch(&outside, &crates)?;
    let said = cargo(&service, &["run", "--quiet", "--", "locks.db"])?;
    if !said.contains("invoices: Some(3)") {
        return Ok(Outcome::Failed(format!("the service said {said:?}")));
    }
    two_cores(&outside, &crates)
}

/// A library that needs another version of the core cannot be in the same program.
fn two_cores(outside: &Path, crates: &[(String, PathBuf)]) -> anyhow::Result<Outcome> {
    let (_, core) = crates.iter().find(|(name, _)| name == CORE).context(CORE)?;
    let next = core.with_file_name("next-core");
    copy(core, &next)?;
    let manifest = next.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(
        &manifest,
        text.replacen("version = \"0.1", "version = \"9.1", 1),
    )?;
    let library = outside.join("library/Cargo.toml");
    let text = fs::read_to_string(&library)?;
    let path = next.display();
    fs::write(
        &library,
        format!("{text}shedlock-core = {{ path = \"{path}\" }}\n"),
    )?;
    let refused = cargo(&outside.join("service"), &["tree", "--quiet"]);
    Ok(match refused {
        Err(error) if format!("{error:#}").contains("links") => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("two cores are refused otherwise: {error:#}")),
        Ok(_) => Outcome::Failed("a program with two cores is not refused".into()),
    })
}

/// Packages the crates, and unpacks them below this folder.
fn unpacked(all: &[Package], folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let package = [
        "package",
        "--quiet",
        "--offline",
        "--no-verify",
        "--allow-dirty",
    ];
    let names = all.iter().map(|it| &*it.name);
    let (outside, inside): (Vec<_>, Vec<_>) = names.partition(|name| *name == sqlx08::CRATE);
    let inside = inside.into_iter().flat_map(|name| ["-p", name]);
    host::output(steps::cargo().args(package).args(inside))?;
    if !outside.is_empty() {
        // Its lock file would need the registry to have the others.
        let mut cargo = sqlx08::cargo(sqlx08::FOLDER);
        host::output(cargo.args(package).arg("--exclude-lockfile"))?;
    }
    let packed = steps::target_folder().join("package");
    fs::create_dir_all(folder)?;
    let unpack = |it: &Package| {
        let name = format!("{}-{}", it.name, it.version);
        let mut tar = std::process::Command::new("tar");
        tar.arg("-xzf").arg(packed.join(format!("{name}.crate")));
        host::output(tar.arg("-C").arg(folder))?;
        Ok((it.name.clone(), folder.join(name)))
    };
    all.iter().map(unpack).collect()
}

/// Makes Cargo take the unpacked crates for those of the registry.
fn patch(outside: &Path, crates: &[(String, PathBuf)]) -> anyhow::Result<()> {
    let mut text = "[patch.crates-io]\n".to_owned();
    for (name, path) in crates {
        text += &format!("{name} = {{ path = {path:?} }}\n");
    }
    let folder = outside.join(".cargo");
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("config.toml"), text)?)
}

/// What cargo says in this folder.
fn cargo(folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut cargo = steps::cargo();
    cargo.current_dir(folder).arg("--offline").args(args);
    host::output(cargo.env("CARGO_TARGET_DIR", steps::target_folder()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, needs: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency {
            name: (*name).to_owned(),
            kind: None,
        };
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            publish: None,
            dependencies: needs.iter().map(dependency).collect(),
        }
    }

    #[test]
    fn a_driver_of_another_line_than_the_core_is_refused() {
        let core = package(CORE, "0.2.1", &[]);
        let driver = package("driver", "0.1.9", &[CORE]);
        let all = [core, driver];
        assert_eq!(
            complaints(&all, &all),
            ["driver 0.1.9 names shedlock-core 0.2.1"]
        );
    }

    #[test]
    fn a_new_line_of_the_core_needs_all_that_name_it() {
        let of = |core: &str| {
            [
                package(CORE, core, &[]),
                package("driver", "0.2.0", &[CORE]),
            ]
        };
        let (new, later) = (of("0.2.0"), of("0.2.4"));
        assert_eq!(complaints(&new, &new[..1]).len(), 1);
        assert!(complaints(&new, &new).is_empty());
        assert!(complaints(&later, &later[..1]).is_empty());
    }

    #[test]
    fn a_crate_is_published_from_its_workspace_with_what_its_client_needs() {
        let command = |name| package(name, "0.1.0", &[]).command();
        assert_eq!(
            command(CORE),
            "cargo publish --package shedlock-core # 0.1.0"
        );
        let nats = "cargo publish --package shedlock-nats --features tls-ring # 0.1.0";
        assert_eq!(command(WITH_TLS[1]), nats);
        let outside = "cargo publish --package shedlock-sqlx08 \
                       --manifest-path stores/sqlx08/Cargo.toml # 0.1.0";
        assert_eq!(command(sqlx08::CRATE), outside);
    }

    #[test]
    fn the_published_crates_fit_each_other() {
        let all = published().expect("the manifests can be read");
        assert_eq!(complaints(&all, &all), [""; 0]);
        let names: Vec<_> = all.iter().map(|it| &*it.name).collect();
        let place = |name| names.iter().position(|it| *it == name);
        assert!(place(CORE) < place("shedlock-sql") && place("shedlock-sql") < place("shedlock"));
    }
}
