//! What other users of a host can read or change.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use super::common::{Sandbox, done};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The file that the command writes while a name of it can be foreseen leads to another file.
#[test]
fn a_link_in_the_place_of_a_temporary_file_is_not_followed() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate"]));
    fs::write(sandbox.path("target"), "kept").unwrap();
    // The shell's own number is that of the command that replaces it.
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let script =
        format!("umask 022; ln -s target \"out.prom.$$\"; exec {exe} metrics --textfile out.prom");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(sandbox.path(""));
    let written = done(shell.env("SHEDLOCK_STORE", sandbox.store()));
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(sandbox.read("target"), "kept");
    let file = fs::symlink_metadata(sandbox.path("out.prom")).unwrap();
    assert!(file.is_file());
    assert_eq!(file.mode() & 0o777, 0o644);
    assert!(sandbox.read("out.prom").contains("shedlock_"));
    let names = fs::read_dir(sandbox.path("")).unwrap();
    let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
    // The link that was there before.
    assert_eq!(names.filter(|it| it.starts_with("out.prom.")).count(), 1);
}

#[test]
fn a_link_in_the_place_of_a_manual_page_is_replaced() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("man")).unwrap();
    fs::write(sandbox.path("target"), "kept").unwrap();
    symlink("../target", sandbox.path("man/shedlock-run.1")).unwrap();
    let written = done(&mut sandbox.bare(&["man", "--dir", "man"]));
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(sandbox.read("target"), "kept");
    assert!(
        sandbox
            .read("man/shedlock-run.1")
            .contains(".TH shedlock-run")
    );
}

#[test]
fn a_local_store_that_other_users_can_change_is_refused() {
    let sandbox = Sandbox::new();
    let run = |code: i32| {
        let arguments = ["run", "--local", "-n", "a", "--lock-at-most-for", "1m"];
        let ran = done(sandbox.bare(&arguments).args(["--", "true"]));
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let listed = done(&mut sandbox.bare(&["list", "--local"]));
        assert_eq!(listed.code, code, "{}", listed.stderr);
        assert!(
            listed.stderr == ran.stderr || code == 0,
            "{}",
            listed.stderr
        );
        ran.stderr
    };
    run(0);
    let folder = sandbox.path(".local/state/shedlock");
    let file = folder.join("locks.db");
    for made in [&folder, &sandbox.path(".local")] {
        assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
    }
    for (path, mode, least) in [
        (&folder, 0o777, 0o755),
        (&folder, 0o770, 0o750),
        (&file, 0o666, 0o644),
    ] {
        set_mode(path, mode);
        let place = path.display();
        assert_eq!(
            run(2),
            format!(
                "shedlock: cannot use the local store: other users may write to {place} (mode {mode:04o}), so \
                 they could change locks and runs in it; if you trust its content, run `chmod go-w {place}`\n"
            )
        );
        set_mode(path, least);
        run(0);
    }
    // Only root can give a file away.
    if chown(&folder, Some(4711), None).is_ok() {
        let refused = run(2);
        let said = format!("{} belongs to another user (uid 4711)", folder.display());
        assert!(refused.contains(&said), "{refused}");
        chown(&folder, Some(0), None).unwrap();
        let real = sandbox.path("real");
        fs::rename(&folder, &real).unwrap();
        symlink(&real, &folder).unwrap();
        run(0);
        std::os::unix::fs::lchown(&folder, Some(4711), None).unwrap();
        assert!(run(2).contains(&said));
    }
}

/// `shedlock` as a user who is not root, in a sandbox that this user may write to.
fn as_another_user(sandbox: &Sandbox) -> Command {
    set_mode(&sandbox.path(""), 0o777);
    let program = sandbox.path("shedlock");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_shedlock"), program).unwrap();
    }
    let mut user = Command::new("setpriv");
    user.args([
        "--reuid=4711",
        "--regid=4711",
        "--clear-groups",
        "./shedlock",
    ]);
    user.current_dir(sandbox.path("")).env_clear();
    user.env("PATH", std::env::var_os("PATH").unwrap());
    user
}

