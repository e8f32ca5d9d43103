//! A slot is not used up if the command never ran, nor given up because of shutdowns.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::Signal;

use super::common::{Done, Sandbox, await_said, done, end, eventually, pause, signal};

const DAILY: [&str; 2] = ["--every", "1d"];
const NOT_LOST: [&str; 5] = ["--every", "1d", "--must-not-be-lost", "--max-attempts", "1"];
const BOTH: [&[&str]; 2] = [&DAILY, &NOT_LOST];
const ATTEMPT: &str = "echo ran ${SHEDLOCK_SLOT_ATTEMPT-once}";

fn run(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    sandbox.run_with("a", "60s", options, script)
}

/// The slot can still be run, as if nothing had happened.
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

#[test]
fn a_term_in_the_pause_after_a_failure_is_reported_as_such() {
    let sandbox = Sandbox::new();
    let options = [&NOT_LOST[..3], &["--retry-backoff", "1m"]].concat();
    let script = "echo x >> started; exit 3";
    let pausing = run(&sandbox, &options, script).spawn().unwrap();
    sandbox.await_lines("started", 1);
    eventually("the pause", || sandbox.lock("a")["state"] == "at-least");
    pause(Duration::from_millis(500));
    signal(pausing.id(), Signal::TERM);
    let ended = end(pausing);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
    let said = "shedlock: a: stopped by SIGTERM before the next attempt; the command was not \
                started again\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
    assert_eq!(sandbox.read("started"), "x\n");
}

/// SQLite does not answer while another process writes. The lock is granted after the TERM.
#[test]
fn a_term_while_the_lock_is_asked_for_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        assert_eq!(
            done(&mut sandbox.shedlock(&["migrate", "--no-journal"])).code,
            0
        );
        let busy = Writer::begin(&sandbox.store());
        let told = run(&sandbox, options, "echo ran").spawn().unwrap();
        await_store_of(&sandbox, &told);
        // It has sent its request.
        pause(Duration::from_millis(500));
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
        let mut told = run(&sandbox, &waits, "echo ran").spawn().unwrap();
        await_said(&mut told, " a: waiting: held by ");
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
        sandbox.script("script", "#!/no/such/interpreter\n");
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

/// A deployment copies the program at this moment.
#[test]
fn a_program_that_is_being_written_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        let writer = std::fs::File::create(sandbox.path("program")).unwrap();
        std::fs::set_permissions(sandbox.path("program"), PermissionsExt::from_mode(0o755))
            .unwrap();
        let mut command = sandbox.shedlock(&["run", "-n", "a", "--lock-at-most-for", "60s"]);
        let busy = done(command.args(options).args(["--", "./program"]));
        drop(writer);
        assert_eq!(busy.code, 126, "{}", busy.stderr);
        is_open(&sandbox, options);
    }
}

#[test]
fn a_command_line_that_is_too_long_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        let long = "x".repeat(100_000);
        let mut command = run(&sandbox, options, "echo ran");
        command.args([&long; 6]);
        // The kernel allows the arguments a quarter of the stack.
        let ended = limited_before_it_has_the_lock(&sandbox, &mut command, "--stack=2000000");
        assert_eq!((ended.code, ended.stdout.as_str()), (126, ""));
        assert!(ended.stderr.contains("too long"), "{}", ended.stderr);
        is_open(&sandbox, options);
    }
}

#[test]
fn a_watchdog_that_cannot_be_started_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        let mut command = run(&sandbox, options, "echo ran");
        let ended = limited_before_it_has_the_lock(&sandbox, &mut command, "--nofile=3");
        assert_eq!((ended.code, ended.stdout.as_str()), (70, ""));
        let said = "cannot start the watchdog";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        is_open(&sandbox, options);
    }
}

