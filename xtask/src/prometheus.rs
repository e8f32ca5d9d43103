//! Prometheus and promtool, for the tests of the alert rules. They start it themselves.

use crate::{debian, host};

/// The name of its `apt-get` package, which has both programs. Its service is not started.
pub(crate) const PACKAGES: [&str; 1] = ["prometheus"];

/// Whether the tests will find both programs.
pub(crate) fn is_there() -> bool {
    let mut programs = ["prometheus", "promtool"].iter();
    programs.all(|program| host::find_program(program).is_some())
}

/// Fails, with instructions, if one of them is missing.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    anyhow::bail!(
        "no `prometheus` or no `promtool`, which the tests of the alert rules need: on Debian `{}`, \
         elsewhere install Prometheus 2.42 or later so that both are in PATH",
        debian::by_hand(&PACKAGES)
    )
}
