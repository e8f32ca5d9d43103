//! A system whose database of time zones lacks some. A process reads it once, so this test starts itself again.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

use shedlock_scheduler::Schedule;

/// Set for the process that has this database.
const INSIDE: &str = "SHEDLOCK_TEST_ZONES";

/// The only zone of the database: a file in the format TZif with one offset, that of UTC.
fn only_zone() -> Vec<u8> {
    let mut file = b"TZif".to_vec();
    file.extend([0; 16]);
    for count in [0_u32, 0, 0, 0, 1, 4] {
        file.extend(count.to_be_bytes());
    }
    file.extend([0; 6]);
    file.extend(b"UTC\0");
    file
}

#[test]
fn a_zone_that_the_system_lacks_is_the_one_that_was_compiled_in() {
    if std::env::var_os(INSIDE).is_some() {
        let in_zone = |name| Schedule::cron_in("30 2 * * *", name);
        // It is the database of the system that is read.
        assert!(in_zone("Only/Here").is_ok());
        assert!(in_zone("US/Eastern").is_ok());
        let unknown = in_zone("Mars/Olympus").unwrap_err().to_string();
        assert!(unknown.contains("unknown time zone"), "{unknown}");
        return;
    }
    let database = tempfile::tempdir().unwrap();
    std::fs::create_dir(database.path().join("Only")).unwrap();
    std::fs::write(database.path().join("Only/Here"), only_zone()).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([
        "--exact",
        "a_zone_that_the_system_lacks_is_the_one_that_was_compiled_in",
    ]);
    let ended = again
        .arg("--nocapture")
        .env(INSIDE, "1")
        .env("TZDIR", database.path())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}
