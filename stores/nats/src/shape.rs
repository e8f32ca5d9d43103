//! What a bucket's settings mean for locks.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use shedlock_core::{Advice, Finding, Operation};
use shedlock_provider::{Result, configuration};

/// The largest message that a lock can need, including its headers.
const LARGEST_MESSAGE: i64 = 1024;

/// The largest number of values per key that a key-value bucket can keep.
const LONGEST_HISTORY: i64 = 64;

/// The settings of the bucket's stream, as JetStream returns them.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) config: Value,
    /// The sequence of the oldest message, or of the next one if there is none.
    pub(crate) first_sequence: u64,
    /// The version of the server that replies to clients.
    pub(crate) server: Version,
}

pub(crate) type Version = (u32, u32, u32);

/// Parses a version. Anything after a number, like `-RC.1`, is ignored.
pub(crate) fn version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|part| {
        let digits = part.split(|letter: char| !letter.is_ascii_digit()).next();
        digits.and_then(|it| it.parse().ok()).unwrap_or(0)
    });
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// The first version that keeps a bucket which begins with a chosen sequence. Earlier servers that can create such a
/// bucket empty it when they start, as long as its first message has not been replaced (nats-server, pull request
/// 6753).
const KEEPS_FIRST_SINCE: Version = (2, 11, 4);

/// The result of the last check of the settings.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Known>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The connection on which the settings last passed the check; 0 if they have not passed yet.
    pub(crate) passed: u64,
    pub(crate) is_atomic: bool,
    /// Whether the server may lose messages that it has confirmed, whatever the server's own settings are.
    pub(crate) is_fleeting: bool,
    /// How many servers keep the bucket; 0 before the first check.
    pub(crate) kept_by: u64,
}

impl Shape {
    pub(crate) fn is_atomic(&self) -> bool {
        self.is_set("allow_atomic")
    }

    /// Refuses settings that lose held locks, or that prevent locks from being taken, as `Configuration`. The error
    /// names the setting and what to do.
    pub(crate) fn check(&self, bucket: &str) -> Result<()> {
        let refused = |what: &str, remedy: Advice| {
            let what = format!("the bucket {bucket:?} {what}");
            Err(configuration(what).advise(remedy))
        };
        let editable = self.editable_faults();
        if let Some((_, what, flag)) = editable.iter().find(|(is_so, ..)| *is_so) {
            return refused(
                what,
                format!("run `nats stream edit KV_{bucket} {flag}`").into(),
            );
        }
        if self.is_emptied() {
            return refused(
                "is emptied when its server starts, held locks included (first_seq)",
                (
                    "upgrade the servers, because this is a bug in NATS before 2.11.4, or use another \
                     bucket, created with",
                    Operation::Migrate,
                )
                    .into(),
            );
        }
        let lasting = self.lasting_faults();
        if let Some((_, what)) = lasting.iter().find(|(is_so, _)| *is_so) {
            return refused(
                what,
                (
                    "this setting cannot be changed back, so use another bucket, created with",
                    Operation::Migrate,
                )
                    .into(),
            );
        }
        Ok(())
    }

