//! `list`, `show` and `migrate`.

use serde_json::Value;

use super::common::{Sandbox, done, end, keys, signal};
use rustix::process::Signal;

const LOCK: [&str; 13] = [
    "fencing_token",
    "last_slot",
    "last_slot_ahead",
    "last_slot_done",
    "locked_at",
    "locked_until",
    "name",
    "owner",
    "pause_reason",
    "paused_by",
    "read_at",
    "slot_attempts",
    "state",
];

#[test]
fn an_empty_store_has_no_locks() {
    let sandbox = Sandbox::migrated();
    let list = done(&mut sandbox.shedlock(&["list"]));
    assert_eq!((list.code, list.stdout.as_str()), (0, "no locks\n"));
    let list = done(&mut sandbox.shedlock(&["list", "-o", "json"]));
    let json: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"version": 1, "store": "sqlite", "locks": []})
    );
}

#[test]
fn list_shows_who_holds_what() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.run("done", "1m", "true")).code, 0);
    let holder = sandbox
        .run("payroll", "1m", "echo x > up; exec sleep 60")
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);

    let list = done(&mut sandbox.shedlock(&["list"]));
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", list.stdout);
    assert!(lines[0].starts_with("NAME"), "{}", list.stdout);
    assert!(lines[1].starts_with("done     free "), "{}", list.stdout);
    assert!(lines[2].starts_with("payroll  held "), "{}", list.stdout);
    assert!(
        lines[2].contains(&format!("/{}/", holder.id())),
        "{}",
        list.stdout
    );

    let held = done(&mut sandbox.shedlock(&["list", "--held", "--output", "json"]));
    let json: Value = serde_json::from_str(&held.stdout).unwrap();
    assert_eq!(keys(&json), ["locks", "store", "version"]);
    assert_eq!(json["version"], 1);
    let locks = json["locks"].as_array().unwrap();
    assert_eq!(locks.len(), 1);
    assert_eq!(keys(&locks[0]), LOCK);
    assert_eq!(locks[0]["name"], "payroll");
    assert_eq!(locks[0]["state"], "held");
    assert!(locks[0]["fencing_token"].as_u64().unwrap() > 1_700_000_000_000_000);

    signal(holder.id(), Signal::TERM);
    end(holder);
}

#[test]
fn show_prints_everything_about_one_lock() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    let table = done(&mut sandbox.shedlock(&["show", "a"]));
    assert_eq!(table.code, 0);
    for field in [
        "name",
        "state",
        "last owner",
        "locked at",
        "fencing token",
        "read at",
    ] {
        let found = table.stdout.lines().any(|line| line.starts_with(field));
        assert!(found, "{field}: {}", table.stdout);
    }
    let json = done(&mut sandbox.shedlock(&["show", "a", "-o", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(keys(&json), ["lock", "store", "version"]);
    assert_eq!(keys(&json["lock"]), LOCK);
}

#[test]
fn a_missing_lock_gives_1() {
    let sandbox = Sandbox::migrated();
    let absent = done(&mut sandbox.shedlock(&["show", "a"]));
    assert_eq!((absent.code, absent.stdout.as_str()), (1, ""));
    let said = format!("shedlock: no lock \"a\" in {}; to see all", sandbox.store());
    assert!(absent.stderr.starts_with(&said), "{}", absent.stderr);
    assert!(
        absent.stderr.ends_with("run `shedlock list`\n"),
        "{}",
        absent.stderr
    );
    assert_eq!(done(&mut sandbox.bare(&["migrate", "--local"])).code, 0);
    let absent = done(&mut sandbox.bare(&["show", "a", "--local"]));
    assert!(
        absent.stderr.ends_with("run `shedlock list --local`\n"),
        "{}",
        absent.stderr
    );
    let absent = done(&mut sandbox.shedlock(&["show", "a", "-o", "json"]));
    assert_eq!(absent.code, 1);
    let json: Value = serde_json::from_str(&absent.stdout).unwrap();
    assert!(json["lock"].is_null());
}

#[test]
fn unlock_frees_by_force_and_prints_the_former_holder() {
    let sandbox = Sandbox::new();
    let holder = sandbox
        .run("a", "60s", "echo x > started; sleep 30")
        .spawn()
        .unwrap();
    sandbox.await_lines("started", 1);
    let owner = sandbox.lock("a")["owner"].as_str().unwrap().to_owned();
    let unlock = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(&["unlock", "a"]);
        done(command.args(arguments).env("USER", "op"))
    };

    let unforced = unlock(&[]);
    assert_eq!(unforced.code, 2);
    assert!(unforced.stderr.contains("--force"), "{}", unforced.stderr);
    let differs = unlock(&["--force", "--owner", "another/1/ff"]);
    assert_eq!((differs.code, differs.stdout.as_str()), (1, ""));
    assert!(differs.stderr.contains(&owner), "{}", differs.stderr);
    assert_eq!(sandbox.lock("a")["state"], "held");

    let freed = unlock(&["--force", "--owner", &owner]);
    assert_eq!(freed.code, 0, "{}", freed.stderr);
    assert!(
        freed.stdout.starts_with("a: freed by op@"),
        "{}",
        freed.stdout
    );
    let was = format!("; it was held by {owner} (until 20");
    assert!(freed.stdout.contains(&was), "{}", freed.stdout);
    assert_eq!(sandbox.lock("a")["state"], "free");

    let again = unlock(&["--force", "-o", "json"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("it is not held"), "{}", again.stderr);
    let json: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(keys(&json), ["freed_by", "lock", "store", "version"]);
    assert!(json["freed_by"].is_null());
    assert_eq!(json["lock"]["state"], "free");

    // The previous owner: its command has run, and its unlock changes nothing.
    assert_eq!(
        done(&mut sandbox.run("a", "60s", "echo ran")).stdout,
        "ran\n"
    );
    let lock = sandbox.lock("a");
    signal(holder.id(), Signal::TERM);
    let ended = end(holder);
    let said = "shedlock: a: the lease was lost before the command ended (the lock was freed by \
                force or paused with --now, taken over while this process was suspended, or its record was changed): \
                another run may have overlapped this one; the command exited with 143\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (75, said));
    assert_eq!(sandbox.lock("a")["locked_until"], lock["locked_until"]);
    let absent = done(&mut sandbox.shedlock(&["unlock", "--force", "b"]));
    assert_eq!(absent.code, 1);
    assert!(absent.stderr.contains("no such lock"), "{}", absent.stderr);
}

#[test]
fn migrate_twice_changes_nothing_the_second_time() {
    let sandbox = Sandbox::new();
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    let again = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "sqlite: nothing to do\n")
    );
    let json = done(&mut sandbox.shedlock(&["migrate", "-o", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"version": 1, "store": "sqlite", "changes": []})
    );
}

#[test]
fn a_closed_standard_output_is_not_an_error() {
    let sandbox = Sandbox::migrated();
    let script = format!("{} list | true", env!("CARGO_BIN_EXE_shedlock"));
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &format!("set -o pipefail; {script}")]);
    shell.env("SHEDLOCK_STORE", sandbox.store());
    let done = done(&mut shell);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
}
