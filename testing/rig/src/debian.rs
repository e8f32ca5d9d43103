//! Packages from Debian's registry, installed without starting their services.

use crate::{host, interrupt};
use anyhow::{Context as _, bail};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Package scripts run it before they start a service; 101 forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The contents that we write there. They distinguish a leftover of ours from a foreign file.
const OUR_POLICY: &str =
    "#!/bin/sh\n# put here by cargo xtask while it installs; safe to remove\nexit 101\n";

/// Whether we can install packages here.
pub fn can_install() -> bool {
    host::is_root() && host::is_debian_like()
}

/// The command that a user can install these packages with.
pub fn by_hand(packages: &[&str]) -> String {
    format!("apt-get install -y {}", packages.join(" "))
}

/// Installs these packages without starting their services.
pub fn install(packages: &[&str]) -> anyhow::Result<()> {
    eprintln!(
        "xtask: installing {} by apt-get (their own services are not started)",
        packages.join(", ")
    );
    interrupt::uncut(|| {
        let _policy = NoServices::enforce()?;
        if let Err(error) = apt_get(&["update"]) {
            // One broken source of many is no reason to give up: missing packages show up below.
            eprintln!("xtask: {error:#}");
        }
        let install = ["install", "-y", "--no-install-recommends"];
        apt_get(&[&install, packages].concat())
            .with_context(|| format!("try it by hand: {}", by_hand(packages)))
    })
}

/// Removes what a run left that was killed during an installation. Only for the holder of the
/// installation's lock.
pub fn clean_up() {
    let policy = Path::new(POLICY);
    if fs::read_to_string(policy).is_ok_and(|text| text == OUR_POLICY) {
        drop(NoServices { ours: true });
    }
}

fn apt_get(args: &[&str]) -> anyhow::Result<()> {
    host::output(
        Command::new("apt-get")
            .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
            .args(["-o", "Dpkg::Options::=--force-confdef"])
            .args(["-o", "Dpkg::Options::=--force-confold"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // In another group: a Ctrl-C of the terminal must not interrupt it.
            .process_group(0),
    )
    .map(drop)
}

/// While it lives, package scripts start no service.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn enforce() -> anyhow::Result<Self> {
        let policy = Path::new(POLICY);
        // A file that a killed run has left is taken over, so that it is removed at the end.
        if policy.exists() && fs::read_to_string(policy).is_ok_and(|text| text != OUR_POLICY) {
            if forbids(policy) {
                return Ok(Self { ours: false });
            }
            bail!(
                "{POLICY} lets packages start their services, which would start servers that you \
                 did not request: install the packages by hand"
            );
        }
        fs::write(policy, OUR_POLICY)
            .and_then(|()| fs::set_permissions(policy, executable()))
            .with_context(|| format!("{POLICY} could not be written"))?;
        Ok(Self { ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours && fs::remove_file(POLICY).is_err() {
            eprintln!("xtask: {POLICY} could not be removed; please remove it");
        }
    }
}

fn executable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o755)
}

fn forbids(policy: &Path) -> bool {
    let asked = Command::new(policy)
        .args(["shedlock-xtask", "start"])
        .stdin(Stdio::null())
        .output();
    asked.is_ok_and(|answer| answer.status.code() == Some(101))
}
