//! `shedlock metrics`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::common::{Done, Sandbox, calendar, done, end, eventually};

fn metrics(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    let arguments = [&["metrics"], arguments].concat();
    done(&mut sandbox.shedlock(&arguments))
}

/// The value of each metric by its name and labels.
fn values(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let values = lines.map(|line| line.rsplit_once(' ').expect(line));
    values
        .map(|(name, value)| (name, value.parse().expect(value)))
        .collect()
}

fn seconds() -> f64 {
    let now = calendar().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs_f64()
}

#[test]
fn deadlines_ends_and_pauses_are_reported() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    let start = seconds();
    let options = ["--every", "1h"];
    let mut run = sandbox.run_with("hourly", "10m", &options, "true");
    assert_eq!(done(&mut run).code, 0);
    assert_eq!(done(&mut sandbox.run("a\"b", "1m", "exit 3")).code, 3);
    let read = metrics(&sandbox, &[]);
    assert_eq!((read.code, read.stderr.as_str()), (0, ""));
    let of = values(&read.stdout);
    assert_eq!(of["shedlock_store_up"], 1.0);
    assert_eq!(of["shedlock_journal_up"], 1.0);
    let deadline = of["shedlock_job_deadline_timestamp_seconds{job_name=\"hourly\"}"];
    // The next full hour, --lock-at-most-for, and the time for the start.
    assert!(deadline > start + 600.0, "{deadline}");
    let success = of["shedlock_job_last_success_timestamp_seconds{job_name=\"hourly\"}"];
    assert!(success >= start.floor(), "{success}");
    assert!(of.contains_key("shedlock_job_last_duration_seconds{job_name=\"hourly\"}"));
    assert_eq!(of["shedlock_job_paused{job_name=\"hourly\"}"], 0.0);
    let failure = "shedlock_job_last_failure_timestamp_seconds{job_name=\"a\\\"b\"}";
    assert!(of[failure] >= start.floor());
    let unscheduled = "shedlock_job_deadline_timestamp_seconds{job_name=\"a\\\"b\"}";
    assert!(!of.contains_key(unscheduled));

    // A pause of three hours: the deadline is that of the first slot after it.
    let pause = ["pause", "hourly", "--for", "3h"];
    assert_eq!(done(&mut sandbox.shedlock(&pause)).code, 0);
    let read = metrics(&sandbox, &[]);
    let of = values(&read.stdout);
    assert_eq!(of["shedlock_job_paused{job_name=\"hourly\"}"], 1.0);
    assert_eq!(of["shedlock_locks{state=\"paused\"}"], 1.0);
    let later = of["shedlock_job_deadline_timestamp_seconds{job_name=\"hourly\"}"];
    let moved = later - deadline;
    // Four hours if a slot fell due in between.
    assert!([10_800.0, 14_400.0].contains(&moved), "{moved}");
}

#[test]
fn without_a_journal_only_locks_are_reported() {
    let sandbox = Sandbox::migrated();
    let read = metrics(&sandbox, &[]);
    assert_eq!(read.code, 0);
    assert!(
        read.stderr
            .starts_with("shedlock: no job is reported, because there is no journal in sqlite:/")
            && read
                .stderr
                .ends_with("; to create one, run `shedlock migrate --journal`\n"),
        "{}",
        read.stderr
    );
    let of = values(&read.stdout);
    assert_eq!(of["shedlock_store_up"], 1.0);
    assert_eq!(of["shedlock_locks{state=\"held\"}"], 0.0);
    assert_eq!(of.len(), 4, "{}", read.stdout);
    assert!(read.stdout.contains("# There is no journal"));
}

#[test]
fn a_store_that_is_down_replaces_the_old_values() {
    let sandbox = Sandbox::migrated();
    let file = sandbox.path("shedlock.prom");
    let arguments = ["--textfile", file.to_str().unwrap()];
    let written = metrics(&sandbox, &arguments);
    assert_eq!((written.code, written.stdout.as_str()), (0, ""));
    assert_eq!(
        values(&sandbox.read("shedlock.prom"))["shedlock_store_up"],
        1.0
    );

    fs::rename(sandbox.path("locks.db"), sandbox.path("away.db")).unwrap();
    let down = metrics(&sandbox, &arguments);
    assert_eq!((down.code, down.stdout.as_str()), (0, ""));
    assert!(down.stderr.contains("no such file"), "{}", down.stderr);
    let text = sandbox.read("shedlock.prom");
    assert_eq!(values(&text), BTreeMap::from([("shedlock_store_up", 0.0)]));
    let entries = fs::read_dir(sandbox.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains(".prom.")).collect();
    assert_eq!(left, Vec::<String>::new());

    let wrong = metrics(&sandbox, &["--textfile", "no/such/folder/x.prom"]);
    assert_eq!(wrong.code, 70);
    assert!(
        wrong
            .stderr
            .contains("cannot write no/such/folder/x.prom: "),
        "{}",
        wrong.stderr
    );
    let usage = metrics(&sandbox, &["--store", "nosuch://x"]);
    assert_eq!((usage.code, usage.stdout.as_str()), (2, ""));
}

/// The answer to a request, or nothing if no one listens.
fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let mut answer = String::new();
    let asked = stream.write_all(request.as_bytes());
    let _ = asked.and_then(|()| stream.read_to_string(&mut answer));
    answer
}

#[test]
fn a_run_serves_metrics_while_its_command_runs() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    // A port that is taken: the command runs without metrics.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let options = ["--every", "1h", "--metrics-listen", &address];
    let ran = done(&mut sandbox.run_with("long", "1m", &options, "echo ran"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ran\n"));
    let said = format!("shedlock: long: no metrics are served: cannot listen on {address}: ");
    assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);

    drop(taken);
    let options = ["--metrics-listen", &address];
    let script = "echo x > up; until [ -e stop ]; do sleep 0.1; done";
    let running = sandbox.run_with("other", "1m", &options, script).spawn();
    sandbox.await_lines("up", 1);
    let started = "shedlock_job_last_start_timestamp_seconds{job_name=\"other\"}";
    eventually("metrics", || get(port, "/metrics").contains(started));
    let text = get(port, "/metrics");
    assert!(
        text.contains("shedlock_locks{state=\"held\"} 1\n"),
        "{text}"
    );
    let deadline = "shedlock_job_deadline_timestamp_seconds{job_name=\"long\"}";
    assert!(text.contains(deadline), "{text}");
    assert!(get(port, "/healthz").ends_with("\r\n\r\nok\n"));
    fs::write(sandbox.path("stop"), "").unwrap();
    let ended = end(running.unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(get(port, "/metrics"), "");
}
