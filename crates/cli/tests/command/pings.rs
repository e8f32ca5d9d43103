//! Monitoring services are notified of runs, which are not affected.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::common::{Done, Sandbox, closed_port, done, end, eventually, signal, sql};
use super::ping_server::{Answer, KEY, PingServer, SENTRY_KEY};
use super::ui::with_tls;

const PING_URL: &str = "SHEDLOCK_PING_URL";
const SENTRY_DSN: &str = "SHEDLOCK_SENTRY_DSN";

/// A run of this script that pings both services of the server.
fn run(sandbox: &Sandbox, server: &PingServer, options: &[&str], script: &str) -> Command {
    let mut command = sandbox.run_with("report", "1m", options, script);
    command
        .env(PING_URL, server.checks())
        .env(SENTRY_DSN, server.dsn());
    command
}

/// The pings to each service. Those of each have one id.
fn assert_one_run(server: &PingServer, checks: &[&str], check_ins: &[&str]) {
    let pings = server.pings();
    let (sentry, health): (Vec<_>, Vec<_>) = pings.iter().partition(|ping| !ping.auth.is_empty());
    for (pings, expected) in [(health, checks), (sentry, check_ins)] {
        let paths: Vec<&str> = pings.iter().map(|ping| &*ping.path).collect();
        assert_eq!(paths, expected);
        assert!(pings.iter().all(|ping| ping.run == pings[0].run));
    }
}

fn assert_no_secret(text: &str) {
    assert!(!text.contains(KEY) && !text.contains(SENTRY_KEY), "{text}");
}

#[test]
fn a_run_pings_when_it_starts_and_when_it_ends() {
    let sandbox = Sandbox::migrated();
    for (script, code, checks, check_ins) in [
        ("true", 0, ["report/start", "report"], "report ok"),
        ("exit 3", 3, ["report/start", "report/3"], "report error"),
        (
            "kill -9 $$",
            137,
            ["report/start", "report/137"],
            "report error",
        ),
    ] {
        let server = PingServer::start();
        let ran = done(&mut run(&sandbox, &server, &[], script));
        assert_eq!((ran.code, &*ran.stderr), (code, ""));
        assert_one_run(&server, &checks, &["report in_progress", check_ins]);
        assert!(server.pings()[0].body.is_empty());
    }
}

#[test]
fn the_secrets_are_in_no_environment_message_or_journal() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate"]));
    let server = PingServer::start();
    server.answer(Answer::Status(404, "not found"));
    let script = "env; tr '\\0' '\\n' < /proc/$PPID/cmdline";
    let ran = done(&mut run(&sandbox, &server, &["-vv"], script));
    assert_eq!(ran.code, 0);
    assert!(
        ran.stdout.contains("SHEDLOCK_NAME=report"),
        "{}",
        ran.stdout
    );
    let host = server.host();
    for service in ["healthchecks", "Sentry"] {
        let said = format!("cannot ping {service} at {host}: the server replied 404 Not Found; ");
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    }
    let history = done(&mut sandbox.shedlock(&["history", "report", "-o", "json"]));
    let metrics = done(&mut sandbox.shedlock(&["metrics"]));
    for text in [&ran.stdout, &ran.stderr, &history.stdout, &metrics.stdout] {
        assert_no_secret(text);
    }
    assert!(!ran.stdout.contains(PING_URL) && !ran.stdout.contains(SENTRY_DSN));
}

#[test]
fn of_two_hosts_only_the_one_that_runs_the_slot_pings() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let options = ["--schedule", "0 0 1 1 *"];
    let hosts = [(); 2].map(|()| {
        run(&sandbox, &server, &options, "echo ran")
            .spawn()
            .unwrap()
    });
    let ends = hosts.map(end);
    let ran = ends.iter().filter(|end| end.stdout == "ran\n").count();
    assert_eq!(ran, 1, "{ends:?}");
    let check_ins = ["report in_progress", "report ok"];
    assert_one_run(&server, &["report/start", "report"], &check_ins);
}

