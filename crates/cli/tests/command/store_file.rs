//! The URL of the store in a file, such as a mounted secret.

use std::fs;
use std::process::Command;

use super::common::{Done, Sandbox, done};

fn list(command: &mut Command) -> Done {
    done(command.arg("list"))
}

/// A file with this text, and its path.
fn file(sandbox: &Sandbox, name: &str, text: &str) -> String {
    fs::write(sandbox.path(name), text).unwrap();
    sandbox.path(name).to_str().unwrap().to_owned()
}

#[test]
fn the_url_is_read_from_a_file_without_its_line_end() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    for end in ["", "\n", "\r\n"] {
        let path = file(&sandbox, "url", &format!("{}{end}", sandbox.store()));
        let by_variable = list(sandbox.bare(&[]).env("SHEDLOCK_STORE_FILE", &path));
        assert!(
            by_variable.stdout.contains("\na "),
            "{}",
            by_variable.stderr
        );
        let by_option = done(&mut sandbox.bare(&["list", "--store-file", &path]));
        // A second may have passed.
        assert!(by_option.stdout.contains("\na "), "{by_option:?}");
    }
    let path = file(&sandbox, "url", &sandbox.store());
    let run = ["run", "-n", "b", "--lock-at-most-for", "1m", "--", "true"];
    let run = done(sandbox.bare(&run).env("SHEDLOCK_STORE_FILE", &path));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(sandbox.lock("b")["state"], "free");
    let absent = done(&mut sandbox.bare(&["show", "c", "--store-file", &path]));
    assert!(
        absent
            .stderr
            .ends_with("run `shedlock list --store-file …`\n"),
        "{}",
        absent.stderr
    );
}

#[test]
fn the_contents_of_the_file_are_never_printed() {
    let sandbox = Sandbox::new();
    let long = "geheim".repeat(20_000);
    for (text, said) in [
        ("", "is empty"),
        ("\n", "is empty"),
        ("geheim", "no URL of a store"),
        ("geheim://geheim", "no URL of a store"),
        ("geheim:geheim\n", "no URL of a store"),
        (
            "postgres://u:geheim@h/d\npostgres://u:geheim@g/d",
            "more than one line",
        ),
        ("sqlite:geheim.db", "an absolute path"),
        ("memory:geheim", "locks in memory"),
        ("postgres://u:geheim@h/d?nonsense=geheim", "nonsense"),
        ("postgres://u:geheim@127.0.0.1:1/d", "127.0.0.1:1"),
        (&long, "is too long"),
    ] {
        let path = file(&sandbox, "url", text);
        let refused = list(sandbox.bare(&["-vvv"]).env("SHEDLOCK_STORE_FILE", &path));
        let code = if text.contains(":1/d") { 69 } else { 2 };
        assert_eq!(refused.code, code, "{text}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{text}: {}", refused.stderr);
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
        if code == 2 {
            let from = format!("SHEDLOCK_STORE_FILE ({path})");
            assert!(refused.stderr.contains(&from), "{}", refused.stderr);
        }
    }
    fs::write(sandbox.path("url"), b"postgres://geheim\xff").unwrap();
    let path = sandbox.path("url");
    let refused = list(sandbox.bare(&[]).env("SHEDLOCK_STORE_FILE", path));
    assert!(
        refused.stderr.contains("is not UTF-8"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let sandbox = Sandbox::new();
    for (path, said) in [
        ("/no/such", "No such file"),
        ("/tmp", "s a directory"),
        ("", "set but empty"),
    ] {
        let refused = list(sandbox.bare(&[]).env("SHEDLOCK_STORE_FILE", path));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(path), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn two_stores_are_refused() {
    let sandbox = Sandbox::migrated();
    let path = file(&sandbox, "url", &sandbox.store());
    let both = list(sandbox.shedlock(&[]).env("SHEDLOCK_STORE_FILE", &path));
    assert_eq!(both.code, 2);
    let said = "shedlock: SHEDLOCK_STORE and SHEDLOCK_STORE_FILE are both set";
    assert!(both.stderr.starts_with(said), "{}", both.stderr);
    let store = sandbox.store();
    for option in [&["--store-file", &*path][..], &["--store", &store]] {
        let mut command = sandbox.shedlock(&["list"]);
        let typed = done(command.env("SHEDLOCK_STORE_FILE", "/no").args(option));
        assert_eq!(typed.code, 0, "{}", typed.stderr);
    }
    for options in [
        &["--store-file", &*path, "--local"][..],
        &["--store-file", &*path, "--store", &store],
    ] {
        assert_eq!(done(sandbox.bare(&["list"]).args(options)).code, 2);
    }
}
