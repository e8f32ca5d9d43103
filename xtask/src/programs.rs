//! What tests run: the languages of `docs/scripts.md`, the proxy of `docs/dashboard.md`, and shells that complete.

use crate::{debian, host};

/// Each program, and the name of its `apt-get` package.
const PROGRAMS: [(&str, &str); 6] = [
    ("python3", "python3"),
    ("node", "nodejs"),
    ("go", "golang-go"),
    ("nginx", "nginx-light"),
    ("zsh", "zsh"),
    ("fish", "fish"),
];

/// The packages of those that the tests will not find.
pub(crate) fn missing() -> Vec<&'static str> {
    let programs = PROGRAMS.iter();
    let missing = programs.filter(|(program, _)| host::find_program(program).is_none());
    missing.map(|(_, package)| *package).collect()
}

/// Fails, with instructions, if one of them is missing.
pub(crate) fn check() -> anyhow::Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "no {}, which tests need: on Debian `{}`",
        missing.join(", "),
        debian::by_hand(&missing)
    )
}
