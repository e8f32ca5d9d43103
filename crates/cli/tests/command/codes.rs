//! Each exit code and each refusal once more, by its command line alone: a careless recording of a transcript acquits
//! no wrong code.

use std::os::unix::fs::symlink;
use std::process::Command;

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

/// Runs these lines one after the other in a home with an empty store. What is refused has one message on stderr and
/// nothing on stdout.
fn codes(lines: &[(i32, &str)]) {
    let sandbox = Sandbox::migrated();
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_shedlock"), sandbox.path("bin/shedlock")).unwrap();
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