#[test]
fn a_host_that_cannot_run_says_so_and_is_no_failure() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let logged = |code: i32, ran: Done| {
        assert_eq!(ran.code, code, "{ran:?}");
        let pings = server.pings();
        let log = pings.last().unwrap();
        assert_eq!(log.path, "report/log", "{}", log.path);
        let text = format!(" could not run the command: exit code {code}");
        assert!(log.body.ends_with(&text), "{}", log.body);
        pings.len()
    };
    let mut away = run(&sandbox, &server, &[], "true");
    assert_eq!(
        logged(
            69,
            done(away.env("SHEDLOCK_STORE", "sqlite:/dev/null/locks.db"))
        ),
        1
    );
    let words = [
        "run",
        "-n",
        "report",
        "--lock-at-most-for",
        "1m",
        "--",
        "/no/such",
    ];
    let mut missing = sandbox.shedlock(&words);
    assert_eq!(logged(127, done(missing.env(PING_URL, server.checks()))), 2);
    // A slot was taken, and the last one is ahead of the clock.
    let hourly = ["--every", "1h"];
    let ran = done(&mut run(&sandbox, &server, &hourly, "true"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let ahead = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(5)).to_string();
    let reset = done(&mut sandbox.shedlock(&["slot", "reset", "report", "--to", &ahead]));
    assert_eq!(reset.code, 0, "{reset:?}");
    logged(76, done(&mut run(&sandbox, &server, &hourly, "true")));
    // As the command's own code it means something else.
    let logs = || {
        let pings = server.pings().into_iter();
        pings.filter(|ping| ping.path == "report/log").count()
    };
    let before = logs();
    let own = done(&mut run(&sandbox, &server, &[], "exit 76"));
    assert_eq!((own.code, logs()), (76, before), "{own:?}");
    // What is wrong with the command line concerns no job.
    let before = server.pings().len();
    let wrong = done(&mut run(&sandbox, &server, &["--schedule", "x"], "true"));
    assert_eq!((wrong.code, server.pings().len()), (2, before), "{wrong:?}");
}

#[test]
fn a_skip_sends_nothing() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let held = sandbox.run("report", "1m", "echo x > up; sleep 60").spawn();
    sandbox.await_lines("up", 1);
    let skipped = done(&mut run(
        &sandbox,
        &server,
        &["--skip-exit-code", "9"],
        "true",
    ));
    assert_eq!(skipped.code, 9, "{}", skipped.stderr);
    assert!(server.pings().is_empty());
    let held = held.unwrap();
    signal(held.id(), Signal::TERM);
    end(held);
}

#[test]
fn a_command_that_is_stopped_or_loses_its_lease_has_failed() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let options = ["--max-run-time", "100ms"];
    let stopped = done(&mut run(&sandbox, &server, &options, "sleep 60"));
    assert_eq!(stopped.code, 75, "{}", stopped.stderr);
    let error = ["report in_progress", "report error"];
    assert_one_run(&server, &["report/start", "report/75"], &error);

    let server = PingServer::start();
    let mut command = run(
        &sandbox,
        &server,
        &[],
        "echo x > up; until [ -e go ]; do sleep 0.1; done",
    );
    let running = command.spawn().unwrap();
    sandbox.await_lines("up", 1);
    sql(&sandbox, "UPDATE shedlock SET locked_by = 'another'");
    fs::write(sandbox.path("go"), "").unwrap();
    let lost = end(running);
    assert_eq!(lost.code, 75, "{}", lost.stderr);
    assert_one_run(&server, &["report/start", "report/75"], &error);
}

#[test]
fn a_command_that_is_ended_by_a_signal_has_failed() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let mut command = run(&sandbox, &server, &[], "echo x > up; sleep 60");
    let running = command.spawn().unwrap();
    sandbox.await_lines("up", 1);
    signal(running.id(), Signal::TERM);
    assert_eq!(end(running).code, 143);
    let error = ["report in_progress", "report error"];
    assert_one_run(&server, &["report/start", "report/143"], &error);
}

#[test]
fn each_attempt_at_a_slot_is_a_run_of_its_own() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let options = [
        "--every",
        "1h",
        "--must-not-be-lost",
        "--retry-backoff",
        "1ms",
    ];
    let script = "if [ -e once ]; then exit 0; fi; echo x > once; exit 4";
    let ran = done(&mut run(&sandbox, &server, &options, script));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let pings = server.pings().into_iter();
    let checks: Vec<_> = pings.filter(|ping| ping.auth.is_empty()).collect();
    let paths: Vec<&str> = checks.iter().map(|ping| &*ping.path).collect();
    assert_eq!(
        paths,
        ["report/start", "report/4", "report/start", "report"]
    );
    assert_eq!(checks[0].run, checks[1].run);
    assert_eq!(checks[2].run, checks[3].run);
    assert_ne!(checks[0].run, checks[2].run);
}

/// A server that the command must not notice.
fn unaffected(ran: &Done) {
    assert_eq!((ran.code, &*ran.stdout), (3, "ran\n"), "{}", ran.stderr);
    assert_no_secret(&ran.stderr);
}

