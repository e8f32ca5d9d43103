//! The contents of a lock's two nodes: its own node and the companion node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use shedlock_provider::{Found, Reading, Record, Result, conflict};
use zookeeper_client::Stat;

use crate::path;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) data: Vec<u8>,
    pub(crate) stat: Stat,
}

/// The two nodes of a lock at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) lock: Option<Node>,
    pub(crate) beside: Option<Node>,
}

/// A write of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) zxid: i64,
    /// The version that the server compares.
    pub(crate) version: i32,
}

/// Identifies the writes of the two nodes that a record was read from; none for a node that does
/// not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub(crate) lock: Option<Write>,
    pub(crate) beside: Option<Write>,
}

impl Write {
    /// Returns the last write of this node.
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            zxid: stat.mzxid,
            version: stat.version,
        }
    }
}

impl Nodes {
    pub(crate) fn reading(&self) -> Result<Reading<Version>> {
        let (lock, beside) = (self.lock.as_ref(), self.beside.as_ref());
        if lock.is_none() && beside.is_none() {
            return Ok(Reading::nothing());
        }
        let record = record(lock, beside)?;
        Ok(Reading::found(Found::new(record, self.version())))
    }

    /// Whether the nodes contain what nodes that lead to others do.
    pub(crate) fn say_nothing(&self) -> bool {
        let lock = self.lock.as_ref();
        let is_free = lock.is_none_or(|it| it.data.is_empty() || it.data == path::FREE.as_bytes());
        is_free && self.beside.as_ref().is_none_or(|it| it.data.is_empty())
    }

    /// Whether the nodes say nothing and lead to no others.
    pub(crate) fn are_unused(&self) -> bool {
        let mut nodes = self.lock.iter().chain(&self.beside);
        self.say_nothing() && nodes.all(|node| node.stat.num_children == 0)
    }

    pub(crate) fn version(&self) -> Version {
        let last = |node: &Option<Node>| node.as_ref().map(|node| Write::of(&node.stat));
        Version {
            lock: last(&self.lock),
            beside: last(&self.beside),
        }
    }
}

/// Returns the data of a lock's own node, as ShedLock writes it: always with three fractional
/// digits.
pub(crate) fn until(record: &Record) -> String {
    let millis = i64::try_from(record.until_millis()).unwrap_or(i64::MAX);
    let until = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{until:.3}")
}

pub(crate) fn record(lock: Option<&Node>, beside: Option<&Node>) -> Result<Record> {
    // The lock's node was deleted by hand.
    let until = lock.map_or(Ok(UNIX_EPOCH), Node::until)?;
    let mut record = Record::until(until);
    // The empty companion nodes above longer names contain no record.
    if let Some(beside) = beside.filter(|node| !node.data.is_empty()) {
        let mut kept = beside.kept()?;
        let zxid = beside.stat.mzxid;
        if lock.is_some_and(|lock| lock.stat.mzxid == zxid) {
            kept.locked_until = until;
            return Ok(kept);
        }
        record.slots = kept.slots;
        record.fencing_token = kept.with_token_of(u64::try_from(zxid).ok()).fencing_token;
    }
    record.locked_at = lock
        .filter(|_| until > UNIX_EPOCH)
        .map(|node| instant(node.stat.mtime));
    Ok(record)
}

impl Node {
    pub(crate) fn until(&self) -> Result<SystemTime> {
        let read = || parse(std::str::from_utf8(&self.data).ok()?);
        read().ok_or_else(|| {
            let text = String::from_utf8_lossy(&self.data);
            let data: String = text.chars().take(40).collect();
            let what = if data.is_empty() {
                "is empty".to_owned()
            } else {
                format!("contains {data:?}")
            };
            conflict(format!("the node {} {what}, but a lock contains an instant; ShedLock treats it as held forever", self.path)).advise("check what wrote it, then delete it or use another name")
        })
    }

    fn kept(&self) -> Result<Record> {
        Record::from_bytes(&self.data).map_err(|_| {
            conflict(format!(
                "the node {} was not written by any version of this crate",
                self.path
            ))
            .advise("check what wrote it, then delete it")
        })
    }
}

/// Parses an instant as Java prints it, with any number of fractional digits, and rounds it up to a
/// whole millisecond.
fn parse(text: &str) -> Option<SystemTime> {
    let is_written_so = |byte: u8| byte.is_ascii_digit() || b"TZ:.+-".contains(&byte);
    if !text.ends_with('Z') || !text.bytes().all(is_written_so) {
        return None;
    }
    if let Some((year, rest)) = text.strip_prefix('+').and_then(|text| text.split_once('-')) {
        // Beyond the year 9999. Any instant this far away has the same effect, so the latest one
        // stands for it.
        if year.len() < 5 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let same_day: Timestamp = format!("2000-{rest}").parse().ok()?;
        return (same_day.as_millisecond() > 0).then_some(end_of_time());
    }
    let instant: Timestamp = text.parse().ok()?;
    let nanos = u128::try_from(instant.as_nanosecond()).unwrap_or_default();
    let millis = u64::try_from(nanos.div_ceil(1_000_000)).ok()?;
    Some(UNIX_EPOCH + Duration::from_millis(millis))
}

