//! Stores that hang, or that speak another protocol, and passwords in logs. `transcripts/store.md` has the others.

use std::io::{Read, Write};
use std::net::TcpListener;
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

/// The local store can be created concurrently.
#[test]
fn created_concurrently() {
    let sandbox = Sandbox::new();
    let run = || {
        let mut run = sandbox.bare(&RUN);
        run.env("SHEDLOCK_STORE", "local").spawn().unwrap()
    };
    let runs: Vec<_> = (0..8).map(|_| run()).collect();
    let ended: Vec<Done> = runs.into_iter().map(end).collect();
    for done in &ended {
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
}

/// A store that hangs does not hold a command beyond its `--connect-timeout`.
#[test]
fn hangs() {
    let sandbox = Sandbox::new();
    // Accepts and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let store = format!("postgres://u@{address}/d?table=t");
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

/// A password is never printed, however much is logged.
#[test]
fn password() {
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

/// A server of another protocol is reported on one line, with advice that fits.
#[test]
fn another_protocol() {
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

/// The log of a driver does not repeat the error.
#[test]
fn log_of_a_driver() {
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

/// `list` of this store, whose server cannot be reached, so that a URL that is read ends with 69.
fn unreachable(sandbox: &Sandbox, url: &str, variables: &[(&str, &str)]) -> Done {
    let mut list = sandbox.bare(&["list", "--store", url]);
    done(list.envs(variables.iter().copied()))
}

/// Variables of libpq with an unknown value are refused, as libpq does.
#[test]
fn unknown_variable() {
    let sandbox = Sandbox::new();
    let url = "postgres://u@127.0.0.1:1/d";
    for wrong in ["bogus", "verify_full", ""] {
        let refused = unreachable(&sandbox, url, &[("PGSSLMODE", wrong)]);
        let said = format!(
            "shedlock: --store: postgres: unknown value {wrong:?} for the environment variable PGSSLMODE; use disable, allow, \
             prefer, require, verify-ca or verify-full\n"
        );
        assert_eq!((refused.code, refused.stderr), (2, said));
    }
    for right in ["disable", "verify-full"] {
        let read = unreachable(&sandbox, url, &[("PGSSLMODE", right)]);
        assert_eq!(read.code, 69, "{}", read.stderr);
    }
    // The URL takes precedence.
    let url = format!("{url}?sslmode=disable");
    let read = unreachable(&sandbox, &url, &[("PGSSLMODE", "bogus")]);
    assert_eq!(read.code, 69, "{}", read.stderr);
}

/// Quotes that an env file has left around the URL.
#[test]
fn quotes() {
    let sandbox = Sandbox::new();
    for url in [
        "\"postgres://u:geheim@h/d\"",
        "'sqlite:/a.db'",
        "\"redis://h",
    ] {
        let refused = done(sandbox.bare(&["list"]).env("SHEDLOCK_STORE", url));
        let said = "shedlock: SHEDLOCK_STORE: the store's URL begins with a quotation mark; remove the quotes around it";
        assert!(refused.stderr.starts_with(said), "{}", refused.stderr);
        assert_eq!(refused.code, 2);
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
    }
}

/// URLs as other programs read them: what is harmless is accepted.
#[test]
fn urls_of_other_programs() {
    let sandbox = Sandbox::new();
    for url in [
        "postgres://u@127.0.0.1:1/d?sslmode=require&channel_binding=prefer&gssencmode=disable",
        "postgres://u@127.0.0.1:1/d?channel_binding=disable&gssencmode=prefer&target_session_attrs=any",
        "postgres://u@127.0.0.1:1/d?keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3",
        "postgres://u@127.0.0.1:1/d?tcp_user_timeout=30000&client_encoding=UTF8&fallback_application_name=app",
        "postgresql://u@127.0.0.1:1/d?target_session_attrs=read-write&connect_timeout=10",
        "postgres://u@127.0.0.1:1/d?sslrootcert=system&sslmode=verify-full&sslnegotiation=postgres",
        "postgres://u@127.0.0.1:1/d?sslrootcert=system",
        "mysql://u@127.0.0.1:1/d?ssl=true",
        "mysql://u@127.0.0.1:1/d?ssl_mode=verify_identity",
        "mysql://u@127.0.0.1:1/d?sslmode=require",
        "mysql://u@127.0.0.1:1/d?sslMode=VERIFY_CA",
        "mysql://u@127.0.0.1:1/d?ssl-mode=DISABLED",
        "valkey://u:p@127.0.0.1:1/2",
        "valkeys://127.0.0.1:1",
    ] {
        let read = unreachable(&sandbox, url, &[]);
        assert_eq!(read.code, 69, "{url}: {}", read.stderr);
        assert!(
            read.stderr.contains("Connection refused"),
            "{url}: {}",
            read.stderr
        );
    }
    let unverified = unreachable(
        &sandbox,
        "mysql://u@203.0.113.1:1/d?sslmode=require&connect_timeout=50ms",
        &[],
    );
    assert!(
        unverified.stderr.contains("ssl-mode=REQUIRED"),
        "{}",
        unverified.stderr
    );
}

/// What a driver cannot do is refused with a way out.
#[test]
fn urls_that_ask_for_more() {
    let sandbox = Sandbox::new();
    let one_host = "the store's URL lists several hosts, and this driver connects to one host only; write the host of a \
                    proxy, or a DNS name, that always leads to the primary";
    for (url, said) in [
        (
            "postgres://u:geheim@h/d?sslmode=require&channel_binding=require",
            "option \"channel_binding=require\" in the URL is not supported by this driver; remove it, or use disable or \
             prefer",
        ),
        (
            "postgres://u:geheim@h/d?gssencmode=require",
            "option \"gssencmode=require\" in the URL is not supported by this driver; remove it, or use disable or prefer",
        ),
        (
            "postgres://u:geheim@h/d?target_session_attrs=standby",
            "option \"target_session_attrs=standby\" in the URL is not supported by this driver; remove it, or use any, \
             read-write or primary",
        ),
        (
            "postgres://u:geheim@h/d?passfile=/etc/pgpass",
            "option \"passfile\" in the URL is not supported by this driver; remove it",
        ),
        (
            "postgres://u:geheim@h/d?service=app",
            "option \"service\" in the URL is not supported by this driver; remove it",
        ),
        (
            "postgres://u:geheim@h/d?keepalives_idle=soon",
            "option \"keepalives_idle\" in the URL must be a number, not \"soon\"",
        ),
        (
            "postgres://u:geheim@h/d?connect_timeout=0",
            "option \"connect_timeout\" in the URL must be longer than zero",
        ),
        (
            "postgres://u:geheim@h/d?sslrootcert=system&sslmode=require",
            "option \"sslrootcert=system\" in the URL cannot be combined with sslmode=require; use sslmode=verify-full",
        ),
        (
            "postgres://u:geheim@a:5432,b:5432/d?target_session_attrs=read-write",
            one_host,
        ),
        ("postgres://u:geheim@a,b/d", one_host),
        ("postgres://u:geheim@h/d?host=a,b", one_host),
        ("mysql://u:geheim@a:3306,b:3306/d", one_host),
        (
            "mysql://u:geheim@h/d?useSSL=true",
            "option \"useSSL\" in the URL is not an option of this driver; use ssl-mode=REQUIRED, or \
             ssl-mode=VERIFY_IDENTITY with ssl-ca",
        ),
        (
            "mysql://u:geheim@h/d?ssl-mode=bogus",
            "unknown value \"bogus\" for ssl-mode in the URL; use DISABLED, PREFERRED, REQUIRED, VERIFY_CA or \
             VERIFY_IDENTITY",
        ),
        (
            "mysql://u:geheim@h/d?ssl=true&ssl-mode=VERIFY_CA",
            "options \"ssl-mode\" and \"ssl\" in the URL are the same; remove one",
        ),
        (
            "unix://run/redis.sock",
            "cannot read the store's URL: it has no absolute path of a socket; write it like \
             unix:///run/redis/redis.sock?db=0",
        ),
    ] {
        let refused = unreachable(&sandbox, url, &[]);
        let store = match url.split(':').next() {
            Some("unix") => "redis: ".to_owned(),
            store => format!("{}: ", store.unwrap_or_default()),
        };
        // What is before it is about the password on the command line.
        let said = format!("shedlock: --store: {store}{said}\n");
        assert_eq!(refused.code, 2, "{url}");
        assert!(refused.stderr.ends_with(&said), "{url}: {}", refused.stderr);
    }
}

#[test]
fn doctor_says_each_time_that_a_server_is_not_verified() {
    let sandbox = Sandbox::new();
    let store = ["--store", "redis://db.invalid/?connect_timeout=1s"];
    let said = |command: &str| done(&mut sandbox.bare(&[&[command][..], &store].concat())).stderr;
    const WARNS: &str = "the server is not verified by TLS";
    let (first, second) = (said("list"), said("list"));
    assert!(first.contains(WARNS), "{first}");
    assert!(!second.contains(WARNS), "{second}");
    for _ in 0..2 {
        let doctor = said("doctor");
        assert!(doctor.contains(WARNS), "{doctor}");
    }
}
