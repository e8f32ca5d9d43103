//! Fuzz targets for code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::SystemTime;

use promises::is_refusal;
use shedlock_core::{ErrorKind, LockName};
use zookeeper_client::Stat;

use crate::codec::{Node, end_of_time, record, until};
use crate::path::{self, Paths};

/// URLs.
pub fn url(data: &[u8]) {
    promises::url_without_files(data, crate::url::read);
}

/// The data of a lock's node and, after the first line, of its companion node.
pub fn nodes(data: &[u8]) {
    let (lock, beside) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], Some(&data[end + 1..])),
        None => (data, None),
    };
    let lock = node(lock, 7);
    for zxid in [7, 8] {
        let beside = beside.map(|data| node(data, zxid));
        match record(Some(&lock), beside.as_ref()) {
            Ok(found) => {
                assert!(found.locked_until >= SystemTime::UNIX_EPOCH);
                assert!(found.locked_until <= end_of_time());
                let written = node(until(&found), 7);
                assert_eq!(written.until().ok(), Some(found.locked_until));
            }
            Err(error) => is_refusal(&error, &[ErrorKind::Conflict]),
        }
    }
}

/// A node as it is read, last written by this transaction.
pub(crate) fn node(data: impl AsRef<[u8]>, zxid: i64) -> Node {
    let stat = Stat {
        czxid: 1,
        mzxid: zxid,
        pzxid: 1,
        ctime: 0,
        mtime: 1_700_000_000_123,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    };
    Node {
        path: "/shedlock/job".to_owned(),
        data: data.as_ref().to_vec(),
        stat,
    }
}

/// The path of the locks and, after the first line, a node or a name: names convert to nodes and
/// back, and no two of them collide.
pub fn name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (locks, text) = text.split_once('\n').unwrap_or(("/shedlock", &text));
    let paths = match Paths::new(locks) {
        Ok(paths) => paths,
        Err(error) => return is_refusal(&error, &[ErrorKind::InvalidInput]),
    };
    let of = |name: &LockName| paths.of(name)[0].split_off(locks.len() + 1);
    if let Some(name) = path::name(text) {
        assert_eq!(of(&name), text);
    }
    if let Ok(name) = LockName::new(text) {
        assert_eq!(path::name(&of(&name)).as_ref(), Some(&name));
        let [lock, beside] = paths.of(&name);
        assert_ne!(lock, beside);
        for (above, _) in paths.above(&name) {
            assert!(above.starts_with('/') && !above.ends_with('/') && !above.contains("//"));
        }
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, nodes, name);
