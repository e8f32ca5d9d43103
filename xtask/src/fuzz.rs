//! `cargo xtask fuzz`: what reads foreign bytes, tried for as long as it is asked for.

use crate::host;
use crate::servers::{Profile, Servers};
use crate::steps::{self, Steps};
use anyhow::{Context as _, bail};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long each target is tried.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Only this target, as `redis/url`, or all of a package, as `redis`; can be repeated.
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    /// Chooses as an earlier run did, which told its seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// By libFuzzer, which sees what each input reaches: needs a C++ compiler, and builds the clients
    /// again. The command and the attributes, which are no libraries, cannot be tried so.
    #[arg(long)]
    guided: bool,
}

/// The folders of the packages that have targets, and whether libFuzzer can have them.
const PACKAGES: [(&str, &str, bool); 13] = [
    ("core", "crates/core", true),
    ("scheduler", "crates/scheduler", true),
    ("macros", "crates/macros", false),
    ("shedlock", "crates/shedlock", false),
    ("cli", "crates/cli", false),
    ("cas", "stores/common", true),
    ("consul", "stores/consul", true),
    ("etcd", "stores/etcd", true),
    ("mongodb", "stores/mongodb", true),
    ("nats", "stores/nats", true),
    ("redis", "stores/redis", true),
    ("sql", "stores/sql", true),
    ("zookeeper", "stores/zookeeper", true),
];

/// Shows the targets (`cfg(fuzzing)`), and makes rustc count which edges are taken, and compare with what.
const COUNTERS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1";

/// A target: its corpus is a folder of its package.
struct Target {
    package: &'static str,
    name: String,
    corpus: PathBuf,
}

/// Tries each of them.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let targets = targets(args)?;
    // The folder and guard of the run.
    let host = Servers::start(&[], &Profile::default())?;
    let mut steps = Steps::new();
    let program = if args.guided {
        Some(build_guided(&mut steps, &host, &targets)?)
    } else {
        None
    };
    for target in &targets {
        let name = format!("{}/{}", target.package, target.name);
        let mut command = match &program {
            Some(program) => guided(program, target, args)?,
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

/// The targets that were asked for: each folder of a corpus is one.
fn targets(args: &Args) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    for (package, folder, has_library) in PACKAGES {
        let corpora = steps::workspace_root().join(folder).join("tests/corpus");
        let entries = fs::read_dir(&corpora)
            .with_context(|| format!("{} cannot be read", corpora.display()))?;
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            let is_asked = args.targets.is_empty()
                || args
                    .targets
                    .iter()
                    .any(|it| *it == package || *it == format!("{package}/{name}"));
            if is_asked && (has_library || !args.guided) {
                targets.push(Target {
                    package,
                    corpus: corpora.join(&name),
                    name,
                });
            }
        }
    }
    if targets.is_empty() {
        bail!("there is no such target: each folder in tests/corpus of a package is one");
    }
    Ok(targets)
}

/// The test of the target, for longer than in the tests.
fn mutated(target: &Target, args: &Args) -> Command {
    let package = match target.package {
        "shedlock" => "shedlock".to_owned(),
        other => format!("shedlock-{other}"),
    };
    let kind = match target.package {
        "cli" => "--bins",
        _ => "--lib",
    };
    let mut command = steps::cargo();
    command
        .args(["test", "--quiet", "--all-features", "-p", &package, kind])
        .args(["--", "--exact", "--nocapture"])
        .arg(format!("fuzz::tests::{}", target.name))
        .env("SHEDLOCK_FUZZ_SECONDS", (args.minutes * 60).to_string())
        .env("SHEDLOCK_FUZZ_SEED", args.seed.to_string());
    command
}

/// Builds the program with libFuzzer in it; where it is.
fn build_guided(steps: &mut Steps, host: &Servers, targets: &[Target]) -> anyhow::Result<PathBuf> {
    let root = steps::workspace_root();
    let folder = root.join("testing/fuzz/guided");
    // The versions that are tested are those that are tried.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("Cargo.lock cannot be copied")?;
    let mut packages: Vec<_> = targets.iter().map(|target| target.package).collect();
    packages.dedup();
    let version = host::output(Command::new("rustc").arg("-vV"))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    let triple = triple.context("rustc does not tell what it compiles for")?;
    let built = target_folder(&root).join("fuzz-guided");
    let mut command = steps::cargo();
    command
        .current_dir(&folder)
        // For a named machine, so that build scripts and macros are spared the counters.
        .args(["build", "--target", triple, "--features"])
        .arg(packages.join(","))
        .arg("--target-dir")
        .arg(&built)
        .env("RUSTFLAGS", COUNTERS);
    if !steps.run("build", || steps::complete(host.run(), &mut command)) {
        bail!("the targets could not be built with libFuzzer");
    }
    Ok(built.join(triple).join("debug/shedlock-fuzz-guided"))
}

fn target_folder(root: &std::path::Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| root.join("target"))
}

/// What is new goes to a folder of its own; what breaks a promise, into the corpus.
fn guided(program: &std::path::Path, target: &Target, args: &Args) -> anyhow::Result<Command> {
    let found = program
        .with_file_name("corpus")
        .join(target.package)
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
        .env(
            "SHEDLOCK_FUZZ_TARGET",
            format!("{}/{}", target.package, target.name),
        );
    Ok(command)
}