    /// Returns, for each fault that an edit can fix: whether it is present, what it does, and the flag that fixes it.
    fn editable_faults(&self) -> [(bool, String, &'static str); 6] {
        let age = Duration::from_nanos(self.config["max_age"].as_u64().unwrap_or_default());
        let (messages, bytes) = (self.number("max_msgs"), self.number("max_bytes"));
        let history = self.number("max_msgs_per_subject");
        let largest = self.number("max_msg_size");
        let is_full = messages > 0 || bytes > 0;
        [
            (
                !age.is_zero(),
                format!("expires its keys after {age:?}, held locks included (max_age, the TTL)"),
                "--max-age=0",
            ),
            (
                is_full && self.config["discard"] == "old",
                format!(
                    "drops its oldest keys when it is full, held locks included (discard is old, \
                     max_msgs {messages}, max_bytes {bytes})"
                ),
                "--discard=new",
            ),
            (
                self.is_set("discard_new_per_subject"),
                "rejects updates of existing keys (discard_new_per_subject)".to_owned(),
                "--no-discard-per-subject",
            ),
            (
                !(1..=LONGEST_HISTORY).contains(&history),
                format!("keeps {history} values per key (max_msgs_per_subject)"),
                "--max-msgs-per-subject=1",
            ),
            (
                (0..LARGEST_MESSAGE).contains(&largest),
                format!(
                    "limits messages to {largest} bytes, but a lock may need {LARGEST_MESSAGE} \
                     (max_msg_size)"
                ),
                "--max-msg-size=-1",
            ),
            (
                self.is_set("no_ack"),
                "does not confirm messages (no_ack)".to_owned(),
                "--ack",
            ),
        ]
    }

    /// Returns, for each fault that an edit cannot fix: whether it is present, and what it does.
    fn lasting_faults(&self) -> [(bool, String); 4] {
        let retention = self.config["retention"].as_str().unwrap_or("limits");
        [
            (
                self.is_set("sealed"),
                "is sealed, so nothing can be written".to_owned(),
            ),
            (
                retention != "limits",
                format!("drops messages that were read (retention is {retention})"),
            ),
            (
                self.has("mirror") || self.has("sources"),
                "is filled from another one (mirror, sources), which overwrites held locks"
                    .to_owned(),
            ),
            (
                self.has("subject_transform"),
                "stores its keys under other names (subject_transform)".to_owned(),
            ),
        ]
    }

    /// Whether the server deletes all messages when it starts.
    fn is_emptied(&self) -> bool {
        let begins_with = self.config["first_seq"].as_u64().unwrap_or_default();
        begins_with > 0
            && !self.is_in_memory()
            && self.first_sequence <= begins_with
            && self.server < KEEPS_FIRST_SINCE
    }

    /// What the settings mean for locks, once they have passed the [check](Self::check).
    pub(crate) fn findings(&self, sync_always: bool, can_be_atomic: bool) -> [Finding; 4] {
        let (major, minor, patch) = self.server;
        let lost = "a restart or a power loss can lose locks, which can then be taken twice";
        let durability = "durability";
        let durability = if self.is_in_memory() {
            let message = format!("the bucket is kept in memory: {lost}");
            Finding::warning(durability, message, "use a bucket with file storage")
        } else if self.is_late() {
            let what = "the bucket confirms writes before they are on disk (persist_mode async)";
            let remedy = "use a bucket with the default persist_mode";
            Finding::warning(durability, format!("{what}: {lost}"), remedy)
        } else if sync_always {
            let message =
                "the servers sync each write to disk, according to sync_always in your settings";
            Finding::ok(durability, message)
        } else {
            let message = format!(
                "the servers sync to disk every two minutes unless sync_interval is set, which they \
                 do not report: {lost}"
            );
            let remedy =
                "set `sync_interval: always` on the servers, and sync_always=true in the URL";
            Finding::warning(durability, message, remedy)
        };
        let replicas = self.config["num_replicas"].as_u64().unwrap_or(1);
        let is_split = can_be_atomic && !self.is_atomic();
        [
            Finding::ok("version", format!("nats {major}.{minor}.{patch}")),
            durability,
            Finding::ok(
                "replicas",
                match replicas {
                    1 => "one server keeps the bucket: locks are unavailable while it is down"
                        .to_owned(),
                    many => format!("{many} servers keep the bucket"),
                },
            ),
            if is_split {
                let message = "the bucket accepts one message at a time (allow_atomic is off), \
                               although its servers support more: each lock takes more requests";
                Finding::warning("bucket", message, format!("run {}", Operation::Migrate))
            } else {
                Finding::ok(
                    "bucket",
                    "the bucket's settings neither delete nor reject locks",
                )
            },
        ]
    }

    fn is_late(&self) -> bool {
        self.config["persist_mode"] == "async"
    }

    fn is_in_memory(&self) -> bool {
        self.config["storage"] == "memory"
    }

    fn is_set(&self, name: &str) -> bool {
        self.config[name] == true
    }

    fn has(&self, name: &str) -> bool {
        let value = &self.config[name];
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    }

    fn number(&self, name: &str) -> i64 {
        self.config[name].as_i64().unwrap_or(-1)
    }
}

impl Seen {
    pub(crate) fn known(&self) -> Known {
        *self.lock()
    }

    /// Stores these settings, as read over the connection of this number, and [checks](Shape::check) them.
    pub(crate) fn learn(&self, shape: &Shape, bucket: &str, nth: u64) -> Result<()> {
        let is_late = shape.is_late();
        let known = Known {
            is_atomic: shape.is_atomic(),
            is_fleeting: shape.is_in_memory() || is_late,
            kept_by: shape.config["num_replicas"].as_u64().unwrap_or(1),
            ..self.known()
        };
        let before = mem::replace(&mut *self.lock(), known);
        if known.is_fleeting && !before.is_fleeting {
            let why = if is_late {
                "confirms writes before they are on disk (persist_mode async): a server restart \
                 may lose locks"
            } else {
                "is kept in memory: a server restart loses all locks"
            };
            tracing::warn!(target: shedlock_core::SETTINGS, bucket, "the bucket {why}");
        }
        shape.check(bucket)?;
        self.lock().passed = nth;
        Ok(())
    }

