//! Each exit code and each refusal once more, by its command line alone: a careless recording of a transcript acquits
//! no wrong code.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use super::common::{Done, Sandbox, done};

/// Runs this line in a shell, in the sandbox and with its store.
fn typed(sandbox: &Sandbox, line: &str) -> Done {
    let path = format!(
        "{}:{}",
        sandbox.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(sandbox.path(""))
        .env_clear()
        .env("PATH", path)
        .env("HOME", sandbox.path(""))
        .env("TZ", "UTC")
        .env("SHEDLOCK_STORE", sandbox.store());
    done(&mut shell)
}

/// A home with an empty store, and the command in its path.
fn home() -> Sandbox {
    let sandbox = Sandbox::migrated();
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_shedlock"), sandbox.path("bin/shedlock")).unwrap();
    sandbox
}

/// Runs these lines one after the other in a home with an empty store. What is refused has one message on stderr and
/// nothing on stdout.
fn codes(lines: &[(i32, &str)]) {
    let sandbox = home();
    for (code, line) in lines {
        let done = typed(&sandbox, line);
        assert_eq!(done.code, *code, "{line}: {}", done.stderr);
        assert!(!done.stderr.contains("geheim"), "{line}: {}", done.stderr);
        if [2, 69, 70].contains(code) {
            assert_eq!(done.stdout, "", "{line}");
            assert!(
                done.stderr.starts_with("shedlock: "),
                "{line}: {}",
                done.stderr
            );
        }
    }
}

#[test]
fn usage() {
    codes(&[
        (2, "shedlock run -n -x --lock-at-most-for 1m -- true"),
        (2, "shedlock show a --store -x"),
        (0, "shedlock run --name=-x --lock-at-most-for 1m -- true"),
        (
            2,
            "shedlock run -n x --lock-at-most-for 1m --every 1h --max-attempts 3 -- true",
        ),
        (
            2,
            "shedlock run -n x --lock-at-most-for 1m --retry-backoff 3s -- true",
        ),
        (
            2,
            "shedlock run -n x --lock-at-most-for 1m --must-not-be-lost -- true",
        ),
        (2, "shedlock unlock a"),
        (2, "shedlock hold -n x --lock-at-most-for 1m"),
        (2, "shedlock prune --all --idle-for 90d"),
        (2, "shedlock show a --width 80"),
        (2, "shedlock --store sqlite:/a list"),
        (2, "shedlock nonsense"),
        (2, "shedlock slot nonsense"),
        (2, "shedlock list -n x"),
        (2, "shedlock history -n 0 a"),
        (2, "shedlock history -n -1 a"),
        (2, "shedlock slot reset a --to 2026-11-21"),
        (
            2,
            "shedlock run -n x --lock-at-most-for 1m --metrics-listen 127.0.0.1:99999 -- true",
        ),
        (2, "shedlock list --store sqlite://var/lib/locks.db"),
        (2, "shedlock list --store 'redis://user:***@host'"),
        (2, "shedlock list --store postgres://h:99999/d"),
        (2, "shedlock run -n x --lock-at-most-for 50000d -- true"),
        (0, "shedlock help run --help"),
        (0, "shedlock --version"),
    ]);
}

/// What a file must not contain is a usage error of each command, in JSON too.
#[test]
fn settings() {
    let sandbox = home();
    for text in [
        "lock-at-most-fro = \"1m\"",
        "[run]\nlock_wait = \"1m\"",
        "xyz = 1",
        "[run]\nsort = \"age\"",
        "[list]\nkeep-alive = true",
        "[run]\nlog-format = \"json\"",
        "[run]\nfilter = \"a*\"",
        "[list]\nfilter = \"a*\"",
        "name = \"a\"",
        "[rnu]\nsort = \"age\"",
        "[nonsense]",
        "[slot.reset]\noutput = \"json\"",
        "[run.more]\noutput = \"json\"",
        "a = ",
        "a = # b",
        "a = [",
        "a = {",
        "= 3",
        "a = \"b\" c",
        "keep-alive",
        "[run",
        "store = \"postgres://u:geheim@h/d",
        "store = postgres://u:geheim@h/d",
        "[run]\nlock-at-most-for = 10m",
        "connect-timeout = \"1s\"\nconnect-timeout = \"2s\"",
        "quiet = true\nverbose = 2",
        "store = \"sqlite:/a\"\nlocal = true",
        "[run]\nlock-at-most-for = \"10\"",
        "[run]\nlock-at-most-for = 10",
        "log-format = \"xml\"",
        "log-format = true",
        "connect-timeout = 1.5",
        "[run]\nkeep-alive = \"yes\"",
        "verbose = true",
        "verbose = -1",
        "[run]\nzone = \"Mars/Olympus\"",
        "store = [\"postgres://u:geheim@h/d\"]",
        "store = 5",
        "journal-store-file = 5",
    ] {
        std::fs::write(sandbox.path("wrong.toml"), text).unwrap();
        let run = typed(&sandbox, "shedlock --config wrong.toml run -n a -- touch x");
        assert_eq!((run.code, &*run.stdout), (2, ""), "{text}: {run:?}");
        assert!(!run.stderr.contains("geheim"), "{run:?}");
        let shown = typed(&sandbox, "shedlock --config wrong.toml config -o json");
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(
            (shown.code, &json["error"]["kind"]),
            (2, &"usage".into()),
            "{text}"
        );
    }
    assert!(!sandbox.path("x").exists());
    for text in [
        "store = \"wrong://h\"",
        "store = \"postgres://h:x/d\"",
        "store = \"sqlite:/a.db\"\n[run]\nstore = \"redis://h?nonsense=1\"",
        "store = \"\"",
        "store-file = \"/no/such\"",
    ] {
        std::fs::write(sandbox.path("wrong.toml"), text).unwrap();
        let line = "env -u SHEDLOCK_STORE shedlock --config wrong.toml config";
        assert_eq!(typed(&sandbox, line).code, 2, "{text}");
    }
    codes(&[
        (2, "SHEDLOCK_CONFIG= shedlock list"),
        (2, "shedlock --config /no/such list"),
        (0, "SHEDLOCK_CONFIG=/dev/null shedlock list"),
    ]);
}

#[test]
fn the_commands_own() {
    let own: Vec<(i32, String)> = [0, 1, 3, 75, 255]
        .map(|code| {
            (
                code,
                format!("shedlock run -q -n a --lock-at-most-for 1m -- sh -c 'exit {code}'"),
            )
        })
        .into();
    let lines: Vec<(i32, &str)> = own.iter().map(|(code, line)| (*code, &**line)).collect();
    codes(&lines);
    codes(&[
        (
            137,
            "shedlock run -n a --lock-at-most-for 1m -- sh -c 'kill -KILL $$'",
        ),
        (
            143,
            "shedlock run -n a --lock-at-most-for 1m -- sh -c 'kill -TERM $$'",
        ),
        (
            0,
            "shedlock run -n a --lock-at-most-for 1m --lock-at-least-for 1m -- true",
        ),
        (0, "shedlock run -n a --lock-at-most-for 1m -- false"),
        (
            42,
            "shedlock run -n a --lock-at-most-for 1m --skip-exit-code 42 -- true",
        ),
        (
            42,
            "shedlock run -q -n a --lock-at-most-for 1m --skip-exit-code 42 -- true",
        ),
    ]);
}

#[test]
fn run() {
    codes(&[
        (2, "shedlock run -n a --lock-at-most-for 10 -- touch x"),
        (2, "shedlock run -n a --lock-at-most-for 10M -- touch x"),
        (2, "shedlock run -n a --lock-at-most-for -5s -- touch x"),
        (2, "shedlock run -n a --lock-at-most-for 0s -- touch x"),
        (
            2,
            "shedlock run -n a --lock-at-most-for 99999999999h -- touch x",
        ),
        (2, "shedlock run -n '' --lock-at-most-for 1m -- touch x"),
        (2, "shedlock run -n 'a\nb' --lock-at-most-for 1m -- touch x"),
        (2, "shedlock run -n a -- touch x"),
        (2, "shedlock run -n a --lock-at-most-for 1m"),
        (2, "shedlock run -n a --lock-at-most-for 1m touch x"),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --lock-at-least-for 2m -- touch x",
        ),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --owner-prefix 'a b' -- touch x",
        ),
        (
            2,
            "SHEDLOCK_LOCK_AT_MOST_FOR=abc shedlock run -n a -- touch x",
        ),
        (2, "SHEDLOCK_LOCK_AT_MOST_FOR= shedlock run -n a -- touch x"),
        (
            2,
            "SHEDLOCK_LOCK_AT_LEAST_FOR=20m shedlock run -n a --lock-at-most-for 1m -- touch x",
        ),
        (
            2,
            "SHEDLOCK_STORE=$SHEDLOCK_STORE?lock_at_least_for=5m shedlock run -n a --lock-at-most-for 1m -- touch x",
        ),
        (
            2,
            "SHEDLOCK_STORE=$SHEDLOCK_STORE?lock_at_most_for=1m shedlock run -n a --lock-at-least-for 2m -- touch x",
        ),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --schedule '60 * * * *' -- touch x",
        ),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --schedule '* * * *' -- touch x",
        ),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --schedule '0 0 31 2 *' -- touch x",
        ),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --schedule @reboot -- touch x",
        ),
        (
            69,
            "shedlock run -n a --lock-at-most-for 1m --store postgres://u:geheim@127.0.0.1:1/d -- touch x",
        ),
        (
            127,
            "shedlock run -n a --lock-at-most-for 1m -- no-such-command",
        ),
        (127, "shedlock run -n a --lock-at-most-for 1m -- ./nothing"),
        (
            126,
            "echo > plain; shedlock run -n a --lock-at-most-for 1m -- ./plain",
        ),
        (1, "ls x 2>/dev/null || exit 1"),
    ]);
}

