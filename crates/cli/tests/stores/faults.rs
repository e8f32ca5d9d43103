//! `shedlock doctor` finds what a record can have wrong, on each store, and nothing in a healthy one.

use std::time::Duration;

use serde_json::Value;
use shedlock::{AttemptRequest, LockName, Owner};
use tokio::runtime::Runtime;

use crate::common::{Done, Sandbox, done};
use crate::places::{Locks, Place};

const OWNER: &str = "web-3/4711/5f0c9b1d7e3a4c28";

/// No one would wait for its end.
const ENDLESS: Duration = Duration::from_secs(20_000 * 3_600);

struct Patient {
    sandbox: Sandbox,
    locks: Locks,
    /// What is wrong with the server itself.
    before: Vec<[String; 2]>,
}

impl Patient {
    fn command(&self, arguments: &[&str]) -> Done {
        let mut command = self.sandbox.bare(arguments);
        done(command.env("SHEDLOCK_STORE", &self.locks.url))
    }

    #[track_caller]
    fn does(&self, arguments: &[&str]) {
        let ended = self.command(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    }

    /// The checks and levels of what is not in order, and everything that was printed.
    fn faults(&self) -> (Vec<[String; 2]>, Done) {
        let ended = self.command(&["doctor", "-o", "json"]);
        let json: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let findings = json["findings"].as_array().unwrap().iter();
        let faults = findings.filter(|it| it["level"] != "ok");
        let faults = faults.map(|it| [text(&it["check"]), text(&it["level"])]);
        (faults.collect(), ended)
    }

    /// Exactly this is found in addition, with the lock's name, and it determines the exit codes.
    #[track_caller]
    fn has(&self, check: &str, level: &str, name: &str) {
        let (mut faults, ended) = self.faults();
        let planted = faults.iter().position(|fault| fault == &[check, level]);
        let planted = planted.unwrap_or_else(|| panic!("no {check} in {ended:?}"));
        faults.remove(planted);
        assert_eq!(faults, self.before, "{ended:?}");
        assert!(ended.stdout.contains(name), "{ended:?}");
        assert_eq!(ended.code, i32::from(level == "error"), "{ended:?}");
        assert_eq!(self.command(&["doctor", "--strict"]).code, 1);
    }

    #[track_caller]
    fn is_healed(&self) {
        let (faults, ended) = self.faults();
        assert_eq!((faults, ended.code), (self.before.clone(), 0), "{ended:?}");
    }
}

pub(crate) fn no_fault_in_a_record_is_missed(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let mut locks = place.locks(&sandbox.path(""))?;
    if place.kind() == "nats" {
        // Its servers do not report how often they sync.
        locks.url += "&sync_always=true";
    }
    let mut patient = Patient {
        sandbox,
        locks,
        before: Vec::new(),
    };
    patient.does(&["migrate"]);
    let (before, ended) = patient.faults();
    // The servers for tests write nothing to disk.
    let is_volatile = place.kind() == "redis" && before == [["durability", "warning"]];
    assert!(before.is_empty() || is_volatile, "{ended:?}");
    let strict = patient.command(&["doctor", "--strict"]);
    assert_eq!(strict.code, i32::from(is_volatile), "{strict:?}");
    patient.before = before;

    patient.does(&["pause", "asleep", "--create", "--reason", "moving"]);
    patient.has("paused", "warning", "asleep");
    patient.does(&["resume", "asleep"]);
    patient.is_healed();

    let slotted = [
        "run",
        "-n",
        "ahead",
        "--lock-at-most-for",
        "1m",
        "--every",
        "1h",
    ];
    patient.does(&[&slotted[..], &["--", "true"]].concat());
    let later = "2037-01-01T00:00:00Z";
    patient.does(&["slot", "reset", "ahead", "--to", later, "--force"]);
    patient.has("slots", "error", "ahead");
    patient.does(&["slot", "reset", "ahead"]);
    patient.is_healed();

    let (name, owner) = (
        LockName::new("endless").unwrap(),
        Owner::parse(OWNER).unwrap(),
    );
    Runtime::new().unwrap().block_on(async {
        let provider = shedlock::connect(&patient.locks.url).await.unwrap();
        let attempt = AttemptRequest::new(name, owner, ENDLESS);
        let _ = provider.attempt(&attempt).await.unwrap();
    });
    patient.has("end", "error", "endless");
    patient.does(&["unlock", "endless", "--force"]);
    patient.is_healed();

    for name in ["Report", "report"] {
        patient.does(&["run", "-n", name, "--lock-at-most-for", "1m", "--", "true"]);
    }
    patient.has("names", "warning", "Report");
    Ok(())
}
