//! The dashboard: what it serves, whom it lets in, and how it ends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::common::{Done, Sandbox, done, end, eventually, keeps_of, signal};
use super::server::{Server, status};

pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let migrated = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    sandbox
}

/// A line for a file of users.
fn line_for(sandbox: &Sandbox, user: &str, password: &str) -> Done {
    let mut command = sandbox.bare(&["ui", "--hash-password", user]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{password}").unwrap();
    drop(stdin);
    end(child)
}

#[test]
fn a_browser_sees_the_job_that_just_ran() {
    let sandbox = sandbox();
    let ran = done(&mut sandbox.run("payroll", "1m", "true"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let server = Server::start(&sandbox, &[]);
    let line = format!(
        "shedlock: the dashboard is at http://127.0.0.1:{}/\n",
        server.port
    );
    assert_eq!(server.said, line);
    assert!(server.get("/", "").contains("location: now\r\n"));
    let jobs = server.get("/jobs", "");
    assert!(jobs.contains("<bdi>payroll</bdi>"), "{jobs}");
    assert!(jobs.contains("the last 1: 1 succeeded"), "{jobs}");
    let json = server.get("/api/jobs", "");
    let json: Value = serde_json::from_str(json.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let printed = done(&mut sandbox.shedlock(&["jobs", "-o", "json"]));
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(json["jobs"], printed["jobs"]);
    let ended = server.stop();
    assert_eq!((ended.code, &*ended.stdout), (0, ""));
}

#[test]
fn what_an_operator_does_is_in_the_history() {
    let sandbox = sandbox();
    done(&mut sandbox.run("payroll", "1m", "true"));
    let server = Server::start(&sandbox, &[]);
    let reply = server.post("name=payroll&do=pause&reason=mail", "");
    assert_eq!(status(&reply), "303", "{reply}");
    assert_eq!(sandbox.lock("payroll")["state"], "paused");
    let history = done(&mut sandbox.shedlock(&["history", "payroll", "-o", "json"]));
    let history: Value = serde_json::from_str(&history.stdout).unwrap();
    let action = &history["actions"][0];
    assert_eq!(
        (&action["action"], &action["reason"]),
        (&"pause".into(), &"mail".into())
    );
    // The user of the operating system, on whose word it is.
    assert_eq!(action["is_authenticated"], false);
    server.stop();
    let server = Server::start(&sandbox, &["--read-only"]);
    let refused = server.post("name=payroll&do=resume", "");
    assert_eq!(status(&refused), "403", "{refused}");
    assert_eq!(sandbox.lock("payroll")["state"], "paused");
    server.stop();
}

#[test]
fn only_users_of_the_file_are_let_in() {
    let sandbox = sandbox();
    let alice = line_for(&sandbox, "alice", "secret");
    assert_eq!(alice.code, 0, "{}", alice.stderr);
    assert!(
        alice.stdout.starts_with("alice:$2b$11$"),
        "{}",
        alice.stdout
    );
    let reader = line_for(&sandbox, "bob", "other").stdout;
    let text = format!("# users\n{}{}:read\n", alice.stdout, reader.trim_end());
    fs::write(sandbox.path("users"), text).unwrap();
    let server = Server::start(&sandbox, &["--auth-file", "users"]);
    // alice:secret, bob:other and alice:wrong.
    let [alice, bob, wrong] = ["YWxpY2U6c2VjcmV0", "Ym9iOm90aGVy", "YWxpY2U6d3Jvbmc="]
        .map(|it| format!("Authorization: Basic {it}\r\n"));
    for headers in ["", &wrong, "Authorization: Basic !\r\n"] {
        let reply = server.get("/now", headers);
        assert_eq!(status(&reply), "401", "{reply}");
        assert!(
            reply.contains("www-authenticate: Basic realm=\"shedlock\""),
            "{reply}"
        );
        assert!(!reply.contains("<h1>"), "{reply}");
    }
    // The second time, the password is remembered.
    for _ in 0..2 {
        assert_eq!(status(&server.get("/now", &alice)), "200");
        assert_eq!(status(&server.get("/now", &wrong)), "401");
    }
    assert_eq!(status(&server.get("/now", &bob)), "200");
    assert_eq!(status(&server.post("name=payroll&do=pause", &bob)), "403");
    let pause = "name=payroll&do=pause&create=yes";
    assert_eq!(status(&server.post(pause, &alice)), "303");
    let page = server.get("/audit", &alice);
    assert!(
        page.contains("<bdi>alice</bdi> <span class=\"badge ok\">signed in"),
        "{page}"
    );
    server.stop();
}

#[test]
fn a_foreign_host_is_refused_on_a_loopback_address() {
    let sandbox = sandbox();
    let server = Server::start(
        &sandbox,
        &["--prefix", "/ops/", "--allow-host", "ops.example"],
    );
    assert!(server.said.ends_with("/ops/\n"), "{}", server.said);
    let get = |host: &str| {
        server.send(&format!(
            "GET /ops/now HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    };
    for host in ["localhost", "127.0.0.1:8460", "[::1]", "ops.example"] {
        assert_eq!(status(&get(host)), "200", "{host}");
    }
    let refused = get("evil.example");
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("(--allow-host)"), "{refused}");
    assert!(server.get("/ops", "").contains("location: ./ops/now\r\n"));
    server.stop();
}

#[test]
fn several_stores_are_shown_by_name() {
    let (sandbox, other) = (sandbox(), sandbox_with("nightly"));
    fs::write(sandbox.path("url"), other.store()).unwrap();
    let url = format!("reports={}", other.store());
    let server = Server::start(
        &sandbox,
        &[
            "--store-name",
            "main",
            "--also-store",
            &url,
            "--also-store-file",
            "again=url",
        ],
    );
    for store in ["reports", "again"] {
        let jobs = server.get(&format!("/jobs?store={store}"), "");
        assert!(jobs.contains("nightly"), "{jobs}");
    }
    assert!(!server.get("/jobs?store=main", "").contains("nightly"));
    server.stop();
}

fn sandbox_with(job: &str) -> Sandbox {
    let sandbox = sandbox();
    done(&mut sandbox.run(job, "1m", "true"));
    sandbox
}

#[test]
fn an_address_that_others_can_reach_needs_a_lock_on_the_door() {
    let sandbox = sandbox();
    let alice = line_for(&sandbox, "alice", "secret");
    fs::write(sandbox.path("users"), alice.stdout).unwrap();
    let clear =
        "passwords would be sent in clear text; add --tls-cert and --tls-key, or --behind-proxy";
    for (options, why) in [
        (
            &[][..],
            "everyone who can reach this address could free locks; add --auth-file",
        ),
        (
            &["--behind-proxy"],
            "everyone who can reach this address could free locks",
        ),
        (&["--auth-file", "users"], clear),
        (&["--auth-file", "users", "--read-only"], clear),
    ] {
        let arguments = [&["ui", "--listen", "0.0.0.0:0"][..], options].concat();
        let refused = done(&mut sandbox.shedlock(&arguments));
        assert_eq!(refused.code, 2, "{options:?}: {}", refused.stderr);
        let start = "shedlock: --listen 0.0.0.0:0: the dashboard was not started: ";
        assert!(refused.stderr.starts_with(start), "{}", refused.stderr);
        assert!(
            refused.stderr.contains(why),
            "{options:?}: {}",
            refused.stderr
        );
    }
    for options in [
        &["--read-only"][..],
        &["--auth-file", "users", "--behind-proxy"],
    ] {
        let arguments = [&["ui", "--listen", "0.0.0.0:0"][..], options].concat();
        Server::of(&mut sandbox.shedlock(&arguments)).stop();
    }
}

#[test]
fn what_is_wrong_is_named_before_anything_is_served() {
    let sandbox = sandbox();
    fs::write(sandbox.path("users"), "# none\n").unwrap();
    fs::write(sandbox.path("plain"), "\nalice:secret\n").unwrap();
    let costly = "alice:$2y$31$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\n";
    fs::write(sandbox.path("costly"), costly).unwrap();
    fs::write(sandbox.path("pem"), "").unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let in_use = format!("cannot listen on {taken}: ");
    let twice = format!("main={}", sandbox.store());
    for (options, code, text) in [
        (
            &["--auth-file", "none"][..],
            2,
            "--auth-file: cannot read none: ",
        ),
        (
            &["--auth-file", "users"],
            2,
            "--auth-file: users has no users; add the line that",
        ),
        (
            &["--auth-file", "plain"],
            2,
            "--auth-file: plain:2: this is not a bcrypt hash; ",
        ),
        (
            &["--auth-file", "costly"],
            2,
            "--auth-file: costly:1: the cost of this hash is 31; ",
        ),
        (&["--tls-cert", "pem"], 2, "--tls-key"),
        (
            &["--tls-cert", "no", "--tls-key", "pem"],
            2,
            "--tls-cert: cannot use no: ",
        ),
        (
            &["--tls-cert", "pem", "--tls-key", "pem"],
            2,
            "--tls-cert: cannot use pem: there is no certificate in it; check the path, and that",
        ),
        (&["--prefix", "ops"], 2, "a prefix starts with a slash"),
        (
            &["--also-store", "postgres://h/d"],
            2,
            "write a name, an equals sign",
        ),
        (&["--also-store", "x=nosuch:y"], 2, "--also-store x: "),
        (
            &["--store-name", "main", "--also-store", &twice],
            2,
            "two stores are called \"main\"",
        ),
        (&["--listen", &taken], 70, &in_use),
        (&["--store", "sqlite:/none/x.db"], 69, "no such file"),
    ] {
        let refused = done(&mut sandbox.shedlock(&[&["ui"][..], options].concat()));
        assert_eq!(refused.code, code, "{options:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(text),
            "{options:?}: {}",
            refused.stderr
        );
    }
    for (user, password, text) in [
        ("a:b", "x", "cannot be empty or contain a colon"),
        ("#a", "x", "a line that starts with # is a comment"),
        ("a", "", "it has 0 bytes; choose one of 1 to 72"),
        (
            "a",
            &"x".repeat(73),
            "it has 73 bytes; choose one of 1 to 72",
        ),
    ] {
        let refused = line_for(&sandbox, user, password);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(text), "{user}: {}", refused.stderr);
    }
}

/// A server with a certificate of its own, and what trusts it.
pub(crate) fn with_tls(sandbox: &Sandbox) -> (Server, rustls::RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(sandbox.path("cert"), made.cert.pem()).unwrap();
    fs::write(sandbox.path("key"), made.signing_key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let options = ["--tls-cert", "cert", "--tls-key", "key"];
    (Server::start(sandbox, &options), roots)
}

/// A connection whose handshake comes with its first bytes.
fn tls(
    server: &Server,
    roots: rustls::RootCertStore,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(ring);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(client, server.connect_from(Ipv4Addr::LOCALHOST))
}

#[test]
fn tls_is_served_with_the_certificate_that_was_given() {
    let sandbox = sandbox();
    let (server, roots) = with_tls(&sandbox);
    assert!(
        server.said.contains("https://127.0.0.1:"),
        "{}",
        server.said
    );
    let mut stream = tls(&server, roots);
    let request = "GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 200 ") && reply.contains("<h1>Now</h1>"),
        "{reply}"
    );
    server.stop();
}

/// A client that never sends a whole request does not keep its connection.
#[test]
fn slow_clients_lose_their_connections() {
    let sandbox = sandbox();
    let server = Server::start(&sandbox, &[]);
    let silent = server.connect_from(Ipv4Addr::LOCALHOST);
    let mut slow = server.connect_from(Ipv4Addr::LOCALHOST);
    slow.write_all(b"GET /now HTTP/1.1\r\nHost: localhost\r\n")
        .unwrap();
    let mut idle = server.connect_from(Ipv4Addr::LOCALHOST);
    idle.write_all(b"GET /style HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    // A form that never ends.
    let mut form = server.connect_from(Ipv4Addr::LOCALHOST);
    let headers = "POST /act HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\
                   Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nname=";
    form.write_all(headers.as_bytes()).unwrap();
    let (encrypted, roots) = with_tls(&sandbox);
    let unshaken = encrypted.connect_from(Ipv4Addr::LOCALHOST);
    let mut shaken = tls(&encrypted, roots);
    shaken.write_all(b"GET /now HTTP/1.1\r\n").unwrap();
    for mut stream in [silent, slow, idle, form, unshaken, shaken.sock] {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    server.stop();
    encrypted.stop();
}

/// Others get in while one client opens connections and sends nothing.
#[test]
fn one_address_cannot_take_all_connections() {
    const MOST: usize = 100;
    let sandbox = sandbox();
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    let keeps = |server: &Server, kept| {
        keeps_of(MOST + 20, greedy, server.port, kept);
        assert_eq!(status(&server.get("/now", "")), "200");
    };
    let server = Server::start(&sandbox, &[]);
    keeps(&server, MOST);
    // They are closed, and count no longer.
    eventually("a free connection", || {
        let mut stream = server.connect_from(greedy);
        let request = "GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut reply = String::new();
        let sent = stream.write_all(request.as_bytes());
        let read = sent.and_then(|()| stream.read_to_string(&mut reply));
        read.is_ok() && status(&reply) == "200"
    });
    server.stop();
    // All clients of a proxy have its address.
    let server = Server::start(&sandbox, &["--behind-proxy"]);
    keeps(&server, MOST + 20);
    server.stop();
}

#[test]
fn guesses_of_a_password_are_slowed_down_and_logged() {
    let sandbox = sandbox();
    let alice = line_for(&sandbox, "alice", "secret");
    fs::write(sandbox.path("users"), alice.stdout).unwrap();
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    let ask = |server: &Server, from, headers: &str| {
        let mut stream = server.connect_from(from);
        let request =
            format!("GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    // alice:secret and alice:wrong.
    let [right, wrong] =
        ["YWxpY2U6c2VjcmV0", "YWxpY2U6d3Jvbmc="].map(|it| format!("Authorization: Basic {it}\r\n"));
    let server = Server::start(&sandbox, &["--auth-file", "users"]);
    for _ in 0..5 {
        assert_eq!(status(&ask(&server, greedy, &right)), "200");
        assert_eq!(status(&ask(&server, greedy, &wrong)), "401");
    }
    for headers in [&wrong, &right] {
        let reply = ask(&server, greedy, headers);
        assert_eq!(status(&reply), "429", "{reply}");
        let wait = reply.split("retry-after: ").nth(1).unwrap();
        let wait: u32 = wait.split('\r').next().unwrap().parse().unwrap();
        assert!((30..=61).contains(&wait), "{reply}");
        assert_eq!(status(&ask(&server, Ipv4Addr::LOCALHOST, &right)), "200");
    }
    // A browser asks without a password first.
    assert_eq!(status(&ask(&server, greedy, "")), "401");
    let ended = server.stop();
    let refused = "a sign-in from 127.0.0.2 was refused at 20";
    assert_eq!(ended.stderr.matches(refused).count(), 5, "{}", ended.stderr);
    assert!(ended.stderr.contains("[user=alice]"), "{}", ended.stderr);
    let braked = "sign-ins from 127.0.0.2 are refused for a minute";
    assert_eq!(ended.stderr.matches(braked).count(), 1, "{}", ended.stderr);

    // The proxy adds the last address.
    let server = Server::start(&sandbox, &["--auth-file", "users", "--behind-proxy"]);
    let of = |forwarded: &str, headers: &str| {
        let headers = format!("X-Forwarded-For: {forwarded}\r\n{headers}");
        ask(&server, Ipv4Addr::LOCALHOST, &headers)
    };
    for _ in 0..5 {
        assert_eq!(status(&of("192.0.2.9, 192.0.2.7", &wrong)), "401");
    }
    assert_eq!(status(&of("192.0.2.8, 192.0.2.7", &right)), "429");
    assert_eq!(status(&of("192.0.2.7, 192.0.2.8", &right)), "200");
    let ended = server.stop();
    let refused = "a sign-in from 192.0.2.7 was refused at 20";
    assert_eq!(ended.stderr.matches(refused).count(), 5, "{}", ended.stderr);
}

/// Otherwise it would be compared all the same, beside any number of others, and the address could guess on.
#[test]
fn a_guess_counts_although_its_client_has_left() {
    let sandbox = sandbox();
    let alice = line_for(&sandbox, "alice", "secret");
    fs::write(sandbox.path("users"), alice.stdout).unwrap();
    let server = Server::start(&sandbox, &["--auth-file", "users"]);
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    // alice:secret and alice:wrong.
    let [right, wrong] = ["YWxpY2U6c2VjcmV0", "YWxpY2U6d3Jvbmc="].map(|it| {
        format!("GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {it}\r\n\r\n")
    });
    eventually("a brake", || {
        let mut left = server.connect_from(greedy);
        left.write_all(wrong.as_bytes()).unwrap();
        drop(left);
        let mut stream = server.connect_from(greedy);
        stream.write_all(right.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        status(&reply) == "429"
    });
    let ended = server.stop();
    let refused = "a sign-in from 127.0.0.2 was refused at 20";
    assert_eq!(ended.stderr.matches(refused).count(), 5, "{}", ended.stderr);
}

#[test]
fn a_host_that_can_be_read_in_two_ways_is_refused() {
    let sandbox = sandbox();
    let server = Server::start(&sandbox, &[]);
    let get = |url: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|it| format!("Host: {it}\r\n")).collect();
        server.send(&format!(
            "GET {url} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"
        ))
    };
    for hosts in [
        &["127.0.0.1:8460@evil.example"][..],
        &["evil.example@localhost"],
        &["localhost:x"],
        &["localhost:"],
        &["localhost", "evil.example"],
        &["localhost", "localhost"],
        &["[localhost]"],
    ] {
        let reply = get("/now", hosts);
        assert_eq!(status(&reply), "400", "{hosts:?}: {reply}");
    }
    let reply = get("http://localhost/now", &["evil.example"]);
    assert_eq!(status(&reply), "400", "{reply}");
    assert_eq!(status(&get("http://localhost/now", &["localhost"])), "200");
    // It is another name.
    assert_eq!(status(&get("/now", &["localhost."])), "403");
    server.stop();
}

/// As `nohup` starts it.
#[test]
fn a_signal_that_the_caller_ignores_does_not_end_it() {
    let sandbox = Sandbox::migrated();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let script = format!("trap '' HUP; exec {exe} ui --listen 127.0.0.1:0");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stderr(Stdio::piped());
    let server = Server::of(shell.env("SHEDLOCK_STORE", sandbox.store()));
    signal(server.child.id(), Signal::HUP);
    let page = server.get("/now", "");
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let ended = server.stop();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}
