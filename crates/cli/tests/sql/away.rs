//! A server that is away for a moment, or is reached in another way.

use std::io::{BufRead as _, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use shedlock_conformance::support::unique;
use shedlock_rig::given::server_if_any;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::common::{Sandbox, closed_port, done, end, eventually, pause};

/// The host and the port of the URL of a server.
fn place_of(url: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    format!("{}:{}", url.host_str().unwrap(), url.port().unwrap())
}

/// Passes on what arrives on this connection, until one side ends it.
macro_rules! pass {
    ($connection:expr, $server:expr) => {{
        let (mut here, mut there) = ($connection, TcpStream::connect($server).unwrap());
        let (mut from, mut to) = (here.try_clone().unwrap(), there.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        thread::spawn(move || {
            let _ = std::io::copy(&mut there, &mut here);
            let _ = here.shutdown(Shutdown::Both);
        });
    }};
}

/// What the recipes for crontab and systemd rely on.
#[test]
fn a_server_that_restarts_does_not_cost_the_slot_if_run_waits() {
    let Some(server) = server_if_any("postgres") else {
        return;
    };
    let sandbox = Sandbox::new();
    let place = place_of(&server);
    let (away, here) = closed_port();
    let table = unique("away");
    let direct = format!("{server}?table={table}");
    let store = direct.replace(&place, &here.to_string());
    assert_eq!(
        done(&mut sandbox.bare(&["migrate", "--store", &direct])).code,
        0
    );
    let slot = ["--every", "30000d", "--store", &store];
    let at_once = done(&mut sandbox.run_with("a", "60s", &slot, "echo ran"));
    assert_eq!((at_once.code, &*at_once.stdout), (69, ""), "{at_once:?}");
    let patient = [&slot[..], &["--lock-wait", "1m"]].concat();
    let waiting = sandbox
        .run_with("a", "60s", &patient, "echo ran")
        .spawn()
        .unwrap();
    pause(Duration::from_secs(2));
    rustix::net::listen(&away, 128).unwrap();
    let restarted = TcpListener::from(away);
    thread::spawn(move || {
        for connection in restarted.incoming() {
            pass!(connection.unwrap(), &place);
        }
    });
    let ended = end(waiting);
    assert_eq!((ended.code, &*ended.stdout), (0, "ran\n"), "{ended:?}");
}

/// As VACUUM FULL and some forms of ALTER TABLE do, for minutes.
#[test]
fn a_table_that_is_locked_when_the_command_ends_does_not_keep_the_lock() {
    let Some(server) = server_if_any("postgres") else {
        return;
    };
    let sandbox = Sandbox::new();
    let table = unique("locked");
    let store = format!("{server}?table={table}");
    let migrated = done(&mut sandbox.bare(&["migrate", "--no-journal", "--store", &store]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let script = "echo x > up; until [ -e go ]; do sleep 0.05; done";
    let mut running = sandbox
        .run_with("a", "10m", &["--store", &store], script)
        .spawn()
        .unwrap();
    sandbox.await_lines("up", 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let run = |text: String, connection: &mut PgConnection| {
        let ran = connection.execute(AssertSqlSafe(text));
        runtime.block_on(ran).unwrap();
    };
    let mut other = runtime.block_on(PgConnection::connect(&server)).unwrap();
    run("BEGIN".to_owned(), &mut other);
    run(format!("LOCK TABLE {table}"), &mut other);
    std::fs::write(sandbox.path("go"), "").unwrap();
    let mut stderr = BufReader::new(running.stderr.take().unwrap()).lines();
    let retries = stderr.next().unwrap().unwrap();
    assert!(retries.contains("cannot release the lock yet"), "{retries}");
    let given_up = stderr.next().unwrap().unwrap();
    let goes_on = "; this goes on in the background until the lease ends at 20";
    assert!(given_up.contains(goes_on), "{given_up}");
    assert!(stderr.next().is_none());
    assert_eq!(end(running).code, 0);
    run("ROLLBACK".to_owned(), &mut other);
    let show = ["show", "a", "-o", "json", "--store", &store];
    eventually("a release", || {
        let shown = done(&mut sandbox.bare(&show));
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["lock"]["state"] == "free"
    });
}

#[test]
fn redis_is_reached_by_its_unix_socket() {
    let Some(server) = server_if_any("redis") else {
        return;
    };
    let sandbox = Sandbox::new();
    let place = place_of(&server);
    let socket = sandbox.path("a redis.sock");
    let shown = socket.display().to_string();
    let environment = unique("socket");
    for scheme in ["unix", "redis+unix"] {
        let path = shown.replace(' ', "%20");
        let store = format!("{scheme}://{path}?db=0&environment={environment}");
        let list = || done(&mut sandbox.bare(&["list", "--store", &store]));
        let refused = list();
        let said = format!(
            "shedlock: redis at {path}: cannot connect: No such file or directory (os error 2); nothing was written; check \
             that the server is up, and that the path in the URL is that of its socket, then retry\n"
        );
        assert_eq!((refused.code, refused.stderr), (69, said));
        let listener = UnixListener::bind(&socket).unwrap();
        let place = place.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                pass!(connection.unwrap(), &place);
            }
        });
        let options = ["--store", &store];
        let ran = done(&mut sandbox.run_with("a", "60s", &options, "echo ran"));
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "ran\n", ""));
        let listed = list();
        assert!(listed.stdout.contains("free"), "{listed:?}");
        std::fs::remove_file(&socket).unwrap();
    }
}