#[test]
fn prune() {
    codes(&[
        (0, "shedlock run -n a --lock-at-most-for 60s -- true"),
        (1, "shedlock prune --idle-for 90d a"),
        (1, "shedlock prune --idle-for 90d b --yes"),
        (0, "shedlock prune --idle-for 90d 'zz*'"),
        (0, "shedlock prune --idle-for 90d --yes"),
        (2, "shedlock prune --idle-for 23h --yes"),
        (2, "shedlock prune --idle-for 90 --yes"),
        (2, "shedlock prune --idle-for -90d --yes"),
        (2, "shedlock prune --yes"),
        (0, "shedlock show a"),
    ]);
}

#[test]
fn journal() {
    codes(&[
        (1, "shedlock jobs"),
        (1, "shedlock history a"),
        (2, "shedlock jobs --store memory:"),
        (0, "shedlock migrate"),
        (0, "shedlock jobs"),
        (1, "shedlock history a"),
        (0, "shedlock jobs --filter 'nosuch*'"),
        (0, "shedlock run -n a --lock-at-most-for 60s -- true"),
        (0, "shedlock history a"),
        (1, "shedlock history a --failed"),
        (1, "shedlock history a --since 2100-01-01T00:00:00Z"),
        (1, "shedlock unlock a --force"),
        (1, "shedlock resume a"),
        (1, "shedlock extend a --for 1h"),
        (1, "shedlock slot reset a"),
        (1, "shedlock jobs --forget b --yes"),
        (0, "shedlock jobs --forget a"),
        (0, "shedlock jobs --forget a --yes"),
        (1, "shedlock jobs --forget a --yes"),
        (2, "shedlock jobs --yes"),
        (2, "shedlock jobs --width 39"),
        (
            0,
            "shedlock metrics --store postgres://u:geheim@127.0.0.1:1/d",
        ),
    ]);
}

