//! A dashboard, as users start it, over a store that has something to show.

use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use shedlock::{JobChange, JournalEntry, RunEnd, RunOutcome, RunRecord, Slot};
use shedlock_rig::wait::{PATIENCE, eventually};
use shedlock_rig::{Running, Signal};
use tokio::runtime::Runtime;

use crate::common::{Done, Sandbox, calendar, done};
use crate::places::Place;
use crate::proxy;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Under which path browsers find the dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mount {
    /// At the root of its address.
    Root,
    /// Under `--prefix`.
    Prefix,
    /// Behind a proxy that removes a prefix.
    Proxy,
}

/// A store, and the dashboard over it. Both end when it is dropped.
pub(crate) struct Site {
    sandbox: Sandbox,
    store: String,
    processes: Vec<Running>,
    /// The port of the dashboard itself.
    pub(crate) port: u16,
    /// Ends with a slash.
    pub(crate) url: String,
}

impl Site {
    /// Starts a dashboard over an empty store.
    pub(crate) fn start(place: &Place, mount: Mount) -> Self {
        let sandbox = Sandbox::new();
        let store = place.locks(&sandbox.path("")).unwrap().url;
        let mut site = Self {
            sandbox,
            store,
            processes: Vec::new(),
            port: 0,
            url: String::new(),
        };
        site.shedlock(&["migrate"]);
        let prefix = match mount {
            Mount::Prefix => &["--prefix", "/ops/locks"][..],
            _ => &[],
        };
        let arguments = ["ui", "--listen", "127.0.0.1:0", "--store-name", "main"];
        let mut server = site.command(&[&arguments[..], prefix].concat());
        let server = Running::start(&mut server).unwrap();
        let url = server.errors.find(|line| {
            let (_, url) = line.split_once("the dashboard is at ")?;
            Some(url.to_owned())
        });
        site.processes.push(server);
        let url = url.unwrap();
        let port = url.split([':', '/']).find_map(|part| part.parse().ok());
        site.port = port.unwrap();
        site.url = match mount {
            Mount::Proxy => {
                let port = proxy::start(site.port);
                format!("http://127.0.0.1:{port}{}/", proxy::PREFIX)
            }
            _ => url,
        };
        site
    }

    /// The scheme, host and port of the dashboard, with a slash.
    pub(crate) fn origin(&self) -> String {
        let slash = self.url.match_indices('/').nth(2).unwrap().0;
        self.url[..=slash].to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", &self.store);
        command
    }

    /// Runs the command, which must succeed.
    pub(crate) fn shedlock(&self, arguments: &[&str]) -> Done {
        let ended = done(&mut self.command(arguments));
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        ended
    }

