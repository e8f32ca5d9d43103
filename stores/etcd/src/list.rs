//! Lists of all locks, page by page.

use std::collections::BTreeMap;

use ErrorKind::Unavailable;
use etcd_client::{GetOptions, GetResponse, KeyValue, Txn, TxnOp};
use shedlock_core::{ErrorKind, LockName, answered_within};
use shedlock_provider::{Part, Result};

use crate::found::{Found, gets};
use crate::store::EtcdStore;

/// How many keys of each kind one request reads: even the longest keys fit into one reply.
const READ: i64 = 250;

impl EtcdStore {
    /// Reads locks after this name, all at one revision. The result is complete up to the name in `next`; none means
    /// that nothing follows.
    pub(crate) async fn read(&self, after: Option<LockName>) -> Result<Part<LockName>> {
        let now = self.clock.system_time();
        let ranges = self.keys.after(after.as_ref()).map(|(from, end)| {
            let options = GetOptions::new().with_range(end).with_limit(READ);
            TxnOp::get(from, Some(options))
        });
        let both = self.send(Unavailable, Txn::new().and_then(ranges));
        let limit = self.connections.longest_call();
        let both = answered_within(&*self.clock, limit, Unavailable, both);
        let answers = gets(&both.await?)?;
        let ends = answers.iter().filter_map(|answer| self.last_of(answer));
        let until = ends.min();
        let mut locks: BTreeMap<LockName, [Option<&KeyValue>; 2]> = BTreeMap::new();
        for (which, answer) in answers.iter().enumerate() {
            for key in answer.kvs() {
                if let Some(name) = self.keys.name_of(key.key()) {
                    locks.entry(name).or_default()[which] = Some(key);
                }
            }
        }
        locks.retain(|name, _| until.as_ref().is_none_or(|until| name <= until));
        let found = locks.into_iter().map(|(name, keys)| {
            let record = Found::of(keys).map(|found| Some(found.shown(&name, now)));
            (name.to_string(), record)
        });
        Ok(Part {
            found: found.collect(),
            next: until,
        })
    }

    /// Returns the name of the last key of a range, if the reply does not contain the whole range.
    fn last_of(&self, answer: &GetResponse) -> Option<LockName> {
        let mut keys = answer.kvs().iter().rev();
        let last = keys.find_map(|key| self.keys.name_of(key.key()));
        last.filter(|_| answer.more())
    }
}
