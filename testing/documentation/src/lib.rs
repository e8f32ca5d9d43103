//! The pages outside the crates' own documentation. Their Rust blocks are compiled like examples in rustdoc.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/decisions/0012-scheduled.md")]
mod decision_12 {}

use shedlock_rig::given;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The root of the repository.
#[must_use]
pub fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder)
}

/// Cargo in the checkout. A plain `cargo test` builds nothing a second time: it leaves out what needs this.
#[must_use]
pub fn cargo() -> Command {
    given::needs("the command as users build it");
    in_checkout(env!("CARGO"))
}

/// A program in the checkout, without the variables that cargo has set for this test: some build scripts run again
/// when they change. What cargo builds goes to a folder of its own: built with other features, it would replace the
/// programs that other tests run meanwhile.
#[must_use]
pub fn in_checkout(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("CARGO_TARGET_DIR", target());
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command.current_dir(root());
    command
}

/// Where [`in_checkout`] builds.
fn target() -> PathBuf {
    // Tests are in `debug/deps` of their own target folder.
    let test = std::env::current_exe().unwrap_or_default();
    let shared = test.ancestors().nth(3).unwrap_or(&test);
    shared.join("tmp").join("checkout")
}

/// Runs this command, which must succeed, and returns its output.
///
/// # Panics
/// If it fails.
pub fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The command `shedlock`, built once.
///
/// # Panics
/// If it cannot be built.
pub fn shedlock() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        succeed(cargo().args(["build", "--quiet", "--package", "shedlock-cli"]));
        target().join("debug").join("shedlock")
    })
}
