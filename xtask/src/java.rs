//! The Java sides of the interop tests and the benchmark: real ShedLock, built with Maven.

use crate::steps::{self, Outcome};
use crate::{debian, host};
use anyhow::{Context as _, bail};
use shedlock_rig::engine::RunDir;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The variables that contain the paths of the builds for the tests.
pub(crate) const VARIABLES: [(&str, Java); 2] = [
    ("SHEDLOCK_TEST_JAVA", Java::Interop),
    ("SHEDLOCK_TEST_SPRING", Java::Spring),
];

/// A Maven project in this workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Java {
    /// `testing/interop/java`.
    Interop,
    /// `testing/interop/spring`.
    Spring,
    /// `testing/bench/java`.
    Bench,
}

const PACKAGES: [&str; 2] = ["maven", "default-jdk-headless"];

impl Java {
    /// The folder that it is built in.
    pub(crate) fn folder(self) -> PathBuf {
        let name = match self {
            Self::Interop => "interop-java",
            Self::Spring => "interop-spring",
            Self::Bench => "bench-java",
        };
        target().join(name)
    }

    /// Builds it. The first time, its dependencies are downloaded from Maven Central.
    pub(crate) fn build(self, run: &RunDir, no_install: bool) -> anyhow::Result<Outcome> {
        let is_there =
            || host::find_program("mvn").is_some() && host::find_program("javac").is_some();
        if !is_there() && !no_install && debian::can_install() {
            debian::install(&PACKAGES)?;
        }
        if !is_there() {
            bail!(
                "Maven and JDK 17 or later are needed to build the Java side: on Debian `{}`, \
                 elsewhere install them so that `mvn` and `javac` are in PATH",
                debian::by_hand(&PACKAGES)
            );
        }
        let (source, property) = match self {
            Self::Interop => ("testing/interop/java", "interop.target"),
            Self::Spring => ("testing/interop/spring", "interop.target"),
            Self::Bench => ("testing/bench/java", "bench.target"),
        };
        // A library of an older release would stay next to its replacement.
        let libraries = self.folder().join("lib");
        if libraries.exists() {
            fs::remove_dir_all(&libraries)
                .with_context(|| format!("{} could not be cleared", libraries.display()))?;
        }
        let mut command = Command::new("mvn");
        command
            .args(["--quiet", "--batch-mode", "-Dstyle.color=never", "package"])
            .arg(format!("-D{property}={}", self.folder().display()))
            .current_dir(steps::workspace_root().join(source));
        steps::complete(run, &mut command)
    }
}

/// The folder in which everything is built.
pub(crate) fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    // Cargo resolves a relative path from its current folder, which is the workspace's.
    steps::workspace_root().join(target.unwrap_or_else(|| "target".into()))
}
