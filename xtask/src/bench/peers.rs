//! `cargo xtask bench --peers`: what is built for it in addition to our own program.

use crate::debian;
use crate::java::{self, Java};
use crate::servers::Store;
use crate::steps::{self, Outcome};
use anyhow::bail;
use shedlock_rig::engine::RunDir;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The stores on which there is something to compare with.
pub(super) const STORES: [Store; 3] = [Store::POSTGRES, Store::MARIADB, Store::REDIS];

/// Each contender has a connection for each of its 64 workers.
pub(super) const POSTGRES_SETTING: &str = "max_connections=900";

/// The same for MariaDB.
pub(super) const MARIADB_SETTING: &str = "--max-connections=900";

/// The packages that one of the other clients is built against.
const PACKAGES: [&str; 2] = ["libssl-dev", "pkg-config"];

/// Builds ShedLock and the other locks. Returns the variables that contain their paths for the
/// program.
pub(super) fn build(
    run: &RunDir,
    no_install: bool,
) -> anyhow::Result<[(&'static str, OsString); 2]> {
    if Java::Bench.build(run, no_install)? != Outcome::Passed {
        bail!("ShedLock could not be built");
    }
    if !has_openssl() && !no_install && debian::can_install() {
        debian::install(&PACKAGES)?;
    }
    let folder = java::target().join("bench-peers");
    let mut command = steps::cargo();
    command
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(&folder)
        .current_dir(steps::workspace_root().join("testing/bench/peers"));
    if steps::complete(run, &mut command)? != Outcome::Passed {
        bail!(
            "the other locks could not be built; one of them needs OpenSSL: on Debian `{}`",
            debian::by_hand(&PACKAGES)
        );
    }
    Ok([
        ("SHEDLOCK_BENCH_JAVA", Java::Bench.folder().into()),
        (
            "SHEDLOCK_BENCH_PEERS",
            folder.join("release/shedlock-bench-peers").into(),
        ),
    ])
}

fn has_openssl() -> bool {
    Command::new("pkg-config")
        .args(["--exists", "openssl"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