/// Only as root, which can run commands as another user. Root may read the memory of any process.
#[test]
fn the_command_cannot_read_the_store_from_the_processes_around_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // Of itself, of its parent, which is the watchdog, and of `run`.
    let script = "run=$(cut -d' ' -f4 /proc/$PPID/stat); for pid in $$ $PPID $run; do \
                  tr '\\0' '\\n' < /proc/$pid/environ > of 2>/dev/null && echo readable || echo hidden; \
                  done; grep -c SHEDLOCK_STORE= /proc/$$/environ";
    let mut user = as_another_user(&sandbox);
    user.args([
        "run",
        "-n",
        "a",
        "--lock-at-most-for",
        "1m",
        "--",
        "sh",
        "-c",
        script,
    ]);
    user.env("HOME", sandbox.path(""));
    let ran = done(user.env("SHEDLOCK_STORE", sandbox.store()));
    let words: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(words[..3], ["readable", "hidden", "hidden"], "{ran:?}");
}

#[test]
fn secrets_that_other_users_can_read_are_warned_of() {
    let sandbox = Sandbox::new();
    let url = "postgres://app:geheim@127.0.0.1:1/d";
    for name in ["url", "config.toml", "plain"] {
        fs::write(sandbox.path(name), url).unwrap();
        set_mode(&sandbox.path(name), 0o644);
    }
    fs::write(sandbox.path("config.toml"), format!("store = '{url}'\n")).unwrap();
    fs::write(sandbox.path("plain"), "postgres://app@127.0.0.1:1/d").unwrap();
    let warnings = |arguments: &[&str]| {
        let listed = done(&mut sandbox.bare(arguments));
        assert_eq!(listed.code, 69, "{}", listed.stderr);
        assert!(!listed.stderr.contains("geheim"), "{}", listed.stderr);
        let lines = listed.stderr.lines();
        let lines = lines.filter(|line| line.contains("other users of this host can read"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let file = |from: &str, name: &str, mode: &str| {
        format!(
            "shedlock: {from}: other users of this host can read the password of a store in {name} (mode \
             {mode}); run `chmod 600 {name}`"
        )
    };
    let run = |option: &'static str, value: &'static str| {
        let at_most = ["--lock-at-most-for", "1m", "--", "true"];
        [&["run", "-n", "a", option, value][..], &at_most].concat()
    };
    let of_file = run("--store-file", "url");
    assert_eq!(warnings(&of_file), [file("--store-file", "url", "0644")]);
    assert_eq!(warnings(&[&["-q"], &of_file[..]].concat()), [""; 0]);
    set_mode(&sandbox.path("url"), 0o640);
    assert_eq!(
        warnings(&["list", "--store-file", "url"]),
        [file("--store-file", "url", "0640")]
    );
    set_mode(&sandbox.path("url"), 0o600);
    assert_eq!(warnings(&of_file), [""; 0]);
    assert_eq!(warnings(&run("--store-file", "plain")), [""; 0]);
    assert_eq!(
        warnings(&["--config", "config.toml", "list"]),
        [file("configuration", "config.toml", "0644")]
    );
    assert_eq!(
        warnings(&run("--store", url)),
        [
            "shedlock: --store: other users of this host can read the password on the command line (ps); set \
             SHEDLOCK_STORE, or write the URL into a file and use --store-file"
        ]
    );
    let mut listed = sandbox.bare(&["list"]);
    let listed = done(listed.env("SHEDLOCK_STORE", url));
    assert!(!listed.stderr.contains("other users"), "{}", listed.stderr);
}

/// As under systemd's `ProtectHome=yes`, or for a service whose starter has kept `HOME=/root`.
#[test]
fn a_home_that_this_user_may_not_enter_has_no_settings() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let home = sandbox.path("closed");
    fs::create_dir(&home).unwrap();
    set_mode(&home, 0o000);
    let run: &[&str] = &[
        "run",
        "-n",
        "a",
        "--lock-at-most-for",
        "1m",
        "--",
        "echo",
        "ran",
    ];
    for (command, said) in [(run, "ran\n"), (&["list", "-o", "json"], "\"locks\"")] {
        let mut user = as_another_user(&sandbox);
        user.args(command).env("HOME", &home);
        let ran = done(user.env("SHEDLOCK_STORE", sandbox.store()));
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{command:?}");
        assert!(ran.stdout.contains(said), "{command:?}: {ran:?}");
    }
}
