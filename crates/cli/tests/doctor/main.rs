//! `shedlock doctor` on real servers with planted faults, and on healthy ones.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;

mod mongodb;
mod mysql;
mod postgres;
mod redis;

mod sqlite;

use serde_json::Value;

use common::{Sandbox, done};

/// The names of all checks that a healthy store passes, whatever store it is.
const COMMON: [&str; 9] = [
    "setup",
    "reachable",
    "clock",
    "java",
    "names",
    "end",
    "acquired",
    "slots",
    "paused",
];

/// What `doctor` found in a store.
#[derive(Debug)]
struct Report {
    code: i32,
    findings: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    check: String,
    level: String,
    message: String,
    remedy: Option<String>,
}

fn doctor(store: &str) -> Report {
    doctor_with(store, &[])
}

fn doctor_with(store: &str, options: &[&str]) -> Report {
    let arguments = [&["doctor", "-o", "json", "--store", store], options].concat();
    let report = done(&mut Sandbox::new().bare(&arguments));
    let json: Value =
        serde_json::from_str(&report.stdout).unwrap_or_else(|error| panic!("{error}: {report:?}"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let findings = json["findings"].as_array().unwrap().iter();
    Report {
        code: report.code,
        findings: findings
            .map(|finding| Found {
                check: text(&finding["check"]).unwrap(),
                level: text(&finding["level"]).unwrap(),
                message: text(&finding["message"]).unwrap(),
                remedy: text(&finding["remedy"]),
            })
            .collect(),
    }
}

impl Report {
    /// Those that are not in order: their checks and levels.
    fn faults(&self) -> Vec<(&str, &str)> {
        let faults = self.findings.iter().filter(|found| found.level != "ok");
        faults.map(|it| (&*it.check, &*it.level)).collect()
    }

    #[track_caller]
    fn is_healthy(&self) {
        assert_eq!((self.faults(), self.code), (Vec::new(), 0), "{self:?}");
        for check in COMMON {
            let has = self.findings.iter().any(|found| found.check == check);
            assert!(has, "{check} is missing: {self:?}");
        }
    }

    /// Exactly this fault was found, with these words and with what to do.
    #[track_caller]
    fn has_only(&self, check: &str, level: &str, words: &str) {
        assert_eq!(self.faults(), [(check, level)], "{self:?}");
        assert_eq!(self.code, i32::from(level == "error"), "{self:?}");
        let mut faults = self.findings.iter().filter(|found| found.level != "ok");
        let fault = faults.next().unwrap();
        let remedy = fault.remedy.as_deref().unwrap_or_default();
        let text = format!("{}; {remedy}", fault.message);
        assert!(text.contains(words), "no {words:?} in {fault:?}");
    }
}
