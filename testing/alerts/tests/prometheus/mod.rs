//! A Prometheus of the test: its own port and data, and the rules of `docs/alerts`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use shedlock_rig::wait::{PATIENCE, eventually};
use shedlock_rig::{Running, port};

/// A running Prometheus.
pub(crate) struct Prometheus {
    process: Running,
    port: u16,
    log: PathBuf,
}

const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/alerts/shedlock.rules.yml"
);

impl Prometheus {
    /// Starts it, with the targets in this file.
    pub(crate) fn start(folder: &Path, targets: &Path) -> Self {
        let rules = fs::read_to_string(RULES).unwrap();
        fs::write(folder.join("rules.yml"), impatient(&rules)).unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: app\n    file_sd_configs:\n      - files: [{:?}]\n",
            targets.display().to_string()
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let log = folder.join("prometheus.log");
        loop {
            let port = port::free().unwrap();
            let mut command = Command::new("prometheus");
            command
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    folder.join("data").display()
                ))
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(&log).unwrap());
            let process = Running::start(&mut command);
            let process =
                process.expect("Prometheus is needed: on Debian `apt-get install -y prometheus`");
            let mut prometheus = Self {
                process,
                port,
                log: log.clone(),
            };
            let mut has_ended = false;
            eventually("Prometheus", || {
                has_ended = prometheus.process.ended().is_some();
                has_ended
                    || prometheus
                        .get("/-/ready")
                        .is_some_and(|it| it.contains("200 OK"))
            });
            let log = fs::read_to_string(&log).unwrap();
            if !has_ended {
                return prometheus;
            }
            // Another process took the port first.
            assert!(log.contains("address already in use"), "{log}");
        }
    }

    /// Whether this query returns anything.
    pub(crate) fn has(&self, query: &str) -> bool {
        self.query(query).is_some_and(|result| !result.is_empty())
    }

    /// The time of its evaluations.
    pub(crate) fn now(&self) -> f64 {
        let mut now = None;
        eventually("the time", || {
            let result = self.query("vector(time())");
            now = result.and_then(|it| it[0]["value"][1].as_str()?.parse().ok());
            now.is_some()
        });
        now.unwrap()
    }

    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let answer = self.get(&format!("/api/v1/query?query={query}"))?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        assert_eq!(answer["status"], "success", "{answer}\n{}", self.log());
        answer["data"]["result"].as_array().cloned()
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        // An answer of HTTP/1.0 is not in chunks.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The rules, with alerts that are raised after a second.
fn impatient(rules: &str) -> String {
    let lines = rules.lines().map(|line| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 1s"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
