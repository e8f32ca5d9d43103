//! All locks, page by page.

use std::collections::BTreeMap;

use ErrorKind::Unavailable;
use etcd_client::{GetOptions, GetResponse, KeyValue, Txn, TxnOp};
use shedlock_core::{
    ErrorKind, ListRequest, LockName, LockRecord, LockState, answered_within, listed,
};
use shedlock_store::Result;

use crate::EtcdStore;
use crate::found::{Found, gets};

/// How many keys of each kind are asked for at a time: the longest of them fit one answer.
const READ: i64 = 250;

impl EtcdStore {
    pub(crate) async fn page(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        let mut page = Vec::new();
        let mut after = request.after().cloned();
        loop {
            let (mut records, until) = self.read(after.as_ref()).await?;
            if request.is_held_only() {
                records.retain(|record| record.state != LockState::Free);
            }
            page.append(&mut records);
            if until.is_none() || page.len() >= request.limit() {
                page.truncate(request.limit());
                return Ok(page);
            }
            after = until;
        }
    }

    /// The locks after this name, as of one revision, up to some number; and up to which name they are all, none
    /// where nothing follows.
    async fn read(&self, after: Option<&LockName>) -> Result<(Vec<LockRecord>, Option<LockName>)> {
        let now = self.clock.system_time();
        let ranges = self.keys.after(after).map(|(from, end)| {
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
                let name = self.keys.name_of(key.key());
                if let Some(name) = name
                    && until.as_ref().is_none_or(|until| name <= *until)
                {
                    locks.entry(name).or_default()[which] = Some(key);
                }
            }
        }
        let mut records = Vec::new();
        for (name, keys) in locks {
            let record = Found::of(keys).map(|found| found.shown(&name, now));
            records.extend(listed("etcd", name.as_str(), record)?);
        }
        Ok((records, until))
    }

    /// The name of the last key of a range that did not come whole.
    fn last_of(&self, answer: &GetResponse) -> Option<LockName> {
        let mut keys = answer.kvs().iter().rev();
        let last = keys.find_map(|key| self.keys.name_of(key.key()));
        last.filter(|_| answer.more())
    }
}
