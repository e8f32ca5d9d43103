//! Which store is used, and the messages about it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use super::common::{Done, Sandbox, done, end};

const RUN: [&str; 7] = [
    "run",
    "--name",
    "a",
    "--lock-at-most-for",
    "1m",
    "--",
    "true",
];

fn with_store(sandbox: &Sandbox, store: &str) -> Done {
    let mut command = sandbox.bare(&RUN);
    done(command.env("SHEDLOCK_STORE", store))
}

#[test]
fn without_a_store_it_works_and_prints_once_that_it_is_local() {
    let sandbox = Sandbox::new();
    let first = done(&mut sandbox.bare(&RUN));
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(first.stderr.lines().count(), 1, "{}", first.stderr);
    assert!(first.stderr.contains("this host only"), "{}", first.stderr);
    let file = sandbox.path(".local/state/shedlock/locks.db");
    assert!(
        first.stderr.contains(file.to_str().unwrap()),
        "{}",
        first.stderr
    );
    assert!(file.exists());
    let second = done(&mut sandbox.bare(&RUN));
    assert_eq!((second.code, second.stderr.as_str()), (0, ""));
    let list = done(&mut sandbox.bare(&["list"]));
    assert!(list.stdout.contains("\na "), "{}", list.stdout);
}

#[test]
fn a_notice_that_was_not_printed_does_not_count() {
    let sandbox = Sandbox::new();
    let quiet = done(sandbox.bare(&["-q"]).args(RUN));
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    let first = done(&mut sandbox.bare(&RUN));
    assert!(first.stderr.contains("this host only"), "{}", first.stderr);
    let second = done(&mut sandbox.bare(&RUN));
    assert_eq!((second.code, second.stderr.as_str()), (0, ""));
}

#[test]
fn the_local_store_can_be_created_concurrently() {
    let sandbox = Sandbox::new();
    let runs: Vec<_> = (0..8)
        .map(|_| sandbox.bare(&RUN).spawn().unwrap())
        .collect();
    let ended: Vec<Done> = runs.into_iter().map(end).collect();
    for done in &ended {
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let told = ended
        .iter()
        .filter(|done| done.stderr.contains("this host only"));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_store_that_hangs_does_not_hold_a_command_beyond_its_connect_timeout() {
    let sandbox = Sandbox::new();
    // Accepts and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let store = format!("postgres://u:geheim@{address}/d?table=t");
    // In the words of the store's client, which has the same limit.
    let said =
        format!("postgres at {address}/d: cannot connect: timed out waiting for a connection; ");
    for arguments in [
        &["list"][..],
        &["show", "a"],
        &["unlock", "a", "--force"],
        &["slot", "reset", "a"],
        &["migrate"],
    ] {
        let mut command = sandbox.bare(arguments);
        command.args(["--connect-timeout", "200ms", "--store", &store]);
        let failed = done(&mut command);
        assert_eq!(failed.code, 69, "{arguments:?}: {}", failed.stderr);
        let said = format!("shedlock: {said}");
        assert!(failed.stderr.starts_with(&said), "{}", failed.stderr);
    }
    let mut run = sandbox.bare(&["run", "--connect-timeout", "200ms", "--store", &store]);
    let failed = done(run.args(&RUN[1..]));
    assert_eq!(failed.code, 69, "{}", failed.stderr);
    let said = format!("shedlock: a: the command was not started: {said}");
    assert!(failed.stderr.starts_with(&said), "{}", failed.stderr);
}

#[test]
fn with_local_nothing_is_printed() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.bare(&["run", "--local"]);
    command.args(&RUN[1..]);
    let local = done(&mut command);
    assert_eq!((local.code, local.stderr.as_str()), (0, ""));
}

#[test]
fn a_state_folder_of_its_own_is_used() {
    let sandbox = Sandbox::new();
    let state = sandbox.path("ä state?");
    let done = done(sandbox.bare(&RUN).env("XDG_STATE_HOME", &state));
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(state.join("shedlock/locks.db").exists());
}

#[test]
fn inside_kubernetes_a_local_lock_must_be_explicit() {
    let sandbox = Sandbox::new();
    let pod = |command: &mut Command| done(command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1"));
    let refused = pod(&mut sandbox.bare(&RUN));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--local"), "{}", refused.stderr);
    assert!(!sandbox.path(".local").exists());
    assert_eq!(
        pod(sandbox.bare(&["run", "--local"]).args(&RUN[1..])).code,
        0
    );
    assert_eq!(pod(&mut sandbox.shedlock(&RUN)).code, 0);
}

#[test]
fn without_a_home_the_error_names_what_to_set() {
    let sandbox = Sandbox::new();
    for home in [None, Some("")] {
        let mut command = sandbox.bare(&RUN);
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        let refused = done(&mut command);
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains("HOME"), "{}", refused.stderr);
        assert!(refused.stderr.contains("--store"), "{}", refused.stderr);
    }
}

#[test]
fn a_state_folder_that_cannot_be_created_is_named() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("file"), "").unwrap();
    let state = sandbox.path("file");
    let refused = done(sandbox.bare(&RUN).env("XDG_STATE_HOME", &state));
    assert_eq!(refused.code, 69);
    assert!(
        refused.stderr.contains(state.to_str().unwrap()),
        "{}",
        refused.stderr
    );
}

