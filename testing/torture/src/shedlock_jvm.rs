//! Starts real ShedLock.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The environment variables with the folders in which `testing/interop/java` and `testing/interop/spring` were built;
/// `cargo xtask` sets them.
const FOLDER: &str = "SHEDLOCK_TEST_JAVA";
const SPRING_FOLDER: &str = "SHEDLOCK_TEST_SPRING";

/// Returns a command that starts a process of real ShedLock (`testing/interop/java` in the
/// repository of shedlock) with these system properties and arguments; `None` if it is not known to
/// be built.
pub fn shedlock_jvm(properties: &[(&str, &str)], arguments: &[&str]) -> Option<Command> {
    let mut command = jvm(FOLDER, "interop.jar")?;
    for (name, value) in properties {
        command.arg(format!("-D{name}={value}"));
    }
    command.arg("shedlock.interop.Main").args(arguments);
    Some(command)
}

/// The same for the application with Spring Boot (`testing/interop/spring`).
pub fn spring_jvm(arguments: &[impl AsRef<OsStr>]) -> Option<Command> {
    let mut command = jvm(SPRING_FOLDER, "spring.jar")?;
    command.arg("shedlock.spring.Application").args(arguments);
    Some(command)
}

fn jvm(folder: &str, jar: &str) -> Option<Command> {
    let folder = PathBuf::from(std::env::var_os(folder)?);
    let path = std::env::join_paths([folder.join(jar), folder.join("lib/*")]).ok()?;
    let mut command = Command::new("java");
    // Many of them are started, each for a short time.
    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    command.arg("-cp").arg(path);
    Some(command)
}
