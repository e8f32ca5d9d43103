//! What a bucket's settings mean for locks.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use shedlock_core::{Error, ErrorKind};

/// The largest message that a lock can need, with its headers.
const LARGEST_MESSAGE: i64 = 1024;

/// How many values of a key a key-value bucket keeps at most.
const LONGEST_HISTORY: i64 = 64;

/// The settings of the bucket's stream, as JetStream returns them.
#[derive(Clone, Debug)]
pub(crate) struct Shape(pub(crate) Value);

/// What the last look at the settings found.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// On which connection they were in order; 0: on none yet.
    passed: AtomicU64,
    is_atomic: AtomicBool,
    /// Whether the server may forget what it has confirmed, however it is set up.
    is_fleeting: AtomicBool,
    /// How many servers keep the bucket; 0 before the first look.
    kept_by: AtomicUsize,
}

impl Shape {
    /// Whether the bucket takes several messages in one step.
    pub(crate) fn is_atomic(&self) -> bool {
        self.is_set("allow_atomic")
    }

    /// Refuses settings with which a held lock is forgotten, or no lock can be taken.
    ///
    /// # Errors
    /// `Configuration`; it names the setting and what to do.
    pub(crate) fn check(&self, bucket: &str) -> Result<(), Error> {
        let Some((what, remedy)) = self.fault() else {
            return Ok(());
        };
        let remedy = match remedy {
            Remedy::Edit(flag) => format!("run `nats stream edit KV_{bucket} {flag}`"),
            Remedy::Another => {
                "the setting cannot be changed back: use another bucket, made with `shedlock \
                 migrate`"
                    .to_owned()
            }
        };
        Err(Error::new(
            ErrorKind::Configuration,
            format!("the bucket {bucket:?} {what}: {remedy}"),
        ))
    }

    fn fault(&self) -> Option<(String, Remedy)> {
        use Remedy::{Another, Edit};
        let age = Duration::from_nanos(self.0["max_age"].as_u64().unwrap_or_default());
        let (messages, bytes) = (self.number("max_msgs"), self.number("max_bytes"));
        let history = self.number("max_msgs_per_subject");
        let largest = self.number("max_msg_size");
        let is_full = messages > 0 || bytes > 0;
        let retention = self.0["retention"].as_str().unwrap_or("limits");
        let said = |text: &str| text.to_owned();
        Some(if !age.is_zero() {
            (
                format!("forgets its keys after {age:?}, held locks included (max_age, the TTL)"),
                Edit("--max-age=0"),
            )
        } else if is_full && self.0["discard"] == "old" {
            (
                format!(
                    "drops its oldest keys where it is full, held locks included (discard is old, \
                     max_msgs {messages}, max_bytes {bytes})"
                ),
                Edit("--discard=new"),
            )
        } else if self.is_set("discard_new_per_subject") {
            (
                said("refuses to replace a value (discard_new_per_subject)"),
                Edit("--no-discard-per-subject"),
            )
        } else if !(1..=LONGEST_HISTORY).contains(&history) {
            (
                format!("keeps {history} values of a key (max_msgs_per_subject)"),
                Edit("--max-msgs-per-subject=1"),
            )
        } else if (0..LARGEST_MESSAGE).contains(&largest) {
            (
                format!(
                    "takes messages of {largest} bytes at most, and a lock may need \
                     {LARGEST_MESSAGE} (max_msg_size)"
                ),
                Edit("--max-msg-size=-1"),
            )
        } else if self.is_set("no_ack") {
            (said("confirms no message (no_ack)"), Edit("--ack"))
        } else if self.is_set("sealed") {
            (said("is sealed: nothing can be written"), Another)
        } else if retention != "limits" {
            (
                format!("drops what was read (retention is {retention})"),
                Another,
            )
        } else if self.has("mirror") || self.has("sources") {
            (
                said("is filled from another one (mirror, sources), over locks that are held"),
                Another,
            )
        } else if self.has("subject_transform") {
            (
                said("keeps its keys under other names (subject_transform)"),
                Another,
            )
        } else {
            return None;
        })
    }

    fn is_in_memory(&self) -> bool {
        self.0["storage"] == "memory"
    }

    fn is_set(&self, name: &str) -> bool {
        self.0[name] == true
    }

    fn has(&self, name: &str) -> bool {
        let value = &self.0[name];
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    }

    /// A limit; none is -1.
    fn number(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or(-1)
    }
}

/// What an operator can do about a setting.
enum Remedy {
    /// Change it so.
    Edit(&'static str),
    /// Only another bucket will do.
    Another,
}

impl Seen {
    /// Keeps what this look found, on the connection of this number.
    ///
    /// # Errors
    /// As [`Shape::check`].
    pub(crate) fn learn(&self, shape: &Shape, bucket: &str, nth: u64) -> Result<(), Error> {
        let relaxed = Ordering::Relaxed;
        let replicas = shape.0["num_replicas"].as_u64().unwrap_or(1);
        let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
        self.kept_by.store(replicas, relaxed);
        self.is_atomic.store(shape.is_atomic(), relaxed);
        let is_late = shape.0["persist_mode"] == "async";
        let is_fleeting = shape.is_in_memory() || is_late;
        if !self.is_fleeting.swap(is_fleeting, relaxed) && is_fleeting {
            if is_late {
                tracing::warn!(
                    bucket,
                    "the bucket confirms what is not on disk yet (persist_mode async): locks may be \
                     gone when the server restarts"
                );
            } else {
                tracing::warn!(
                    bucket,
                    "the bucket is kept in memory: all locks are gone when the server restarts"
                );
            }
        }
        shape.check(bucket)?;
        self.passed.store(nth, relaxed);
        Ok(())
    }

    /// Whether the settings were in order, on whichever connection.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed) > 0
    }

    /// Whether they were in order on this connection.
    pub(crate) fn has_passed_on(&self, nth: u64) -> bool {
        self.passed.load(Ordering::Relaxed) == nth
    }

    /// An answer may come of settings that were changed: the next taking looks at them again.
    pub(crate) fn doubt(&self) {
        if self.has_passed() {
            self.passed.store(u64::MAX, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.is_atomic.load(Ordering::Relaxed)
    }

    pub(crate) fn is_fleeting(&self) -> bool {
        self.is_fleeting.load(Ordering::Relaxed)
    }

    pub(crate) fn kept_by(&self) -> usize {
        self.kept_by.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(changes: Value) -> Shape {
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
        Shape(config)
    }

    #[test]
    fn settings_that_harm_no_lock_are_taken() {
        for harmless in [
            json!({}),
            json!({ "max_msgs_per_subject": 64 }),
            // A full bucket grants no lock and forgets none. Hosted NATS asks for such a limit.
            json!({ "max_bytes": 1 << 20, "max_msgs": 1000 }),
            json!({ "discard": "old" }),
            json!({ "storage": "memory", "sources": [], "mirror": null, "sealed": false }),
            json!({ "allow_msg_ttl": true, "deny_purge": true, "allow_atomic": true }),
        ] {
            shape(harmless).check("b").unwrap();
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
            let error = shape(harmful).check("b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let said = error.message();
            let has_remedy = said.contains("KV_b") || said.contains("another bucket");
            assert!(said.contains(name) && has_remedy, "{said}");
        }
    }
}