#[test]
fn invalid_stores_are_usage_errors() {
    let sandbox = Sandbox::new();
    for store in ["", "nonsense", "oracle://u:geheim@h/d", "memory:"] {
        let refused = with_store(&sandbox, store);
        assert_eq!(refused.code, 2, "{store:?}: {}", refused.stderr);
        assert!(
            refused.stderr.starts_with("shedlock: "),
            "{}",
            refused.stderr
        );
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
    }
}

#[test]
fn a_password_is_never_printed() {
    let sandbox = Sandbox::new();
    let urls = [
        "postgres://u:geheim@127.0.0.1:1/d",
        "postgres://127.0.0.1:1/d?user=u&password=geheim",
        "mysql://u:geheim@127.0.0.1:1/d",
        "mysql://u:ge/geheim@127.0.0.1:1/d",
        "postgres://u:geheim@no-such-host.invalid/d",
        "redis://u:geheim@127.0.0.1:1",
        "redis-sentinel://u:geheim@127.0.0.1:1/m?sentinel_password=geheim",
        "redis-cluster://u:geheim@127.0.0.1:1",
        "nats://u:geheim@127.0.0.1:1",
        "nats://geheim@127.0.0.1:1",
        "wrong://u:geheim@h/d",
        "u:geheim@h/d",
    ];
    for url in urls {
        for arguments in [&["-vvv", "list"][..], &["-vvv", "migrate"]] {
            let done = done(sandbox.bare(arguments).env("SHEDLOCK_STORE", url));
            assert_ne!(done.code, 0, "{url}");
            let said = done.stdout + &done.stderr;
            assert!(!said.contains("geheim"), "{url}: {said}");
        }
    }
    let misplaced = done(&mut sandbox.bare(&["run", "postgres://u:geheim@h/d"]));
    assert_eq!(misplaced.code, 2);
    assert!(!misplaced.stderr.contains("geheim"), "{}", misplaced.stderr);
    assert!(
        misplaced.stderr.contains("postgres://u:***@h/d"),
        "{}",
        misplaced.stderr
    );
}

#[test]
fn the_watchdog_has_no_url_in_its_command_line() {
    let sandbox = Sandbox::new();
    let store = sandbox.store();
    let mut command = sandbox.bare(&["run", "--store", &store]);
    command
        .args(&RUN[1..6])
        .args(["sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline"]);
    let done = done(&mut command);
    assert!(
        done.stdout.starts_with("lease-watchdog __watchdog "),
        "{}",
        done.stdout
    );
    assert!(!done.stdout.contains("sqlite"), "{}", done.stdout);
}

