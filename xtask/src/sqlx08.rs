//! `cargo xtask sqlx08`: `shedlock-sqlx08` is `shedlock-sqlx` over sqlx 0.8. Its modules are copies of ours but for one,
//! and it has a workspace of its own, as has the application on sea-orm 2. No command for the main workspace sees them.

use crate::executables::{self, Executable};
use crate::host;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, ensure};
use shedlock_rig::engine::RunDir;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The crate.
pub(crate) const CRATE: &str = "shedlock-sqlx08";

/// The folder of the crate, and of its workspace.
pub(crate) const FOLDER: &str = "stores/sqlx08";

/// The folders of the workspaces with published crates.
pub(crate) const PUBLISHED: [&str; 2] = ["", FOLDER];

/// The workspaces, and the features that their tests need. With `tls-aws-lc` beside `tls-ring`, sqlx uses `ring`.
const WORKSPACES: [(&str, &str); 2] = [
    (FOLDER, "mysql,postgres,tls-ring"),
    ("testing/adoption/sea-orm2", ""),
];

/// The modules that are copies.
const COPIES: [&str; 3] = ["execution.rs", "mysql.rs", "postgres.rs"];

/// Binds the C library of SQLite. Cargo allows one version of it in a program.
const BINDING: &str = "libsqlite3-sys";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the modules instead of comparing them, and add to the lock files what our crates need by now.
    #[arg(long)]
    update: bool,
}

/// Writes or compares the modules.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.update {
        for (file, text) in copies()? {
            fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
        for (folder, _) in WORKSPACES {
            host::output(cargo(folder).args(["update", "--quiet", "--workspace"]))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let differing = differing()?;
    print!("{}", differing.join("\n"));
    Ok(match differing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The files of the copies, and what they should contain.
fn copies() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let root = steps::workspace_root();
    let copy = |name: &&str| {
        let source = root.join("stores/sqlx/src").join(name);
        let text = fs::read_to_string(&source);
        let text = text.with_context(|| source.display().to_string())?;
        Ok((
            root.join(FOLDER).join("src").join(name),
            copy_of(name, &text),
        ))
    };
    COPIES.iter().map(copy).collect()
}

fn copy_of(name: &str, text: &str) -> String {
    let text = text.replace("shedlock_sqlx", "shedlock_sqlx08");
    format!("// A copy of stores/sqlx/src/{name}, made by `cargo xtask sqlx08 --update`.\n{text}")
}

/// The copies that are not up to date, with the lines that differ.
fn differing() -> anyhow::Result<Vec<String>> {
    let mut differing = Vec::new();
    for (file, expected) in copies()? {
        let found = fs::read_to_string(&file).unwrap_or_default();
        if found != expected {
            let lines = steps::differences(&found, &expected);
            let file = file.display();
            differing.push(format!(
                "{file} (run `cargo xtask sqlx08 --update`):\n{lines}"
            ));
        }
    }
    Ok(differing)
}

/// Checks the copies, the lock file and the code of both workspaces, and the examples of the documentation.
pub(crate) fn check(run: &RunDir) -> anyhow::Result<Outcome> {
    let differing = differing()?;
    if !differing.is_empty() {
        return Ok(Outcome::Failed(differing.join("\n")));
    }
    let lock = steps::workspace_root().join(FOLDER).join("Cargo.lock");
    let lock = fs::read_to_string(lock).context("the lock file cannot be read")?;
    ensure!(!binds(&lock), "{FOLDER}/Cargo.lock contains {BINDING}");
    for (folder, features) in WORKSPACES {
        let features = ["--features", features];
        let clippy = [
            &["clippy", "--all-targets", "--locked"],
            &features[..],
            &["--", "-D", "warnings"],
        ];
        let mut commands = vec![vec!["fmt", "--check"], clippy.concat()];
        if folder == FOLDER {
            commands.push([&["test", "--doc"], &features[..]].concat());
        }
        for arguments in commands {
            let outcome = steps::complete(run, cargo(folder).args(&arguments))?;
            if outcome != Outcome::Passed {
                return Ok(Outcome::Failed(format!(
                    "cargo {} in {folder}",
                    arguments[0]
                )));
            }
        }
    }
    Ok(Outcome::Passed)
}

/// Whether a lock file ties the program to one version of the C library of SQLite.
fn binds(lock: &str) -> bool {
    lock.lines()
        .any(|line| line == format!("name = \"{BINDING}\""))
}

/// Builds the tests of both workspaces.
pub(crate) fn tests(run: &RunDir) -> anyhow::Result<Result<Vec<Executable>, Outcome>> {
    let mut built = Vec::new();
    for (folder, features) in WORKSPACES {
        let mut build = cargo(folder);
        build.args(["test", "--lib", "--tests", "--features", features]);
        match executables::build(run, &mut build)? {
            Ok(executables) => built.extend(executables.into_iter().map(|(it, _)| it)),
            Err(outcome) => return Ok(Err(outcome)),
        }
    }
    Ok(Ok(built))
}

/// Cargo in one of the workspaces. It builds into the folder of the main one, so that dependencies are built once.
pub(crate) fn cargo(folder: &str) -> Command {
    let mut cargo = steps::cargo();
    cargo.current_dir(steps::workspace_root().join(folder));
    cargo.env("CARGO_TARGET_DIR", steps::target_folder());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_are_up_to_date() {
        assert_eq!(differing().unwrap(), [""; 0]);
    }

    #[test]
    fn a_copy_names_its_own_crate_in_examples() {
        let copied = copy_of("mysql.rs", "//! MySQL.\nuse shedlock_sqlx::MySql;\n");
        let says = "// A copy of stores/sqlx/src/mysql.rs, made by `cargo xtask sqlx08 --update`.\n\
             //! MySQL.\nuse shedlock_sqlx08::MySql;\n";
        assert_eq!(copied, says);
    }

    /// Then a program with this crate can have any version of rusqlite, or sqlx 0.9 with SQLite.
    #[test]
    fn the_lock_file_has_no_sqlite() {
        let lock = |folder: &str| {
            let file = steps::workspace_root().join(folder).join("Cargo.lock");
            fs::read_to_string(file).unwrap()
        };
        assert!(!binds(&lock(FOLDER)));
        assert!(binds(&lock("")), "this test cannot see it");
    }
}
