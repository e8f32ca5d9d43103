//! A clock that is wrong, on each store that returns its own time: the command runs under libfaketime.

use shedlock::__stores::STORES;
use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;

use super::common::{Sandbox, done};
use super::{Report, report};

const LIBRARY: &str = "SHEDLOCK_TEST_FAKETIME";

/// `doctor` on a host whose clock is ahead by this much.
fn ahead(url: &str, by: &str) -> Report {
    let library = std::env::var(LIBRARY).unwrap_or_default();
    let exists = std::path::Path::new(&library).exists();
    assert!(
        exists,
        "{LIBRARY} does not name libfaketime: run `cargo xtask test`"
    );
    let sandbox = Sandbox::new();
    let mut command = sandbox.bare(&["doctor", "-o", "json", "--store", url]);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME", by)
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    report(&done(&mut command))
}

#[test]
fn no_wrong_clock_is_missed() {
    for name in ["postgres", "mariadb", "mysql", "redis", "valkey", "mongodb"] {
        let Some(server) = server_if_any(name) else {
            continue;
        };
        let scheme = server.split(':').next().unwrap();
        let entry = STORES.iter().find(|it| it.schemes.contains(&scheme));
        let url = entry.unwrap().url_of_place(&server, &unique("doctor"));
        let migrated =
            done(&mut Sandbox::new().bare(&["migrate", "--no-journal", "--store", &url]));
        assert_eq!(migrated.code, 0, "{migrated:?}");
        for (by, level, side) in [
            ("+30.5", "warning", "ahead of the store's"),
            ("-30.5", "warning", "behind the store's"),
            ("+7200.5", "error", "ahead of the store's"),
            ("-7200.5", "error", "behind the store's"),
        ] {
            let report = ahead(&url, by);
            let mut faults = report.findings.iter().filter(|it| it.check == "clock");
            let clock = faults.next().unwrap();
            assert_eq!(clock.level, level, "{name} {by}: {report:?}");
            assert!(clock.message.contains(side), "{name} {by}: {clock:?}");
            // The offset, with the round trip.
            let offset = if level == "warning" { " 30s " } else { " 2h " };
            assert!(clock.message.contains(offset), "{name} {by}: {clock:?}");
            assert!(clock.message.contains("give or take"), "{clock:?}");
            assert!(
                clock.remedy.as_ref().is_some_and(|it| it.contains("NTP")),
                "{clock:?}"
            );
            assert_eq!(report.code, i32::from(level == "error"), "{report:?}");
        }
    }
}