#[test]
fn list() {
    codes(&[
        (0, "shedlock list"),
        (0, "shedlock list --filter x"),
        (0, "bash -c 'set -o pipefail; shedlock list | true'"),
        (2, "shedlock list --held --state free"),
        (2, "shedlock list --sort owner"),
        (2, "shedlock list --filter '[a'"),
        (2, "shedlock list --watch 0s"),
        (2, "shedlock list --watch -1s"),
        (2, "shedlock list --width 3"),
        (69, "shedlock list --store sqlite:$PWD/none.db --watch"),
    ]);
}

#[test]
fn show_and_unlock() {
    codes(&[
        (1, "shedlock show a"),
        (1, "shedlock show a -o json"),
        (2, "shedlock unlock a"),
        (1, "shedlock unlock a --force"),
        (1, "shedlock slot reset a"),
        (
            0,
            "shedlock run -n a --lock-at-most-for 1m --lock-at-least-for 1m -- true",
        ),
        (0, "shedlock show a"),
        (1, "shedlock unlock a --force --owner another/1/ff"),
        (0, "shedlock unlock a --force"),
        (1, "shedlock unlock a --force -o json"),
    ]);
}

#[test]
fn migrate() {
    codes(&[
        (0, "shedlock migrate"),
        (0, "shedlock migrate --dry-run"),
        (
            0,
            "shedlock migrate --print --store postgres://db.example/app",
        ),
        (
            2,
            "shedlock migrate --print --store postgres://db.example/app?tabel=x",
        ),
        (
            2,
            "shedlock migrate --print --store oracle://db.example/app",
        ),
        (
            2,
            "shedlock migrate --print --dry-run --store postgres://db.example/app",
        ),
        (0, "shedlock migrate --print --store consul://db.example"),
    ]);
}

