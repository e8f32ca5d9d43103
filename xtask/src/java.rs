//! The Java side of the interop tests: real ShedLock, built by Maven.

use crate::host;
use crate::servers::RunDir;
use crate::servers::debian;
use crate::steps::{self, Outcome};
use anyhow::bail;
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Where the tests look for it.
pub(crate) const VARIABLE: &str = "SHEDLOCK_TEST_JAVA";

const PACKAGES: [&str; 2] = ["maven", "default-jdk-headless"];

/// The folder that it is built in.
pub(crate) fn folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| "target".into());
    // Where it is relative, cargo takes it from its current folder, which is the workspace's.
    steps::workspace_root().join(target).join("interop-java")
}

/// Builds it; what it is made of comes from Maven Central the first time.
pub(crate) fn build(run: &RunDir, no_install: bool) -> anyhow::Result<Outcome> {
    let is_there = || host::find_program("mvn").is_some() && host::find_program("javac").is_some();
    if !is_there() && !no_install && debian::can_install() {
        debian::install(&PACKAGES)?;
    }
    if !is_there() {
        bail!(
            "Maven and a JDK from version 17 on are needed to build the Java side: on Debian `{}`, \
             elsewhere install them so that `mvn` and `javac` are in PATH",
            debian::by_hand(&PACKAGES)
        );
    }
    let mut command = Command::new("mvn");
    command
        .args(["--quiet", "--batch-mode", "-Dstyle.color=never", "package"])
        .arg(format!("-Dinterop.target={}", folder().display()))
        .current_dir(steps::workspace_root().join("interop/java"));
    steps::complete(run, &mut command)
}
