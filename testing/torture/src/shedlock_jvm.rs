//! Starts real ShedLock.

use std::path::PathBuf;
use std::process::Command;

/// The environment variable with the folder in which `testing/interop/java` was built;
/// `cargo xtask` sets it.
const FOLDER: &str = "SHEDLOCK_TEST_JAVA";

/// Returns a command that starts a process of real ShedLock (`testing/interop/java` in the
/// repository of shedlock) with these system properties and arguments; `None` if it is not known to
/// be built.
pub fn shedlock_jvm(properties: &[(&str, &str)], arguments: &[&str]) -> Option<Command> {
    let folder = PathBuf::from(std::env::var_os(FOLDER)?);
    let path = std::env::join_paths([folder.join("interop.jar"), folder.join("lib/*")]).ok()?;
    let mut command = Command::new("java");
    // Many of them are started, each for a short time.
    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    for (name, value) in properties {
        command.arg(format!("-D{name}={value}"));
    }
    command.arg("-cp").arg(path).arg("shedlock.interop.Main");
    command.args(arguments);
    Some(command)
}