/// Files that do not exist, a table that is missing, and paths that depend on the directory.
#[test]
fn missing_files() {
    for (store, code) in [
        ("sqlite:$PWD/lokcs.db", 69),
        ("sqlite:$PWD/mistyped/lokcs.db", 69),
        ("sqlite:$PWD/lokcs.db?table=other", 69),
        ("sqlite:$PWD/lokcs.db?create=true&table=other", 69),
        ("sqlite:$PWD/empty.db", 69),
        ("sqlite:locks.db", 2),
        ("sqlite://locks.db?table=t", 2),
        ("sqlite:./a/locks.db", 2),
        ("sqlite:", 2),
    ] {
        let lines: Vec<String> = [
            "list",
            "show a",
            "unlock --force a",
            "slot reset a",
            "slot reset a --to 2026-11-21T03:00:00Z",
        ]
        .map(|command| format!(": > empty.db; shedlock {command} --store \"{store}\""))
        .into();
        let lines: Vec<(i32, &str)> = lines.iter().map(|line| (code, &**line)).collect();
        codes(&lines);
    }
    codes(&[
        (2, "shedlock migrate --store sqlite:a.db"),
        (
            2,
            "shedlock run -n a --lock-at-most-for 1m --store sqlite:a.db -- true",
        ),
        (69, "shedlock show a --local"),
        (1, "ls .local a.db 2>/dev/null || exit 1"),
    ]);
}

#[test]
fn store() {
    let local = |line: &str| {
        format!("unset SHEDLOCK_STORE; {line} shedlock run -n a --lock-at-most-for 1m -- true")
    };
    for (code, line) in [
        (2, "export KUBERNETES_SERVICE_HOST=10.0.0.1;"),
        (2, "unset HOME;"),
        (2, "HOME="),
        (
            69,
            "touch file; SHEDLOCK_STORE=local XDG_STATE_HOME=$PWD/file",
        ),
        (2, "SHEDLOCK_STORE="),
        (2, "SHEDLOCK_STORE=nonsense"),
        (2, "SHEDLOCK_STORE=oracle://u:geheim@h/d"),
        (2, "SHEDLOCK_STORE=memory:"),
        (
            0,
            "SHEDLOCK_STORE=sqlite:$PWD/locks.db KUBERNETES_SERVICE_HOST=10.0.0.1",
        ),
        (2, ""),
        (0, "SHEDLOCK_STORE=local"),
    ] {
        codes(&[(code, &local(line))]);
    }
    codes(&[
        (2, "shedlock run postgres://u:geheim@h/d"),
        (
            2,
            "shedlock list --store postgres://app:se@geheim/cret@127.0.0.1:1/d",
        ),
        (
            2,
            "shedlock list --store mysql://app:se@geheim/cret@127.0.0.1:1/d",
        ),
        (
            2,
            "shedlock list --store redis://app:se@geheim/cret@127.0.0.1:1/d",
        ),
        (
            2,
            "shedlock list --store consul://app:se@geheim/cret@127.0.0.1:1/d",
        ),
        (
            2,
            "shedlock list --store mongodb://app:se@geheim/cret@127.0.0.1:1/d",
        ),
        (69, "shedlock list --store postgres://127.0.0.1:1/d"),
    ]);
}

