//! Real ShedLock over the same tables.

use std::process::Command;

use shedlock_torture::shedlock_jvm;

/// ShedLock's connection timeout in milliseconds.
const PATIENCE: &str = "4000";

/// A ShedLock process in db-time mode with this host as its owner. It reaches the server and database of our URL by
/// JDBC with these parameters.
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
        // Its log would be full of expected faults.
        ("org.slf4j.simpleLogger.defaultLogLevel", "off"),
    ];
    shedlock_jvm(&properties, &["jdbc-template", &jdbc, "db"])
}
