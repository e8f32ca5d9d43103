//! Files of SQLite that do not exist, and paths that depend on the current directory.

use std::fs;

use super::common::{Sandbox, done};

/// The commands that read, or act on an existing lock.
const READERS: [&[&str]; 5] = [
    &["list"],
    &["show", "a"],
    &["unlock", "--force", "a"],
    &["slot", "reset", "a"],
    &["slot", "reset", "a", "--to", "2026-11-21T03:00:00Z"],
];

#[test]
fn a_mistyped_path_creates_no_store() {
    let sandbox = Sandbox::new();
    for path in ["lokcs.db", "mistyped/lokcs.db"] {
        let file = sandbox.path(path);
        for command in READERS {
            for options in ["", "?table=other", "?create=true&table=other"] {
                let store = format!("sqlite:{}{options}", file.display());
                let refused = done(sandbox.bare(command).args(["--store", &store]));
                assert_eq!(refused.code, 69, "{command:?}: {}", refused.stderr);
                assert_eq!(refused.stdout, "", "{command:?}");
                let said = format!("shedlock: sqlite: no such file: {file:?}; check the path");
                assert!(refused.stderr.starts_with(&said), "{}", refused.stderr);
                assert!(!refused.stderr.contains("create="), "{}", refused.stderr);
            }
        }
    }
    let left = fs::read_dir(sandbox.path("")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_missing_local_store_is_not_created_to_be_listed() {
    let sandbox = Sandbox::new();
    for arguments in [&["list"][..], &["show", "a", "--local"]] {
        let refused = done(&mut sandbox.bare(arguments));
        assert_eq!(refused.code, 69, "{}", refused.stderr);
        let said = "/.local/state/shedlock/locks.db\"; ";
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("`shedlock run`"),
            "{}",
            refused.stderr
        );
    }
    assert!(!sandbox.path(".local").exists());
}

#[test]
fn a_missing_table_is_not_created_to_be_listed() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("locks.db"), "").unwrap();
    for command in READERS {
        let refused = done(&mut sandbox.shedlock(command));
        assert_eq!(refused.code, 69, "{command:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("migrate"), "{}", refused.stderr);
    }
    assert_eq!(sandbox.read("locks.db"), "");
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    let list = done(&mut sandbox.shedlock(&["list"]));
    assert_eq!((list.code, list.stdout.as_str()), (0, "no locks\n"));
}

#[test]
fn two_directories_do_not_mean_two_stores() {
    let sandbox = Sandbox::new();
    let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
    for command in READERS.into_iter().chain([&["migrate"][..], &run]) {
        for (store, path) in [
            ("sqlite:locks.db", "locks.db"),
            ("sqlite://locks.db?table=t", "locks.db?table=t"),
            ("sqlite:./a/locks.db", "a/locks.db"),
        ] {
            let refused = done(sandbox.bare(command).env("SHEDLOCK_STORE", store));
            assert_eq!(refused.code, 2, "{command:?}: {}", refused.stderr);
            let folder = fs::canonicalize(sandbox.path("")).unwrap();
            let right = format!("sqlite:{}/{path}", folder.display());
            assert!(refused.stderr.contains(&right), "{}", refused.stderr);
            assert!(
                refused.stderr.starts_with("shedlock: SHEDLOCK_STORE: "),
                "{}",
                refused.stderr
            );
        }
    }
    assert_eq!(fs::read_dir(sandbox.path("")).unwrap().count(), 0);
    for store in ["sqlite:%2Ftmp%2Fno-such-file.db", "sqlite:"] {
        let other = done(sandbox.bare(&["list"]).env("SHEDLOCK_STORE", store));
        assert!(
            !other.stderr.contains("current directory"),
            "{}",
            other.stderr
        );
    }
}
