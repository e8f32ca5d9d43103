//! Wrong command lines: what is wrong, and what to write instead.

use super::common::{Done, Sandbox, done};

/// A command line of words without blanks.
fn refused(sandbox: &Sandbox, line: &str) -> Done {
    let words: Vec<&str> = line.split(' ').collect();
    let refused = done(&mut sandbox.shedlock(&words));
    assert_eq!((refused.code, &*refused.stdout), (2, ""), "{line}");
    // One blank line between the parts.
    assert!(!refused.stderr.contains("\n\n\n"), "{}", refused.stderr);
    refused
}

#[test]
fn what_is_missing_or_unknown_has_a_tip() {
    let sandbox = Sandbox::migrated();
    for (line, tip) in [
        (
            "run -n -x --lock-at-most-for 1m -- true",
            "if \"-x\" is the value of --name, write --name=-x",
        ),
        (
            "run --name -xy --lock-at-most-for 1m -- true",
            "if \"-xy\" is the value of --name, write --name=-xy",
        ),
        (
            "show a --store -x",
            "if \"-x\" is the value of --store, write --store=-x",
        ),
        (
            "run -n x --lock-at-most-for 1m --every 1h --max-attempts 3 -- true",
            "--max-attempts needs --must-not-be-lost",
        ),
        (
            "run -n x --lock-at-most-for 1m --retry-backoff 3s -- true",
            "--retry-backoff needs --must-not-be-lost",
        ),
        (
            "run -n x --lock-at-most-for 1m --must-not-be-lost -- true",
            "--must-not-be-lost needs --schedule or --every",
        ),
        (
            "unlock a",
            "--force confirms that the lock is freed although its holder may still be running; see \
             `shedlock show NAME` first",
        ),
        (
            "hold -n x --lock-at-most-for 1m",
            "write the name without --name",
        ),
        (
            "nonsense",
            "the commands are run, hold, extend, list, show,",
        ),
        ("slot nonsense", "the only command is `slot reset`"),
        ("lisst", "a similar subcommand exists: 'list'"),
        ("--store sqlite:/a list", "'list --store' exists"),
        (
            "prune --all --idle-for 90d",
            "without a name, prune is about all locks of the store",
        ),
        (
            "show a --width 80",
            "--width is an option of list, jobs and history",
        ),
        (
            "run -n x --lock-at-most-for 1m --wait 5m -- true",
            "a similar argument exists: '--lock-wait'",
        ),
        (
            "run -n x --lock-at-most-for 1m --to 2026-11-21T03:00:00Z -- true",
            "--to is an option of slot reset",
        ),
    ] {
        let refused = refused(&sandbox, line);
        let tip = format!("\n  tip: {tip}");
        assert!(refused.stderr.contains(&tip), "{line}: {}", refused.stderr);
        assert!(!refused.stderr.contains("use '-- "), "{}", refused.stderr);
    }
    // A tip that would not help.
    for line in [
        "list -n x",
        "show a --nonsense",
        "run -n x --lock-at-most-for 1m -x -- true",
    ] {
        let refused = refused(&sandbox, line);
        assert!(!refused.stderr.contains("tip"), "{}", refused.stderr);
    }
    let named = ["run", "--name=-x", "--lock-at-most-for", "1m", "--", "true"];
    assert_eq!(done(&mut sandbox.shedlock(&named)).code, 0);
}

#[test]
fn the_help_of_the_help_is_the_help() {
    let sandbox = Sandbox::new();
    for (line, same) in [
        (&["help", "--help"][..], &["help"][..]),
        (&["help", "-h"], &["help"]),
        (&["help", "run", "--help"], &["help", "run"]),
        (&["slot", "help", "--help"], &["slot", "help"]),
    ] {
        let help = done(&mut sandbox.bare(line));
        assert_eq!((help.code, &*help.stderr), (0, ""), "{line:?}");
        assert_eq!(help.stdout, done(&mut sandbox.bare(same)).stdout);
        assert!(help.stdout.contains("Usage: "), "{}", help.stdout);
    }
}

#[test]
fn a_wrong_value_says_what_to_write() {
    let sandbox = Sandbox::migrated();
    for (line, said) in [
        ("history -n 0 a", "write a number from 1 to 10000"),
        ("history -n -1 a", "write a number from 1 to 10000"),
        (
            "slot reset a --to 2026-11-21",
            "write a date and a time with its zone, like 2026-11-21T03:00:00Z or \
             2026-11-21T12:00:00+09:00",
        ),
        (
            "run -n x --lock-at-most-for 1m --metrics-listen 127.0.0.1:99999 -- true",
            "write an IP address and a port from 0 to 65535, like 127.0.0.1:9464",
        ),
        (
            "list --store sqlite://var/lib/locks.db",
            "write an absolute path, like sqlite:/var/lib/locks.db",
        ),
        (
            "list --store redis://user:***@host",
            "--store: the password in this URL is hidden (***), as in all output of this command; write \
             the password in its place",
        ),
        (
            "list --store postgres://h:99999/d",
            "invalid port number; write it like \
             scheme://user@host:port/database?option=value",
        ),
        (
            "run -n x --lock-at-most-for 50000d -- true",
            "--lock-at-most-for of 50000d is too long for table \"shedlock\": it stores at most 366",
        ),
        (
            "run -n x --lock-at-most-for 100000d --lock-at-least-for 50000d -- true",
            "--lock-at-most-for of 100000d is too long",
        ),
    ] {
        let refused = refused(&sandbox, line);
        assert!(refused.stderr.contains(said), "{line}: {}", refused.stderr);
        assert!(!refused.stderr.contains("lock_at"), "{}", refused.stderr);
    }
}

#[test]
fn the_help_has_the_rules_that_are_found_out_too_late_otherwise() {
    let sandbox = Sandbox::new();
    let journal = "PostgreSQL, MySQL, MariaDB, SQLite, Redis, Valkey and MongoDB can keep one.";
    let prefix = "1 to 64 visible ASCII characters without `/`. With `billing` the owner is \
                  billing:host/process/random.";
    let end = "`open-ended` is a pause without an end, which lasts until `shedlock resume`.";
    let again = "Pausing a paused job again replaces the end and the reason: without --reason the \
                 old reason is gone, and without --for or --until the pause has no end.";
    let width = "into this many columns (at least 40), instead of the width of the terminal";
    for (command, said) in [
        ("run", prefix),
        ("hold", prefix),
        ("jobs", journal),
        ("history", journal),
        ("list", end),
        ("pause", again),
        ("list", width),
        ("jobs", width),
        ("history", width),
    ] {
        let help = done(&mut sandbox.bare(&[command, "--help"])).stdout;
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(said), "{command}: {help}");
    }
}