    /// Runs the command, and returns the JSON that it prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.shedlock(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&printed.stdout).unwrap()
    }

    /// The lock as `shedlock list` prints it.
    pub(crate) fn lock(&self, name: &str) -> Value {
        let list = self.json(&["list"]);
        let locks = list["locks"].as_array().unwrap();
        let lock = locks.iter().find(|lock| lock["name"] == name);
        lock.unwrap_or_else(|| panic!("no {name} in {list}"))
            .clone()
    }

    /// What operators did to this lock, the latest first.
    pub(crate) fn audit(&self, name: &str) -> Vec<Value> {
        let history = self.json(&["history", name]);
        history["actions"].as_array().unwrap().clone()
    }

    /// Starts a command that holds this lock until the site is dropped.
    pub(crate) fn hold(&mut self, name: &str) {
        let run = ["run", "--name", name, "--lock-at-most-for", "30m", "--"];
        let mut command = self.command(&[&run[..], &["sleep", "600"]].concat());
        self.processes.push(Running::start(&mut command).unwrap());
        eventually("the lock", || {
            let list = self.json(&["list"]);
            let locks = list["locks"].as_array().unwrap();
            locks
                .iter()
                .any(|lock| lock["name"] == name && lock["state"] == "held")
        });
    }

    /// Writes into the journal as the library does.
    pub(crate) fn record(&self, entries: &[JournalEntry]) {
        Runtime::new().unwrap().block_on(async {
            let provider = shedlock::connect(&self.store).await.unwrap();
            let journal = provider.journal().unwrap();
            journal.record(entries).await.unwrap();
        });
    }

    /// Adds a fleet: a job that succeeds, one that has failed, one that is overdue, one that is
    /// running and one that is paused.
    pub(crate) fn fill(&mut self) {
        let now = calendar();
        let mut entries = Vec::new();
        let quarter = start_of(now, 15);
        let next = |slot: SystemTime, late| Some((Slot::at(slot).unwrap(), slot + late));
        let mut job = JobChange::new("payroll-export");
        job.schedule = Some("*/15 * * * *".to_owned());
        job.zone = Some("Asia/Seoul".to_owned());
        job.lock_at_most_for = Some(10 * MINUTE);
        job.next = next(quarter + 15 * MINUTE, 10 * MINUTE);
        entries.push(JournalEntry::Job(job));
        for back in (0..30_u32).rev().filter(|back| *back != 17) {
            let slot = quarter - back * 15 * MINUTE;
            let failed = [6, 21]
                .contains(&back)
                .then_some("exit code 1: bank.example refused the file");
            let took = Duration::from_millis(u64::from(41_000 + back * back % 7 * 9_000));
            entries.push(run("payroll-export", slot, took, failed));
        }
        let day = start_of(now, 24 * 60) - 24 * HOUR;
        let mut job = JobChange::new("nightly-backup");
        job.schedule = Some("30 2 * * *".to_owned());
        job.zone = Some("UTC".to_owned());
        job.next = next(day + HOUR * 5 / 2, HOUR);
        entries.push(JournalEntry::Job(job));
        for back in (1..9_u32).rev() {
            let slot = day + HOUR * 5 / 2 - back * 24 * HOUR;
            let took = Duration::from_secs(u64::from(700 + back % 3 * 60));
            entries.push(run("nightly-backup", slot, took, None));
        }
        let minute = start_of(now, 1);
        let mut job = JobChange::new("sync-inventory");
        job.schedule = Some("every 5m".to_owned());
        job.next = next(start_of(now, 5) + 5 * MINUTE, 5 * MINUTE);
        entries.push(JournalEntry::Job(job));
        for back in (0..12_u32).rev() {
            let failed = (back < 2).then_some("cannot reach warehouse:443: connection refused");
            let slot = start_of(minute, 5) - back * 5 * MINUTE;
            entries.push(run(
                "sync-inventory",
                slot,
                Duration::from_millis(2_300),
                failed,
            ));
        }
        for back in (0..6_u32).rev() {
            let start = now - back * HOUR - 20 * MINUTE;
            entries.push(run("import-mails", start, 2 * MINUTE, None));
        }
        entries.push(run("rebuild-index", now - 3 * HOUR, 9 * MINUTE, None));
        self.record(&entries);
        let reason = "disk of the search cluster is being replaced";
        let rest = ["--create", "--for", "2h", "--reason", reason];
        self.shedlock(&[&["pause", "rebuild-index"], &rest[..]].concat());
        self.hold("import-mails");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for process in &self.processes {
            process.signal(Signal::TERM);
        }
        for process in &mut self.processes {
            // It was asked to end.
            let _ = process.wait(PATIENCE);
        }
    }
}

/// The last full multiple of so many minutes.
fn start_of(instant: SystemTime, minutes: u64) -> SystemTime {
    let since = instant.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seconds = since.as_secs() / (minutes * 60) * minutes * 60;
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A run that has ended. Its lock has the job's name.
pub(crate) fn run(
    job: &str,
    slot: SystemTime,
    took: Duration,
    failed: Option<&str>,
) -> JournalEntry {
    let micros = Slot::at(slot).unwrap().as_micros();
    let owner = format!(
        "app-{}.example/417/{:08x}",
        micros / 60_000_000 % 3 + 1,
        micros
    );
    let started = slot + Duration::from_millis(38);
    let mut run = RunRecord::new(job, job, owner, started);
    run.slot = (job != "import-mails").then(|| Slot::at(slot).unwrap());
    run.fencing_token = Some(u64::try_from(micros).unwrap());
    let outcome = match failed {
        Some(_) => RunOutcome::Failed,
        None => RunOutcome::Succeeded,
    };
    run.end = Some(RunEnd::new(took, outcome, failed.map(str::to_owned)));
    JournalEntry::run(run, None)
}
