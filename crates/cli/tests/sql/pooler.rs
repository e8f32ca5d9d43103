//! PgBouncer in transaction pooling.

use std::process::Child;

use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;

use super::common::{Done, Sandbox, done};

fn ran(sandbox: &Sandbox, store: &str, arguments: &[&str]) -> Done {
    done(&mut sandbox.bare(&[&["run", "--store", store], arguments].concat()))
}

/// Each process numbers its prepared statements from 1, and PgBouncer hands the same session to one after the other.
#[test]
fn commands_behind_pgbouncer_need_no_option() {
    let Some(bouncer) = server_if_any("pgbouncer") else {
        // xtask, which looked for it, has reported this.
        return;
    };
    let sandbox = Sandbox::new();
    let store = format!("{bouncer}?table={}", unique("bounced"));
    let migrated = done(&mut sandbox.bare(&["migrate", "--store", &store]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let job = ["--name", "job", "--lock-at-most-for", "1m", "--", "true"];
    for _ in 0..2 {
        let run = ran(&sandbox, &store, &job);
        assert_eq!((run.code, &*run.stderr), (0, ""));
    }
    let at_once = |name: String| -> Child {
        let arguments = ["run", "--store", &store, "--name", &name];
        let rest = ["--keep-alive", "--lock-at-most-for", "1m", "--", "true"];
        let mut command = sandbox.bare(&arguments);
        command.args(rest).spawn().unwrap()
    };
    let children: Vec<_> = (0..6)
        .map(|child| at_once(format!("job-{child}")))
        .collect();
    for child in children {
        let run = Done::from(child.wait_with_output().unwrap());
        assert_eq!((run.code, &*run.stderr), (0, ""));
    }
    let history = done(&mut sandbox.bare(&["history", "job", "--store", &store]));
    assert_eq!(history.code, 0, "{}", history.stderr);
    // With -v the log says why statements are not prepared.
    let run = ran(&sandbox, &store, &[&["-v"], &job[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("connection pooler"), "{}", run.stderr);
}
