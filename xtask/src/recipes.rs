//! Programs that read the recipes of `docs/recipes.md`: their tests run them, and fail without them.

use crate::{debian, host};
use std::process::Command;

/// Each program, and its `apt-get` package.
pub(crate) const CRONS: [(&str, &str); 2] = [("cron", "cron"), ("busybox", "busybox-static")];
const SYSTEMD: (&str, &str) = ("systemd-analyze", "systemd");

/// The packages of those that are missing.
pub(crate) fn missing(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    let missing = programs.iter().filter(|(program, _)| !is_there(program));
    missing.map(|(_, package)| *package).collect()
}

/// Debian has busybox without a cron, too.
fn is_there(program: &str) -> bool {
    let lists_cron = || {
        let applets = host::output(Command::new(program).arg("--list"));
        applets.is_ok_and(|applets| applets.lines().any(|applet| applet == "crond"))
    };
    host::find_program(program).is_some() && (program != "busybox" || lists_cron())
}

/// Installs those that are missing, if they can be installed.
pub(crate) fn install_readers(no_install: bool) {
    let missing = missing(&[&CRONS[..], &[SYSTEMD]].concat());
    if missing.is_empty() || no_install || !debian::can_install() {
        return;
    }
    if let Err(error) = debian::install(&missing) {
        eprintln!("xtask: {error:#}");
    }
}
