//! Each exit code that the help promises.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use super::common::{Sandbox, done, end, signal};
use rustix::process::Signal;

#[test]
fn the_commands_own_code_passes_through() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 3, 75, 255] {
        let done = done(&mut sandbox.run("a", "10s", &format!("exit {code}")));
        assert_eq!(done.code, code);
        assert_eq!(done.stderr, "");
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_its_number() {
    let sandbox = Sandbox::new();
    assert_eq!(
        done(&mut sandbox.run("a", "10s", "kill -KILL $$")).code,
        137
    );
    assert_eq!(
        done(&mut sandbox.run("a", "10s", "kill -TERM $$")).code,
        143
    );
}

#[test]
fn a_skip_is_a_success_and_says_who_and_until_when() {
    let sandbox = Sandbox::new();
    let holder = sandbox
        .run("a", "60s", "echo x > started; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("started", 1);
    let owner = sandbox.lock("a")["owner"].as_str().unwrap().to_owned();

    let skipped = done(&mut sandbox.run("a", "60s", "echo y > second"));
    assert_eq!(skipped.code, 0);
    assert_eq!(skipped.stderr.lines().count(), 1, "{}", skipped.stderr);
    let said = format!("shedlock: a: skipped: held by {owner} until 20");
    assert!(skipped.stderr.starts_with(&said), "{}", skipped.stderr);
    assert!(!sandbox.path("second").exists());

    let arguments = [
        "run",
        "-q",
        "-n",
        "a",
        "--lock-at-most-for",
        "1m",
        "--skip-exit-code",
        "42",
    ];
    let quiet = done(sandbox.shedlock(&arguments).args(["--", "true"]));
    assert_eq!((quiet.code, quiet.stderr.as_str()), (42, ""));

    signal(holder.id(), Signal::TERM);
    assert_eq!(end(holder).code, 143);
}

#[test]
fn at_least_keeps_the_lock_after_the_command() {
    let sandbox = Sandbox::new();
    let arguments = [
        "run",
        "--name",
        "a",
        "--lock-at-most-for",
        "PT1M",
        "--lock-at-least-for",
        "30s",
        "--",
        "true",
    ];
    assert_eq!(done(&mut sandbox.shedlock(&arguments)).code, 0);
    assert_eq!(sandbox.lock("a")["state"], "at-least");
    let skipped = done(&mut sandbox.shedlock(&arguments));
    assert_eq!(skipped.code, 0);
    let said = "shedlock: a: skipped: the lock stays taken until 20";
    assert!(skipped.stderr.starts_with(said), "{}", skipped.stderr);
}

#[test]
fn wrong_command_lines_give_2_and_start_nothing() {
    let sandbox = Sandbox::new();
    let wrong: [&[&str]; 9] = [
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "10",
            "--",
            "touch",
            "x",
        ],
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "-5s",
            "--",
            "touch",
            "x",
        ],
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "0s",
            "--",
            "touch",
            "x",
        ],
        &[
            "run",
            "--name",
            "",
            "--lock-at-most-for",
            "1m",
            "--",
            "touch",
            "x",
        ],
        &["run", "--name", "a", "--", "touch", "x"],
        &["run", "--name", "a", "--lock-at-most-for", "1m"],
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "1m",
            "touch",
            "x",
        ],
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "1m",
            "--lock-at-least-for",
            "2m",
            "--",
            "touch",
            "x",
        ],
        &[
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "1m",
            "--owner-prefix",
            "a b",
            "--",
            "touch",
            "x",
        ],
    ];
    for arguments in wrong {
        let done = done(&mut sandbox.shedlock(arguments));
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.stderr);
        assert!(!done.stderr.is_empty(), "{arguments:?}");
    }
    assert!(!sandbox.path("x").exists());
}

