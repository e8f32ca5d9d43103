//! The targets under libFuzzer, in one program, because each is linked with all clients of its crate.

use super::{Args, Target};
use crate::host;
use crate::steps::{self, Steps};
use anyhow::{Context as _, bail};
use shedlock_rig::engine::Servers;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exposes the targets (`cfg(fuzzing)`), and makes rustc count which edges are taken, and what is compared.
const COUNTERS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1";

/// The manifest of the program, to which the packages of its targets are added. It belongs to no workspace: all its
/// dependencies are compiled with counters in every branch, and libFuzzer itself by a C++ compiler.
const MANIFEST: &str = r#"[package]
name = "shedlock-fuzz-guided"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[profile.dev]
opt-level = 1
debug = "line-tables-only"

[dependencies]
libfuzzer-sys = "0.4"
"#;

/// The program, after the list of its targets. It runs the target that the environment names.
const MAIN: &str = r#"
static TARGET: std::sync::LazyLock<fn(&[u8])> = std::sync::LazyLock::new(|| {
    let wanted = std::env::var("SHEDLOCK_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| panic!("SHEDLOCK_FUZZ_TARGET is {wanted:?}, which was not built in"))
        .1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
"#;

/// Builds the program with libFuzzer linked in, and returns its path.
pub(super) fn build(
    steps: &mut Steps,
    host: &Servers,
    targets: &[Target],
) -> anyhow::Result<PathBuf> {
    let root = steps::workspace_root();
    let built = steps::target_folder().join("fuzz-guided");
    let folder = built.join("package");
    write(&folder, targets)?;
    // Fuzz the same dependency versions that the tests use.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("Cargo.lock cannot be copied")?;
    let version = host::output(Command::new("rustc").arg("-vV"))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    let triple = triple.context("cannot read the host target from `rustc -vV`")?;
    let mut command = steps::cargo();
    command
        .current_dir(&folder)
        // For a named machine, so that build scripts and macros are built without counters.
        .args(["build", "--target", triple, "--target-dir"])
        .arg(&built)
        .env("RUSTFLAGS", COUNTERS);
    if !steps.run("build", || steps::complete(host.run(), &mut command)) {
        bail!("the targets could not be built with libFuzzer");
    }
    Ok(built.join(triple).join("debug/shedlock-fuzz-guided"))
}

/// Writes the package of the program into this folder.
fn write(folder: &Path, targets: &[Target]) -> anyhow::Result<()> {
    let mut manifest = MANIFEST.to_owned();
    let mut main = "#![no_main]\n\nconst TARGETS: &[(&str, fn(&[u8]))] = &[\n".to_owned();
    let mut last = "";
    for target in targets {
        let package = &target.package;
        if last != package.name {
            last = &package.name;
            manifest += &format!(
                "shedlock-{last} = {{ path = {:?}, features = {:?} }}\n",
                package.folder, package.features
            );
        }
        let function = format!("shedlock_{last}::fuzz::{}", target.name);
        main += &format!("    ({:?}, {function}),\n", target.full_name());
    }
    main += "];\n";
    main += MAIN;
    let source = folder.join("src");
    fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
    fs::write(folder.join("Cargo.toml"), manifest).context("no manifest can be written")?;
    fs::write(source.join("main.rs"), main).context("no program can be written")
}

/// New inputs go to a separate folder. Inputs that break a promise go into the corpus.
pub(super) fn command(program: &Path, target: &Target, args: &Args) -> anyhow::Result<Command> {
    let found = program
        .with_file_name("corpus")
        .join(&target.package.name)
        .join(&target.name);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut command = Command::new(program);
    command
        .arg(&found)
        .arg(&target.corpus)
        .arg(format!("-max_total_time={}", args.minutes * 60))
        .arg(format!("-seed={}", args.seed))
        .arg(format!(
            "-artifact_prefix={}/found-",
            target.corpus.display()
        ))
        .args([
            "-max_len=4096",
            "-timeout=300",
            "-print_final_stats=1",
            "-verbosity=0",
        ])
        .env("SHEDLOCK_FUZZ_TARGET", target.full_name());
    Ok(command)
}
