//! A slot is not used up where the command never ran, nor given up for shutdowns.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::common::{Sandbox, done, end, pause, signal};

const DAILY: [&str; 2] = ["--every", "1d"];
const NOT_LOST: [&str; 5] = ["--every", "1d", "--must-not-be-lost", "--max-attempts", "1"];
const BOTH: [&[&str]; 2] = [&DAILY, &NOT_LOST];
const ATTEMPT: &str = "echo ran ${SHEDLOCK_SLOT_ATTEMPT-once}";

fn run(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    sandbox.run_with("a", "60s", options, script)
}

/// The slot can still be run, as if nothing had been.
fn is_open(sandbox: &Sandbox, options: &[&str]) {
    let ran = done(&mut run(sandbox, options, ATTEMPT));
    let said = if options == DAILY {
        "ran once\n"
    } else {
        "ran 1\n"
    };
    assert_eq!((ran.code, ran.stdout.as_str()), (0, said), "{}", ran.stderr);
    let again = done(&mut run(sandbox, options, ATTEMPT));
    assert_eq!((again.code, again.stdout.as_str()), (0, ""));
}

#[test]
fn five_terms_in_a_row_do_not_give_the_slot_up() {
    let sandbox = Sandbox::new();
    for lines in 1..=5 {
        let script = "echo x >> started; exec sleep 60";
        let told = run(&sandbox, &NOT_LOST, script).spawn().unwrap();
        sandbox.await_lines("started", lines);
        signal(told.id(), Signal::TERM);
        let ended = end(told);
        assert_eq!(ended.code, 143, "{}", ended.stderr);
    }
    is_open(&sandbox, &NOT_LOST);
}

/// SQLite does not answer while another process writes. The lock is granted after the TERM.
#[test]
fn a_term_while_the_lock_is_asked_for_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
        let busy = Writer::begin(&sandbox);
        let told = run(&sandbox, options, "echo ran").spawn().unwrap();
        pause(Duration::from_millis(700));
        signal(told.id(), Signal::TERM);
        pause(Duration::from_millis(100));
        busy.end();
        let ended = end(told);
        assert_eq!((ended.code, ended.stdout.as_str()), (143, ""));
        is_open(&sandbox, options);
    }
}

#[test]
fn a_term_while_the_lock_is_waited_for_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        let script = "echo x > started; until test -e go; do sleep 0.05; done";
        let holder = sandbox.run("a", "60s", script).spawn().unwrap();
        sandbox.await_lines("started", 1);
        let waits = [options, &["--lock-wait", "1h"]].concat();
        let told = run(&sandbox, &waits, "echo ran").spawn().unwrap();
        pause(Duration::from_millis(500));
        signal(told.id(), Signal::TERM);
        let ended = end(told);
        assert_eq!((ended.code, ended.stdout.as_str()), (143, ""));
        std::fs::write(sandbox.path("go"), "").unwrap();
        assert_eq!(end(holder).code, 0);
        is_open(&sandbox, options);
    }
}

#[test]
fn a_missing_interpreter_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        std::fs::write(sandbox.path("script"), "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(sandbox.path("script"), PermissionsExt::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            let mut command = sandbox.shedlock(&["run", "-n", "a", "--lock-at-most-for", "60s"]);
            // At-least is for tasks that ran.
            command.args(["--lock-at-least-for", "50s"]);
            let missing = done(command.args(options).args(["--", "./script"]));
            assert_eq!(missing.code, 127, "{}", missing.stderr);
        }
        is_open(&sandbox, options);
    }
}

/// Another host made the last attempt while this one waited.
#[test]
fn a_slot_that_another_host_gave_up_is_no_success() {
    let sandbox = Sandbox::new();
    let script = "echo x > started; until test -e go; do sleep 0.05; done; exit 7";
    let last = run(&sandbox, &NOT_LOST, script).spawn().unwrap();
    sandbox.await_lines("started", 1);
    let waits = [&NOT_LOST[..], &["--lock-wait", "1h"]].concat();
    let waiting = run(&sandbox, &waits, "echo ran").spawn().unwrap();
    pause(Duration::from_millis(300));
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(last).code, 7);
    let ended = end(waiting);
    assert_eq!((ended.code, ended.stdout.as_str()), (76, ""));
    assert!(ended.stderr.contains("given up"), "{}", ended.stderr);
}

/// A process that writes to the store of a sandbox.
struct Writer(tokio::runtime::Runtime, sqlx::SqliteConnection);

impl Writer {
    fn begin(sandbox: &Sandbox) -> Self {
        use sqlx::Connection as _;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let connection = runtime.block_on(async {
            let path = sandbox.store();
            let mut connection = sqlx::SqliteConnection::connect(&path).await.unwrap();
            let begin = sqlx::query("BEGIN IMMEDIATE");
            begin.execute(&mut connection).await.unwrap();
            connection
        });
        Self(runtime, connection)
    }

    fn end(mut self) {
        let rollback = sqlx::query("ROLLBACK").execute(&mut self.1);
        self.0.block_on(rollback).unwrap();
    }
}
