//! The languages of `docs/scripts.md`, whose functions a test runs.

use crate::{debian, host};

/// What runs each of them, and the name of its `apt-get` package.
const PROGRAMS: [(&str, &str); 3] = [
    ("python3", "python3"),
    ("node", "nodejs"),
    ("go", "golang-go"),
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
        "no {}, which the test of docs/scripts.md needs: on Debian `{}`",
        missing.join(", "),
        debian::by_hand(&missing)
    )
}
