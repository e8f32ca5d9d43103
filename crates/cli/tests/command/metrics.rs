//! `shedlock run --metrics-listen`. `transcripts/metrics.md` shows the metrics.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::common::{Sandbox, done, end, eventually, keeps_of};

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

/// A run serves metrics while its command runs.
#[test]
fn served() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate"]));
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
    let started = "shedlock_job_last_start_timestamp_seconds{job_name=\"other\",";
    eventually("metrics", || get(port, "/metrics").contains(started));
    let text = get(port, "/metrics");
    assert!(
        text.contains("shedlock_locks{state=\"held\"} 1\n"),
        "{text}"
    );
    let deadline = "shedlock_job_deadline_timestamp_seconds{job_name=\"long\",";
    assert!(text.contains(deadline), "{text}");
    assert!(get(port, "/healthz").ends_with("\r\n\r\nok\n"));
    // Others cannot take the connections that the run needs for its store.
    let greedy = Ipv4Addr::new(127, 0, 0, 2);
    keeps_of(120, greedy, port, 100);
    assert!(get(port, "/metrics").contains(started));
    fs::write(sandbox.path("stop"), "").unwrap();
    let ended = end(running.unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(get(port, "/metrics"), "");
}