#[test]
fn store_file() {
    for (code, text) in [
        (2, ""),
        (2, "\\n"),
        (2, "geheim"),
        (2, "geheim://geheim"),
        (2, "postgres://u:geheim@h/d\\npostgres://u:geheim@g/d"),
        (2, "sqlite:geheim.db"),
        (2, "memory:geheim"),
        (2, "postgres://u:geheim@h/d?nonsense=geheim"),
        (2, "postgres://geheim\\377"),
        (69, "postgres://u:geheim@127.0.0.1:1/d"),
        (0, "sqlite:$PWD/locks.db\\r\\n"),
    ] {
        let line = format!(
            "unset SHEDLOCK_STORE; printf \"{text}\" > url; shedlock list --store-file url"
        );
        codes(&[(code, &line)]);
    }
    codes(&[
        (
            2,
            "SHEDLOCK_STORE_FILE=/no/such SHEDLOCK_STORE= shedlock list",
        ),
        (
            2,
            "unset SHEDLOCK_STORE; SHEDLOCK_STORE_FILE=/no/such shedlock list",
        ),
        (
            2,
            "unset SHEDLOCK_STORE; SHEDLOCK_STORE_FILE=/tmp shedlock list",
        ),
        (
            2,
            "unset SHEDLOCK_STORE; SHEDLOCK_STORE_FILE= shedlock list",
        ),
        (2, "SHEDLOCK_STORE_FILE=$PWD/url shedlock list"),
        (2, "shedlock list --store-file url --local"),
        (2, "shedlock list --store-file url --store $SHEDLOCK_STORE"),
        (
            0,
            "SHEDLOCK_STORE_FILE=/no shedlock list --store $SHEDLOCK_STORE",
        ),
    ]);
}

#[test]
fn journal_store() {
    codes(&[
        (1, "shedlock jobs --journal-store sqlite:$PWD/journal.db"),
        (
            0,
            "shedlock pause a --create --journal-store sqlite:$PWD/journal.db",
        ),
        (
            0,
            "shedlock run -q -n b --lock-at-most-for 1m --journal-store sqlite:$PWD/journal.db -- true",
        ),
        (2, "SHEDLOCK_JOURNAL_STORE=consul://h shedlock jobs"),
        (2, "SHEDLOCK_JOURNAL_STORE=' ' shedlock jobs"),
        (
            2,
            "SHEDLOCK_JOURNAL_STORE=sqlite:a.db shedlock run -n a --lock-at-most-for 1m -- touch x",
        ),
        (
            2,
            "SHEDLOCK_JOURNAL_STORE=nonsense://u:geheim@h shedlock run -n a --lock-at-most-for 1m -- touch x",
        ),
        (
            2,
            "SHEDLOCK_JOURNAL_STORE=a SHEDLOCK_JOURNAL_STORE_FILE=b shedlock jobs",
        ),
        (0, "shedlock migrate --print --store nats://h"),
        (0, "shedlock migrate --journal-store sqlite:$PWD/journal.db"),
        (0, "shedlock jobs --journal-store sqlite:$PWD/journal.db"),
    ]);
}

#[test]
fn metrics_and_generated() {
    codes(&[
        (0, "shedlock metrics"),
        (0, "shedlock metrics --store sqlite:$PWD/none.db"),
        (70, "shedlock metrics --textfile no/such/folder/x.prom"),
        (2, "shedlock metrics --store nosuch://x"),
        (2, "SHEDLOCK_LOG_FORMAT=xml shedlock list"),
        (2, "shedlock completions"),
        (2, "shedlock completions dos"),
        (70, "touch file; shedlock man --dir file/man1"),
        (0, "SHEDLOCK_CONFIG=/no/such shedlock man"),
    ]);
}

/// The text of `--help` is a result like any other.
#[test]
fn a_help_that_cannot_be_written_is_an_error_and_one_that_no_one_reads_to_its_end_is_none() {
    let sandbox = Sandbox::new();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let refused = done(sandbox.bare(&["run", "--help"]).stdout(full));
    assert_eq!(refused.code, 70, "{refused:?}");
    assert!(
        refused.stderr.contains("cannot write to stdout"),
        "{refused:?}"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let cut = done(sandbox.bare(&["run", "--help"]).stdout(writer));
    assert_eq!((cut.code, &*cut.stderr), (0, ""));
}
