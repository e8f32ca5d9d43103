//! Programs that read the recipes of `docs/recipes.md`: their tests run them, and fail without them.

use crate::{debian, host};

/// Each program, and its `apt-get` package.
const READERS: [(&str, &str); 2] = [("cron", "cron"), ("systemd-analyze", "systemd")];

/// Installs those that are missing, if they can be installed.
pub(crate) fn install_readers(no_install: bool) {
    let missing: Vec<&str> = READERS
        .iter()
        .filter(|(program, _)| host::find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() || no_install || !debian::can_install() {
        return;
    }
    if let Err(error) = debian::install(&missing) {
        eprintln!("xtask: {error:#}");
    }
}
