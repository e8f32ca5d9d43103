//! Real ShedLock over the same tables.

use std::process::Command;

use shedlock_torture::shedlock_jvm;

/// How long it waits for a connection, in milliseconds.
const PATIENCE: &str = "4000";

/// A process of ShedLock's in db-time mode that writes this host as its owner, and reaches the server and
/// database of this URL of ours by JDBC with these parameters.
pub(crate) fn shedlock(host: &str, scheme: &str, url: &str, parameters: &str) -> Option<Command> {
    let url = url::Url::parse(url).ok()?;
    let (server, port, database) = (url.host_str()?, url.port()?, url.path());
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    let jdbc = format!(
        "jdbc:{scheme}://{server}:{port}{database}?user={user}&password={password}&{parameters}"
    );
    let properties = [
        ("user.timezone", "Asia/Kolkata"),
        ("interop.host", host),
        ("interop.patience", PATIENCE),
        // Faults are what it is there for.
        ("org.slf4j.simpleLogger.defaultLogLevel", "off"),
    ];
    shedlock_jvm(&properties, &["jdbc-template", &jdbc, "db"])
}