/// Serves each connection with this reply to whatever arrives first, or to silence, and then closes it. Returns the
/// address.
fn server(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let patience = Some(Duration::from_millis(100));
            connection.set_read_timeout(patience).unwrap();
            // The client may wait for the server, or may have closed it.
            let _ = connection.read(&mut [0; 1_000]);
            let _ = connection.write_all(reply);
        }
    });
    address
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";

#[test]
fn a_server_of_another_protocol_is_reported_on_one_line_with_advice_that_fits() {
    let sandbox = Sandbox::new();
    let address = server(HTTP);
    let refused = |scheme: &str| {
        let url = format!("{scheme}://{address}");
        let refused = done(&mut sandbox.bare(&["list", "--store", &url]));
        assert_eq!(refused.code, 69, "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        refused.stderr
    };
    let redis = refused("redis");
    assert!(redis.contains("is not Redis protocol"), "{redis}");
    assert!(redis.contains("check the host and the port"), "{redis}");
    let nats = refused("nats");
    assert!(nats.contains("HTTP/1.1 400 Bad Request"), "{nats}");
}

#[test]
fn the_log_of_a_driver_does_not_repeat_the_error() {
    let sandbox = Sandbox::new();
    let address = server(b"");
    for scheme in ["zookeeper", "nats", "mysql", "redis"] {
        let database = if scheme == "mysql" { "/d" } else { "" };
        let url = format!("{scheme}://{address}{database}");
        let list = |options: &[&str]| {
            let mut command = sandbox.bare(&["list", "--store", &url]);
            done(command.args(options)).stderr
        };
        let said = list(&[]);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with(&format!("shedlock: {scheme} at ")),
            "{said}"
        );
        if scheme == "zookeeper" {
            assert!(list(&["-v"]).contains("session"), "{}", list(&["-v"]));
        }
    }
}

#[test]
fn an_address_that_the_url_does_not_contain_is_named() {
    let sandbox = Sandbox::new();
    for (url, expected) in [
        (
            "postgres:///app",
            "postgres at 127.0.0.1:1/app (no host in the URL): ",
        ),
        (
            "postgres:///app?host=127.0.0.2",
            "postgres at 127.0.0.2:1/app: ",
        ),
        (
            "postgres://127.0.0.3/app?host=127.0.0.2",
            "postgres at 127.0.0.2:1/app: ",
        ),
        ("postgres://127.0.0.2/app", "postgres at 127.0.0.2:1/app: "),
    ] {
        let mut command = sandbox.bare(&["list", "--store", url]);
        command.env("PGHOST", "127.0.0.1").env("PGPORT", "1");
        let refused = done(&mut command);
        assert_eq!(refused.code, 69, "{}", refused.stderr);
        let expected = format!("shedlock: {expected}");
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    }
}

#[test]
fn no_part_of_a_password_is_printed_as_a_host() {
    let sandbox = Sandbox::new();
    for scheme in ["postgres", "mysql", "redis", "consul", "mongodb"] {
        let url = format!("{scheme}://app:se@geheim/cret@127.0.0.1:1/d");
        let refused = done(sandbox.bare(&["list"]).env("SHEDLOCK_STORE", url));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
        assert!(refused.stderr.contains("%2F"), "{}", refused.stderr);
    }
}

#[test]
fn a_lock_that_does_not_exist_is_reported_with_the_store_that_was_searched() {
    let sandbox = Sandbox::migrated();
    let store = sandbox.store();
    let absent = format!("there is no such lock in {store}; to see all, run `shedlock list`\n");
    for arguments in [&["unlock", "b", "--force"][..], &["slot", "reset", "b"]] {
        let done = done(&mut sandbox.shedlock(arguments));
        assert_eq!(done.code, 1, "{}", done.stderr);
        assert!(done.stderr.ends_with(&absent), "{}", done.stderr);
    }
}