    /// Marks the check as outdated: a reply may have been caused by changed settings. The next acquisition reads the
    /// settings again.
    pub(crate) fn doubt(&self) {
        let mut known = self.lock();
        if known.passed > 0 {
            known.passed = u64::MAX;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::{ErrorKind, Level};

    use super::*;
    use serde_json::json;

    fn shape(changes: &Value) -> Shape {
        let mut config = json!({
            "retention": "limits",
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "max_msgs_per_subject": 1,
            "discard": "new",
            "storage": "file",
            "num_replicas": 1,
        });
        for (name, value) in changes.as_object().unwrap() {
            config[name] = value.clone();
        }
        Shape {
            first_sequence: config["first_seq"].as_u64().unwrap_or(1),
            config,
            server: (2, 11, 4),
        }
    }

    #[test]
    fn a_bucket_that_is_emptied_when_its_server_starts_is_refused() {
        let at = |server: &str, first_sequence| Shape {
            server: version(server),
            first_sequence,
            ..shape(&json!({ "first_seq": 1_u64 << 50 }))
        };
        for server in ["2.10.27", "2.11.0-preview.2", "2.11.3"] {
            let said = at(server, 1 << 50).check("b").unwrap_err().to_string();
            assert!(
                said.contains("first_seq") && said.contains("upgrade"),
                "{said}"
            );
            // Once the first message has been replaced, nothing is lost.
            at(server, (1 << 50) + 1).check("b").unwrap();
        }
        for server in ["2.11.4", "2.12.5-RC.2", "3.0"] {
            at(server, 1 << 50).check("b").unwrap();
        }
    }

    #[test]
    fn settings_that_harm_no_lock_are_taken() {
        for harmless in [
            json!({}),
            json!({ "max_msgs_per_subject": 64 }),
            // A full bucket grants no lock and loses none. Hosted NATS requires a limit like this.
            json!({ "max_bytes": 1 << 20, "max_msgs": 1000 }),
            json!({ "discard": "old" }),
            json!({ "storage": "memory", "sources": [], "mirror": null, "sealed": false }),
            json!({ "first_seq": 7, "allow_msg_ttl": true, "deny_purge": true, "allow_atomic": true }),
        ] {
            shape(&harmless).check("b").unwrap();
        }
    }

    #[test]
    fn no_setting_that_can_lose_locks_is_missed_by_a_diagnosis() {
        let faults = |changes: Value, sync_always, can_be_atomic| {
            let findings = shape(&changes).findings(sync_always, can_be_atomic);
            let faults = findings.into_iter().filter(|it| it.level != Level::Ok);
            faults.map(|it| it.check).collect::<Vec<_>>()
        };
        assert!(faults(json!({}), true, false).is_empty());
        assert!(faults(json!({ "allow_atomic": true }), true, true).is_empty());
        assert_eq!(faults(json!({}), true, true), ["bucket"]);
        assert_eq!(faults(json!({}), false, false), ["durability"]);
        for fleeting in [
            json!({ "storage": "memory" }),
            json!({ "persist_mode": "async" }),
        ] {
            assert_eq!(faults(fleeting, true, false), ["durability"]);
        }
    }

    #[test]
    fn each_setting_that_harms_locks_is_refused_by_its_name() {
        for (harmful, name) in [
            (json!({ "max_age": 3_000_000_000_u64 }), "max_age"),
            (json!({ "discard": "old", "max_msgs": 10 }), "max_msgs"),
            (
                json!({ "discard": "old", "max_bytes": 1 << 20 }),
                "max_bytes",
            ),
            (
                json!({ "discard_new_per_subject": true }),
                "discard_new_per_subject",
            ),
            (
                json!({ "max_msgs_per_subject": -1 }),
                "max_msgs_per_subject",
            ),
            (json!({ "max_msg_size": 100 }), "max_msg_size"),
            (json!({ "no_ack": true }), "no_ack"),
            (json!({ "sealed": true }), "sealed"),
            (json!({ "retention": "workqueue" }), "retention"),
            (json!({ "mirror": { "name": "KV_a" } }), "mirror"),
            (json!({ "sources": [{ "name": "KV_a" }] }), "sources"),
            (
                json!({ "subject_transform": { "src": ">", "dest": "x.>" } }),
                "subject_transform",
            ),
        ] {
            let error = shape(&harmful).check("b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let said = error.to_string();
            let has_remedy = said.contains("KV_b") || said.contains("another bucket");
            assert!(said.contains(name) && has_remedy, "{said}");
        }
    }
}