/// Returns the last millisecond that records can represent.
pub(crate) fn end_of_time() -> SystemTime {
    instant(Timestamp::MAX.as_millisecond())
}

fn instant(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;
    use crate::fuzz::node;

    const OURS: &str = "shedlock 1\nuntil 1800000000999\nat 1799999999001\n\
        slot 1799999940000001\nattempts 2\nowner web/1/ab\n";

    #[test]
    fn the_locks_own_node_is_shedlocks() {
        let record = Record::from_text(OURS).unwrap();
        assert_eq!(until(&record), "2027-01-15T08:00:00.999Z");
        assert_eq!(
            until(&Record::until(UNIX_EPOCH)),
            "1970-01-01T00:00:00.000Z"
        );
        assert_eq!(record.to_text(), OURS);
    }

    #[test]
    fn two_nodes_of_one_transaction_are_our_record() {
        let lock = node("2027-01-15T08:00:00.999Z", 7);
        let ours = record(Some(&lock), Some(&node(OURS, 7))).unwrap();
        assert_eq!(ours, Record::from_text(OURS).unwrap());
    }

    #[test]
    fn what_was_written_since_is_shedlocks_with_token_and_slots_of_ours() {
        let lock = node("2027-01-15T08:00:00Z", 9);
        let theirs = record(Some(&lock), Some(&node(OURS, 7))).unwrap();
        assert_eq!((theirs.owner.as_str(), theirs.fencing_token), ("", Some(7)));
        assert_eq!(theirs.until_millis(), 1_800_000_000_000);
        assert_eq!(theirs.locked_at, Some(instant(1_700_000_000_123)));
        assert_eq!(theirs.slots.attempts, Some(2));
        // A later extension stores the token of the acquisition.
        let extended = format!("{OURS}token 5\n");
        let theirs = record(Some(&lock), Some(&node(&extended, 7))).unwrap();
        assert_eq!(theirs.fencing_token, Some(5));
        let deleted = record(None, Some(&node(OURS, 7))).unwrap();
        assert_eq!(
            (deleted.until_millis(), deleted.fencing_token),
            (0, Some(7))
        );
        let withdrawn = "shedlock 1\nuntil 0\nowner web/1/ab unlocked\n";
        let theirs = record(Some(&lock), Some(&node(withdrawn, 7))).unwrap();
        assert_eq!(theirs.fencing_token, None);
        let alone = record(Some(&lock), Some(&node("", 7))).unwrap();
        assert_eq!((alone.owner.as_str(), alone.fencing_token), ("", None));
    }

    #[test]
    fn what_leads_to_other_locks_was_never_acquired() {
        let above = record(Some(&node(crate::path::FREE, 7)), None).unwrap();
        assert_eq!((above.until_millis(), above.locked_at), (0, None));
    }

    #[test]
    fn instants_are_read_as_java_reads_them() {
        for (text, millis) in [
            ("2026-11-21T10:00:00Z", 1_795_255_200_000),
            ("2026-11-21T10:00:00.1Z", 1_795_255_200_100),
            ("2026-11-21T10:00:00.123Z", 1_795_255_200_123),
            ("2026-11-21T10:00:00.123000001Z", 1_795_255_200_124),
            ("1969-12-31T23:59:59.999Z", 0),
        ] {
            assert_eq!(node(text, 1).until().unwrap(), instant(millis), "{text}");
        }
        let long = node("+10000-01-01T00:00:00.000Z", 1).until().unwrap();
        assert_eq!(long, end_of_time());
    }

    #[test]
    fn an_invalid_node_is_a_conflict_that_names_the_node() {
        for text in [
            "",
            "hello",
            "2026-11-21",
            "2026-11-21 10:00:00Z",
            "2026-11-21T10:00:00",
            "2026-11-21T10:00:00Z\n",
            "+10000-13-01T00:00:00Z",
            "+2026-11-21T10:00:00Z",
            "+:-01-01T00:00:00Z",
            "1795255200000",
        ] {
            let error = node(text, 1).until().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}");
            assert!(error.to_string().contains("/shedlock/job"), "{error}");
        }
        let error = record(None, Some(&node("mine", 1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
}
