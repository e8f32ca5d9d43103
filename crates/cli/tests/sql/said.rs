//! Warnings about the settings of a server, which a job that starts each minute does not repeat each minute.

use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;

use super::common::{Sandbox, done};

#[test]
fn a_warning_that_was_given_is_not_given_at_each_start() {
    const WARNS: &str = "the server runs with fsync=off";
    if server_if_any("postgres").is_none() {
        return;
    }
    let [first, second] = [(); 2].map(|()| OwnServer::start("postgres", &["-cfsync=off"]).unwrap());
    let sandbox = Sandbox::new();
    let said_in = |sandbox: &Sandbox, store: &str, arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        let ended = done(command.env("SHEDLOCK_STORE", store));
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stderr
    };
    let said = |server: &OwnServer, arguments: &[&str]| said_in(&sandbox, server.url(), arguments);
    for _ in 0..2 {
        let migrate = said(&first, &["migrate"]);
        assert!(migrate.contains(WARNS), "{migrate}");
        assert!(!migrate.contains("said once"), "{migrate}");
    }
    let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
    let quiet = [&["run", "-q"], &run[1..]].concat();
    assert_eq!(said(&first, &quiet), "");
    // What was hidden was not said.
    let once = said(&first, &run);
    assert!(
        once.contains(WARNS) && once.contains("(said once in 30 days"),
        "{once}"
    );
    for arguments in [&run[..], &["list"], &["jobs"], &["metrics"]] {
        assert_eq!(said(&first, arguments), "", "{arguments:?}");
    }
    let verbose = said(&first, &["list", "-v"]);
    assert!(verbose.contains(WARNS), "{verbose}");
    // Another server, another user.
    let _ = said(&second, &["migrate"]);
    let other = said(&second, &run);
    assert!(other.contains(WARNS), "{other}");
    let other = said_in(&Sandbox::new(), first.url(), &run);
    assert!(other.contains(WARNS), "{other}");
}