#[test]
fn a_wrong_value_names_the_option_or_variable_that_it_came_from() {
    let sandbox = Sandbox::new();
    let run = ["run", "-n", "a", "--", "touch", "x"];
    let wrong = done(
        sandbox
            .shedlock(&run)
            .env("SHEDLOCK_LOCK_AT_MOST_FOR", "abc"),
    );
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let said = "invalid value 'abc' for 'SHEDLOCK_LOCK_AT_MOST_FOR': write it with its unit";
    assert!(wrong.stderr.contains(said), "{}", wrong.stderr);

    let wrong = done(sandbox.shedlock(&run).env("SHEDLOCK_LOCK_AT_MOST_FOR", ""));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let said = "'SHEDLOCK_LOCK_AT_MOST_FOR': it is empty: set a duration, like 10m, or unset it";
    assert!(wrong.stderr.contains(said), "{}", wrong.stderr);

    let options = ["--lock-at-least-for", "2m"];
    let wrong = done(&mut sandbox.run_with("a", "1m", &options, "touch x"));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let said = "shedlock: a: --lock-at-least-for (2m) is longer than --lock-at-most-for (1m)";
    assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);
    let mut run_with_variable = sandbox.run_with("a", "1m", &[], "touch x");
    let wrong = done(run_with_variable.env("SHEDLOCK_LOCK_AT_LEAST_FOR", "20m"));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    let said =
        "shedlock: a: SHEDLOCK_LOCK_AT_LEAST_FOR (20m) is longer than --lock-at-most-for (1m)";
    assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);

    for (in_url, variables, said) in [
        (
            "lock_at_least_for=5m",
            &[("SHEDLOCK_LOCK_AT_MOST_FOR", "1m")][..],
            "lock_at_least_for in the store's URL (5m) is longer than SHEDLOCK_LOCK_AT_MOST_FOR \
             (1m): lower the first or raise the second",
        ),
        (
            "lock_at_most_for=1m",
            &[("SHEDLOCK_LOCK_AT_LEAST_FOR", "2m")],
            "SHEDLOCK_LOCK_AT_LEAST_FOR (2m) is longer than lock_at_most_for in the store's URL \
             (1m): lower the first or raise the second",
        ),
    ] {
        let url = format!("{}?{in_url}", sandbox.store());
        let mut command = sandbox.bare(&run);
        command.env("SHEDLOCK_STORE", url);
        let wrong = done(command.envs(variables.iter().copied()));
        assert_eq!(wrong.code, 2, "{}", wrong.stderr);
        assert_eq!(wrong.stderr, format!("shedlock: a: {said}\n"));
    }

    for (name, said) in [
        (
            "",
            "shedlock: --name: the lock's name is empty or blank: set one\n",
        ),
        (
            "a\nb",
            "shedlock: --name: lock name \"a\\nb\" contains the control character '\\n'",
        ),
    ] {
        let wrong = done(&mut sandbox.run(name, "1m", "touch x"));
        assert_eq!(wrong.code, 2, "{}", wrong.stderr);
        assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);
    }

    let wrong = done(
        sandbox
            .bare(&["list"])
            .env("SHEDLOCK_STORE", "oracle://h/d"),
    );
    let said = "shedlock: SHEDLOCK_STORE: unknown URL scheme";
    assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);
    let wrong = done(&mut sandbox.bare(&["list", "--store", "oracle://h/d"]));
    let said = "shedlock: --store: unknown URL scheme";
    assert!(wrong.stderr.starts_with(said), "{}", wrong.stderr);
    assert!(!sandbox.path("x").exists());
}

#[test]
fn a_command_that_cannot_be_run_gives_what_shells_give_and_takes_no_lock() {
    let sandbox = Sandbox::migrated();
    std::fs::write(sandbox.path("plain"), "echo hi").unwrap();
    std::fs::set_permissions(sandbox.path("plain"), PermissionsExt::from_mode(0o644)).unwrap();
    for (command, code) in [
        ("no-such-command", 127),
        ("./nothing", 127),
        ("./plain", 126),
    ] {
        let arguments = [
            "run",
            "--name",
            "a",
            "--lock-at-most-for",
            "1m",
            "--",
            command,
        ];
        let done = done(&mut sandbox.shedlock(&arguments));
        assert_eq!(done.code, code, "{}", done.stderr);
        assert!(done.stderr.contains(command), "{}", done.stderr);
    }
    assert!(sandbox.lock("a").is_null());
}

