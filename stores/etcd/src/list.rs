//! All locks, page by page.

use std::collections::BTreeMap;
use std::time::SystemTime;

use etcd_client::{GetOptions, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse};
use shedlock_core::{Error, ErrorKind, ListRequest, LockName, LockRecord, LockState, listed};

use crate::connections::{Connections, Effect};
use crate::found::Found;
use crate::key::Keys;
use crate::txn::send;

/// How many keys of each kind are asked for at a time: the longest of them fit one answer.
const READ: i64 = 250;

/// The page that this request asks for.
pub(crate) async fn list(
    connections: &Connections,
    keys: &Keys,
    request: &ListRequest,
    now: SystemTime,
) -> Result<Vec<LockRecord>, Error> {
    let size = request.page_size();
    let mut page = Vec::new();
    let mut after = request.after_name().cloned();
    while page.len() < size {
        let some = read(connections, keys, after.as_ref()).await?;
        for (name, found) in some.locks {
            let record = found.told(&name, now);
            let is_wanted = !request.is_held_only() || record.state != LockState::Free;
            if page.len() < size && is_wanted {
                page.push(record);
            }
        }
        after = some.until;
        if after.is_none() {
            break;
        }
    }
    Ok(page)
}

/// A part of the locks.
struct Part {
    locks: BTreeMap<LockName, Found>,
    /// Up to which name they are all; none where nothing follows.
    until: Option<LockName>,
}

/// The locks behind this name, as of one revision, up to some number.
async fn read(
    connections: &Connections,
    keys: &Keys,
    after: Option<&LockName>,
) -> Result<Part, Error> {
    let gets = keys.behind(after).map(|(from, end)| {
        let options = GetOptions::new().with_range(end).with_limit(READ);
        TxnOp::get(from, Some(options))
    });
    let answer = send(connections, Effect::None, Txn::new().and_then(gets)).await?;
    let answers = answer.op_responses();
    let [TxnOpResponse::Get(locks), TxnOpResponse::Get(kept)] = &answers[..] else {
        return Err(Error::new(
            ErrorKind::Internal,
            "two ranges of keys were asked for, something else was answered",
        ));
    };
    let until = [locks, kept]
        .into_iter()
        .filter_map(|answer| last_if_more_follow(keys, answer))
        .min();
    let mut pairs: BTreeMap<LockName, [Option<&KeyValue>; 2]> = BTreeMap::new();
    for (which, answer) in [locks, kept].into_iter().enumerate() {
        for key in answer.kvs() {
            // Others may have keys that look like ours, with names that no lock has.
            let Some(name) = keys.name_of(key.key()) else {
                continue;
            };
            if until.as_ref().is_none_or(|until| name <= *until) {
                pairs.entry(name).or_default()[which] = Some(key);
            }
        }
    }
    let mut locks = BTreeMap::new();
    for (name, [lock, kept]) in pairs {
        if let Some(found) = listed("etcd", name.as_str(), Found::of(lock, kept))? {
            locks.insert(name, found);
        }
    }
    Ok(Part { locks, until })
}

/// The name of the last key of a range that did not come whole.
fn last_if_more_follow(keys: &Keys, answer: &GetResponse) -> Option<LockName> {
    if !answer.more() {
        return None;
    }
    let mut names = answer.kvs().iter().rev();
    names.find_map(|key| keys.name_of(key.key()))
}
