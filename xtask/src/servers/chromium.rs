//! Chromium and its driver, for the tests of the dashboard. They start both themselves.

use super::debian;
use crate::host;

/// The names of their `apt-get` packages, and of a font.
pub(super) const PACKAGES: [&str; 3] = ["chromium", "chromium-driver", "fonts-dejavu-core"];

/// Whether the tests will find both programs.
pub(super) fn is_there() -> bool {
    let mut programs = ["chromium", "chromedriver"].iter();
    programs.all(|program| host::find_program(program).is_some())
}

/// Fails, with instructions, if one of them is missing.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    anyhow::bail!(
        "no `chromium` or no `chromedriver`, which the tests of the dashboard need: on Debian `{}`, \
         elsewhere install Chromium and its driver so that both are in PATH",
        debian::by_hand(&PACKAGES)
    )
}