#[test]
fn a_server_that_hangs_delays_neither_the_command_nor_the_release() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    server.answer(Answer::Hang);
    let script = "echo ran; exit 3";
    let mut command = run(&sandbox, &server, &[], script);
    let running = command.spawn().unwrap();
    // The lock is free while the server still holds the ping of the start.
    server.wait_for(2);
    eventually("the release", || sandbox.lock("report")["state"] == "free");
    let ran = end(running);
    unaffected(&ran);
    assert_eq!(
        ran.stderr,
        "shedlock: report: the healthchecks server did not reply within 2s: it may not be notified \
         of this run; the run is not affected\n\
         shedlock: report: Sentry did not reply within 2s: it may not be notified of this run; the \
         run is not affected\n"
    );
    server.release();
}

#[test]
fn a_server_that_fails_refuses_or_redirects_does_not_affect_the_command() {
    let sandbox = Sandbox::migrated();
    let other = PingServer::start();
    let script = "echo ran; exit 3";
    for (answer, says) in [
        (
            Answer::Status(500, "no"),
            "500 Internal Server Error; check the server",
        ),
        (
            Answer::Status(403, "no"),
            "403 Forbidden; it does not accept pings with this URL or DSN; check its key, and that the \
             server does not block this host",
        ),
        (
            Answer::Status(404, "no"),
            "404 Not Found; it has no such check or monitor; create it (a check with a slug: with \
             ?create=1 in the URL), or correct the URL or DSN",
        ),
        (
            Answer::Status(409, "no"),
            "409 Conflict; it has several checks of this slug; rename one",
        ),
        (
            Answer::RedirectTo(other.checks().replace("{slug}", "x")),
            "redirects are not followed",
        ),
    ] {
        let server = PingServer::start();
        server.answer(answer);
        let ran = done(&mut run(&sandbox, &server, &[], script));
        unaffected(&ran);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    assert!(other.pings().is_empty());

    let (_closed, host) = closed_port();
    let mut command = sandbox.run("report", "1m", script);
    let ran = done(command.env(PING_URL, format!("http://{host}/{KEY}")));
    unaffected(&ran);
    let says = format!("cannot ping healthchecks at {host}: Connection refused");
    assert!(ran.stderr.contains(&says), "{}", ran.stderr);

    // A certificate of an authority that is not the system's, and a server without TLS.
    let (encrypted, _) = with_tls(&sandbox);
    let plain = PingServer::start();
    let plain_port = plain.host().rsplit(':').next().unwrap().parse().unwrap();
    for (port, why) in [
        (
            encrypted.port,
            "the server's certificate was issued by an authority that is not trusted",
        ),
        (plain_port, "the server's reply is not TLS"),
    ] {
        let mut command = sandbox.run("report", "1m", script);
        let ran = done(command.env(PING_URL, format!("https://localhost:{port}/{KEY}")));
        unaffected(&ran);
        let says = format!("cannot ping healthchecks at localhost:{port}: {why}; check the scheme");
        assert!(ran.stderr.contains(&says), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("set SSL_CERT_FILE to"),
            "{}",
            ran.stderr
        );
    }
    encrypted.stop();
}

#[test]
fn a_check_in_carries_the_schedule() {
    let config = |options: &[&str]| {
        // Each with its own slots: that of half past two may be later than that of two hours.
        let (sandbox, server) = (Sandbox::migrated(), PingServer::start());
        let mut command = sandbox.run_with("report", "10m", options, "true");
        let ran = done(command.env(SENTRY_DSN, server.dsn()));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let ping = server.pings().remove(0);
        let body: Value = serde_json::from_str(&ping.body).unwrap();
        (body["monitor_config"].clone(), ping.path, ran.stderr)
    };
    let options = [
        "--schedule",
        "30 2 * * *",
        "--zone",
        "Asia/Seoul",
        "--sentry-monitor",
        "x",
    ];
    let (of_cron, path, _) = config(&options);
    let expected = serde_json::json!({
        "schedule": { "type": "crontab", "value": "30 2 * * *" },
        "timezone": "Asia/Seoul",
        "checkin_margin": 1,
        "max_runtime": 10,
    });
    assert_eq!((of_cron, &*path), (expected, "x in_progress"));
    let (of_period, ..) = config(&["--every", "2h", "--max-run-time", "3h"]);
    assert_eq!(of_period["schedule"]["unit"], "hour");
    assert_eq!(of_period["max_runtime"], 180);
    let (none, ..) = config(&[]);
    assert_eq!(none, Value::Null);
    let (none, _, said) = config(&["--schedule", "*/30 * * * * *"]);
    assert_eq!(none, Value::Null);
    let expected = "shedlock: report: Sentry's monitor gets no schedule: Sentry's monitors have no \
                    seconds, and \"*/30 * * * * *\" fires more than once a minute";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn the_end_of_the_output_is_sent_only_if_that_is_wanted() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let script = "head -c 20000 /dev/zero | tr '\\0' x; echo; echo postgres://a:geheim@h/d; exit 3";
    let ran = done(&mut run(&sandbox, &server, &["--ping-output"], script));
    assert_eq!((ran.code, ran.stdout.len()), (3, 20_025), "{}", ran.stderr);
    let body_of = |path: &str| {
        let mut pings = server.pings().into_iter();
        pings.find(|ping| ping.path == path).unwrap().body
    };
    let body = body_of("report/3");
    assert!(body.len() <= 10_000 && body.len() > 9_000, "{}", body.len());
    assert!(body.ends_with("\npostgres://a:***@h/d\n"), "{body}");
    let ran = done(&mut run(
        &sandbox,
        &server,
        &["--ping-output"],
        "echo no >&2; exit 4",
    ));
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", "no\n"));
    assert_eq!(body_of("report/4"), "no\n");
    let ran = done(&mut run(&sandbox, &server, &[], "echo no >&2; exit 5"));
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", "no\n"));
    assert_eq!(body_of("report/5"), "");

    // What it leaves running is stopped, and it is stopped if no one reads its output, as without pipes.
    let script = "sleep 60 & echo left";
    let ran = done(&mut run(&sandbox, &server, &["--ping-output"], script));
    assert_eq!((ran.code, &*ran.stdout), (0, "left\n"));
    let mut command = run(&sandbox, &server, &["--ping-output"], "yes");
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    assert_ne!(end(running).code, 0);

    let without = done(&mut sandbox.run_with("a", "1m", &["--ping-output"], "true"));
    assert_eq!(without.code, 2);
    assert_eq!(
        without.stderr,
        "shedlock: --ping-output needs --ping-url: set the URL of the check that gets the output\n"
    );
    let file = sandbox.path("shedlock.toml");
    fs::write(&file, "\n[run]\nping-output = true\n").unwrap();
    let mut command = sandbox.run("a", "1m", "true");
    let without = done(command.env("SHEDLOCK_CONFIG", &file));
    let said = format!(
        "shedlock: ping-output in {}:3 needs --ping-url: set the URL of the check that gets the \
         output\n",
        file.display()
    );
    assert_eq!((without.code, without.stderr), (2, said));
}

#[test]
fn a_wrong_url_is_refused_before_anything_happens_and_not_repeated() {
    let sandbox = Sandbox::new();
    for (option, variable, value, says) in [
        (
            "--ping-url",
            PING_URL,
            "geheim-0123456789",
            "the ping URL is not an HTTP URL; ",
        ),
        (
            "--sentry-dsn",
            SENTRY_DSN,
            "https://h/geheim-0123456789",
            "cannot read the Sentry DSN: ",
        ),
    ] {
        let typed = done(&mut sandbox.run_with("a", "1m", &[option, value], "true"));
        let set = done(sandbox.run("a", "1m", "true").env(variable, value));
        for (ran, from) in [(typed, option), (set, variable)] {
            assert_eq!(ran.code, 2);
            let said = format!("shedlock: {from}: {says}");
            assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);
            assert_no_secret(&ran.stderr);
        }
        let none = done(sandbox.run("a", "1m", "true").env(variable, ""));
        assert_eq!((none.code, &*none.stderr), (0, ""));
    }
}

