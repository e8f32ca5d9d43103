//! A cron that is real, with a crontab and files of its own.

use crate::Running;
use anyhow::Context as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The one of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cron {
    /// That of Debian, which reads variables in a crontab.
    Debian,
    /// That of busybox, and of Alpine, which does not.
    Busybox,
}

/// The folder of the crontabs, in that of the host.
const CRONTABS: &str = "crontabs";

impl Cron {
    /// Replaces the crontab of root on the host of this folder. A cron that runs notices it within a minute.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn install(self, host: &Path, crontab: &str) -> anyhow::Result<()> {
        let folder = host.join(CRONTABS);
        let new = host.join("crontab");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&new, crontab))
            // Cron refuses one that others can write.
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o600)))
            .and_then(|()| fs::rename(&new, folder.join("root")))
            .context("a crontab could not be written")?;
        if self == Self::Busybox {
            // The file that `crontab` of busybox writes, and its cron looks for each minute.
            fs::write(folder.join("cron.update"), "root\n")?;
        }
        Ok(())
    }

    /// Starts it, in a mount namespace in which each of these folders of the host takes the place of one of the machine.
    /// Needs root.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        self,
        host: &Path,
        mounts: &[(&str, &str)],
        errors: Stdio,
    ) -> anyhow::Result<Running> {
        Running::start(self.command(host, mounts).stderr(errors))
    }

    /// The command that starts it so, for settings of its own.
    #[must_use]
    pub fn command(self, host: &Path, mounts: &[(&str, &str)]) -> Command {
        let mounts = mounts.iter().map(|(here, there)| {
            format!("mkdir -p {there} && mount --bind \"$0/{here}\" {there} && ")
        });
        let daemon = match self {
            Self::Debian => format!(
                "mkdir -p /var/spool/cron/crontabs /etc/cron.d && touch /etc/crontab \
                 && mount --bind \"$0/{CRONTABS}\" /var/spool/cron/crontabs && mount -t tmpfs none /etc/cron.d \
                 && mount --bind /dev/null /etc/crontab && mount -t tmpfs none /run && exec cron -f"
            ),
            Self::Busybox => format!("exec busybox crond -f -c \"$0/{CRONTABS}\""),
        };
        let script = mounts.collect::<String>() + &daemon;
        let mut cron = Command::new("unshare");
        cron.args(["--mount", "sh", "-c", &script]).arg(host);
        cron.stdin(Stdio::null()).stdout(Stdio::null());
        cron
    }
}