/// As in a container image that has no `/dev`.
#[test]
fn a_watchdog_that_fails_before_it_starts_the_command_leaves_the_slot_open() {
    for options in BOTH {
        let sandbox = Sandbox::new();
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let script =
            "mount -t tmpfs none /dev && exec \"$0\" run -n a --lock-at-most-for 60s \"$@\"";
        command
            .args(["--mount", "sh", "-c", script])
            .arg(env!("CARGO_BIN_EXE_shedlock"))
            .args(options)
            .args(["--", "echo", "ran"])
            .env("SHEDLOCK_STORE", sandbox.store());
        let failed = done(&mut command);
        assert_eq!((failed.code, failed.stdout.as_str()), (70, ""));
        let said = "cannot start the watchdog";
        assert!(failed.stderr.contains(said), "{}", failed.stderr);
        is_open(&sandbox, options);
    }
}

/// The host stops for most of the lease while it requests the lock.
#[test]
fn a_lock_that_comes_too_late_leaves_the_slot_open() {
    let late = BOTH.map(|options| {
        let sandbox = Sandbox::new();
        assert_eq!(
            done(&mut sandbox.shedlock(&["migrate", "--no-journal"])).code,
            0
        );
        let busy = Writer::begin(&sandbox.store());
        let mut command = sandbox.run_with("a", "9s", options, "echo ran");
        let asking = command.spawn().unwrap();
        await_store_of(&sandbox, &asking);
        (options, sandbox, busy, asking)
    });
    // It has sent its request.
    pause(Duration::from_secs(1));
    let late = late.map(|(options, sandbox, busy, asking)| {
        signal(asking.id(), Signal::STOP);
        busy.end();
        (options, sandbox, asking)
    });
    // After the six seconds at which the command is sent TERM, and before the lease ends.
    pause(Duration::from_millis(6300));
    for (.., asking) in &late {
        signal(asking.id(), Signal::CONT);
    }
    for (options, sandbox, asking) in late {
        let ended = end(asking);
        assert_eq!((ended.code, ended.stdout.as_str()), (69, ""), "{ended:?}");
        assert!(ended.stderr.contains("no time is left"), "{}", ended.stderr);
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
    let mut waiting = run(&sandbox, &waits, "echo ran").spawn().unwrap();
    await_said(&mut waiting, " a: waiting: held by ");
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(last).code, 7);
    let ended = end(waiting);
    assert_eq!((ended.code, ended.stdout.as_str()), (76, ""));
    assert!(ended.stderr.contains("given up"), "{}", ended.stderr);
}

/// Runs the command, and applies this limit to its processes before the lock is granted.
fn limited_before_it_has_the_lock(sandbox: &Sandbox, command: &mut Command, limit: &str) -> Done {
    assert_eq!(
        done(&mut sandbox.shedlock(&["migrate", "--no-journal"])).code,
        0
    );
    let busy = Writer::begin(&sandbox.store());
    let asking = command.spawn().unwrap();
    await_store_of(sandbox, &asking);
    let mut limited = Command::new("prlimit");
    limited.args(["--pid", &asking.id().to_string(), limit]);
    assert!(limited.status().unwrap().success());
    busy.end();
    end(asking)
}

/// Waits until this process has a connection to its store, and has read from it.
fn await_store_of(sandbox: &Sandbox, asking: &Child) {
    // SQLite keeps a lock on `locks.db-shm` for each connection. The list of open files is only for root.
    let pid = asking.id().to_string();
    let shared = sandbox.path("locks.db-shm");
    eventually("a connection to the store", || {
        let Ok(shared) = std::fs::metadata(&shared) else {
            return false;
        };
        let file = format!(":{}", shared.ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| {
            let words: Vec<_> = lock.split_whitespace().collect();
            words.contains(&&*pid) && words.iter().any(|word| word.ends_with(&file))
        })
    });
}

/// A process that writes to the store of a sandbox.
pub(crate) struct Writer(tokio::runtime::Runtime, sqlx::SqliteConnection);

impl Writer {
    pub(crate) fn begin(store: &str) -> Self {
        use sqlx::Connection as _;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let connection = runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect(store).await.unwrap();
            let begin = sqlx::query("BEGIN IMMEDIATE");
            begin.execute(&mut connection).await.unwrap();
            connection
        });
        Self(runtime, connection)
    }

    pub(crate) fn end(mut self) {
        let rollback = sqlx::query("ROLLBACK").execute(&mut self.1);
        self.0.block_on(rollback).unwrap();
    }
}