#[test]
fn the_file_sets_the_checks_of_all_jobs_and_config_masks_them() {
    let sandbox = Sandbox::migrated();
    let server = PingServer::start();
    let file = sandbox.path("shedlock.toml");
    let (url, dsn) = (server.checks(), server.dsn());
    fs::write(
        &file,
        format!("ping-url = {url:?}\n[run]\nsentry-dsn = {dsn:?}\n"),
    )
    .unwrap();
    let with_file = |command: &mut Command| done(command.env("SHEDLOCK_CONFIG", &file));
    let ran = with_file(&mut sandbox.run("a-b", "1m", "true"));
    assert_eq!((ran.code, &*ran.stderr), (0, ""));
    assert_one_run(
        &server,
        &["a-b/start", "a-b"],
        &["a-b in_progress", "a-b ok"],
    );

    let host = server.host();
    for format in ["table", "json"] {
        let shown = with_file(&mut sandbox.shedlock(&["config", "-o", format]));
        assert_no_secret(&shown.stdout);
        let masked = format!("http://{host}/***");
        assert_eq!(shown.stdout.matches(&masked).count(), 2, "{}", shown.stdout);
    }

    fs::write(&file, "ping-url = \"https://h/geheim-0123456789\"\n").unwrap();
    let refused = with_file(&mut sandbox.run("a", "1m", "true"));
    assert_eq!(refused.code, 2);
    let said = format!(
        "shedlock: {}:1: \"ping-url\" applies to every job: write {{slug}} where the URL has the \
         check's slug, or pass a job's own URL on the command line or in SHEDLOCK_PING_URL\n",
        file.display()
    );
    assert_eq!(refused.stderr, said);
}