#[test]
fn a_script_without_a_first_line_runs_as_in_every_shell() {
    let sandbox = Sandbox::new();
    sandbox.script("plain", "echo \"$1\"; exit 7");
    let arguments = [
        "run",
        "--name",
        "a",
        "--lock-at-most-for",
        "1m",
        "--",
        "./plain",
        "it runs",
    ];
    let done = done(&mut sandbox.shedlock(&arguments));
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (7, "it runs\n"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_command_that_cannot_be_run_is_not_a_riddle() {
    let sandbox = Sandbox::new();
    sandbox.script("missing", "#!/no/such/interpreter -x\n");
    sandbox.script("forbidden", "#! /etc/passwd\n");
    std::os::unix::fs::symlink("/no/such/target", sandbox.path("link")).unwrap();
    for (command, code, said) in [
        (
            "./missing",
            127,
            "cannot run \"./missing\": its interpreter /no/such/interpreter (#! line) was not found",
        ),
        (
            "./forbidden",
            126,
            "cannot run \"./forbidden\": its interpreter /etc/passwd (#! line) is not executable \
             by this user",
        ),
        (
            "./link",
            127,
            "cannot run \"./link\": it is a symbolic link to /no/such/target, which does not exist; \
             the lock was not requested",
        ),
    ] {
        let arguments = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", command];
        let done = done(&mut sandbox.shedlock(&arguments));
        assert_eq!(done.code, code, "{}", done.stderr);
        assert_eq!(done.stderr, format!("shedlock: {said}\n"));
        assert_ne!(sandbox.lock("a")["state"], "held");
    }
}

#[test]
fn a_wrong_duration_or_cron_expression_gets_a_message_of_its_own() {
    let sandbox = Sandbox::new();
    let run = |option: &str, value: &str| {
        let arguments = ["run", "-n", "a", option, value, "--", "true"];
        let mut command = sandbox.shedlock(&arguments);
        if option == "--schedule" {
            command.env("SHEDLOCK_LOCK_AT_MOST_FOR", "1m");
        }
        done(&mut command)
    };
    let at_most = "--lock-at-most-for";
    for (option, value, said) in [
        (
            at_most,
            "99999999999h",
            "it is too long, at most 7304484d is possible",
        ),
        (
            at_most,
            "10M",
            "its unit \"M\" is unknown: write d, h, m (minutes), s or ms",
        ),
        (at_most, "-5m", "it must not be negative"),
        (at_most, "10", "write it with its unit"),
        ("--schedule", "60 * * * *", "minute 60 is not in 0-59"),
        (
            "--schedule",
            "* * * *",
            "it has 4 fields; write five fields",
        ),
        ("--schedule", "0 0 31 2 *", "never fires"),
        ("--schedule", "@reboot", "its name is unknown"),
    ] {
        let wrong = run(option, value);
        assert_eq!(wrong.code, 2, "{value}: {}", wrong.stderr);
        assert!(wrong.stderr.contains(said), "{value}: {}", wrong.stderr);
    }
    assert!(!sandbox.path("locks.db").exists());
}

#[test]
fn a_store_that_fails_gives_69_and_nothing_is_started() {
    let sandbox = Sandbox::new();
    let arguments = [
        "run",
        "--name",
        "a",
        "--lock-at-most-for",
        "1m",
        "--store",
        "postgres://u:geheim@127.0.0.1:1/d",
        "--",
        "touch",
        "x",
    ];
    let done = done(&mut sandbox.bare(&arguments));
    assert_eq!(done.code, 69, "{}", done.stderr);
    assert!(!done.stderr.contains("geheim"), "{}", done.stderr);
    let said = "shedlock: a: the command was not started: postgres";
    assert!(done.stderr.starts_with(said), "{}", done.stderr);
    assert!(!sandbox.path("x").exists());
}

#[test]
fn a_lease_that_is_used_up_before_the_command_starts_gives_69() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    let done = done(&mut sandbox.run("a", "1ms", "echo x > started"));
    assert_eq!(done.code, 69, "{}", done.stderr);
    let advice = "raise --lock-at-most-for";
    assert!(done.stderr.contains(advice), "{}", done.stderr);
    assert!(!sandbox.path("started").exists());
}

#[test]
fn a_store_that_breaks_while_the_command_runs_does_not_take_its_code() {
    let sandbox = Sandbox::new();
    let script = "for file in locks.db locks.db-wal locks.db-shm; do \
                  dd if=/dev/zero of=$file bs=4k count=16 conv=notrunc 2>/dev/null; done; exit 5";
    let done = done(&mut sandbox.run("a", "10m", script));
    assert_eq!(done.code, 5, "{}", done.stderr);
    let start = "shedlock: a: the lock was not released: ";
    assert!(done.stderr.starts_with(start), "{}", done.stderr);
    for part in [
        "; the command has ended, but the lock stays taken until 20",
        "; to free it sooner, run `shedlock unlock a --force --owner ",
    ] {
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}

#[test]
fn a_missing_time_limit_is_no_reason_to_create_a_file_or_to_connect() {
    let sandbox = Sandbox::new();
    let local = done(&mut sandbox.bare(&["run", "-n", "a", "--", "true"]));
    assert_eq!(local.code, 2, "{}", local.stderr);
    let said =
        "shedlock: a: --lock-at-most-for is not set: set it longer than the command can take";
    assert!(local.stderr.starts_with(said), "{}", local.stderr);
    assert!(!sandbox.path(".local").exists());

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let store = format!("postgres://u:p@{}/d", listener.local_addr().unwrap());
    let mut run = sandbox.bare(&["run", "-n", "a", "--store", &store, "--", "true"]);
    assert_eq!(done(&mut run).code, 2);
    assert!(listener.accept().is_err(), "a connection");
}

#[test]
fn a_command_that_was_overlapped_does_not_pass_for_a_success() {
    for code in [0, 3] {
        let sandbox = Sandbox::new();
        let script =
            format!("echo x > up; until [ -e go ]; do sleep 0.05; done; echo ran; exit {code}");
        let holder = sandbox.run("a", "60s", &script).spawn().unwrap();
        sandbox.await_lines("up", 1);
        let freed = done(&mut sandbox.shedlock(&["unlock", "--force", "a"]));
        assert_eq!(freed.code, 0, "{}", freed.stderr);
        let other = done(&mut sandbox.run("a", "60s", "echo overlapped"));
        assert_eq!(other.stdout, "overlapped\n", "{}", other.stderr);
        std::fs::write(sandbox.path("go"), "").unwrap();
        let ended = end(holder);
        assert_eq!((ended.code, ended.stdout.as_str()), (75, "ran\n"));
        let said = format!(
            "shedlock: a: the lease was lost before the command ended (the lock was freed by force or paused with --now, \
             taken over while this process was suspended, or its record was changed): another run \
             may have overlapped this one; the command exited with {code}\n"
        );
        assert_eq!(ended.stderr, said);
    }
}

#[test]
fn a_command_that_runs_into_its_deadline_gives_75() {
    let sandbox = Sandbox::new();
    let done = done(&mut sandbox.run("a", "1500ms", "echo x > started; sleep 30; echo y > late"));
    assert_eq!(done.code, 75, "{}", done.stderr);
    assert!(
        done.stderr.contains("--lock-at-most-for"),
        "{}",
        done.stderr
    );
    assert_eq!(sandbox.read("started"), "x\n");
    assert!(!sandbox.path("late").exists());
}

#[test]
fn the_version_and_the_help_go_to_stdout() {
    let sandbox = Sandbox::new();
    let version = done(&mut sandbox.bare(&["--version"]));
    assert_eq!(
        version.stdout,
        format!("shedlock {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = done(&mut sandbox.bare(&["run", "--help"]));
    assert_eq!(help.code, 0);
    let usage =
        "shedlock run --name <NAME> --lock-at-most-for <DURATION> [OPTIONS] -- <COMMAND>...";
    assert!(help.stdout.contains(usage), "{}", help.stdout);
    for promised in ["69 ", "75 ", "126 ", "127 ", "SHEDLOCK_FENCING_TOKEN"] {
        assert!(help.stdout.contains(promised), "{promised}");
    }
    assert!(!help.stdout.contains("__watchdog"));
    assert_eq!(done(&mut sandbox.bare(&[])).code, 2);
}

#[test]
fn signals_that_the_caller_ignores_stay_ignored() {
    let sandbox = Sandbox::new();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let script = format!(
        "trap '' HUP; exec {exe} run -n a --lock-at-most-for 1m -- \
         sh -c 'kill -HUP $$; echo lives'"
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .env("SHEDLOCK_STORE", sandbox.store())
        .process_group(0);
    let done = done(&mut shell);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "lives\n"),
        "{}",
        done.stderr
    );
}
