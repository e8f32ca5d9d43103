//! Both keys of a lock in one transaction: read, or changed if they have not changed since they were read.

use std::sync::Arc;

use ErrorKind::{Lost, OutcomeUnknown, Unavailable};
use etcd_client::{
    Client, Compare, CompareOp, PutOptions, ResponseHeader, Txn, TxnOp, TxnResponse,
};
use shedlock_core::admin::Changed;
use shedlock_core::{ErrorKind, LockName};
use shedlock_provider::{Record, Result, internal};

use crate::found::{Found, Kept, KeyChange, Locked};
use crate::store::EtcdStore;

struct Change<'a> {
    keys: [String; 2],
    before: &'a Found,
    lock: KeyChange,
    record: Option<Record>,
}

impl EtcdStore {
    /// Reads both keys, as the majority of the cluster has them.
    pub(crate) async fn find(&self, name: &LockName) -> Result<Found> {
        let both = Txn::new().and_then(gets(&self.keys.of(name)));
        Found::read(&self.send(Unavailable, both).await?)
    }

    /// Changes the lock's own key and the companion record, if no other client has changed them since they were read.
    /// Without a new record, the companion record stays unchanged. Returns the current state. A lease for the key is
    /// revoked unless the key has it or may still get it.
    pub(crate) async fn change_keys(
        &self,
        name: &LockName,
        before: &Found,
        lock: KeyChange,
        record: Option<Record>,
    ) -> Result<(Changed, Found)> {
        let change = Change {
            keys: self.keys.of(name),
            before,
            lock,
            record,
        };
        let answer = match self.send(OutcomeUnknown, change.txn()).await {
            Ok(answer) if answer.succeeded() => {
                let revision = answer.header().map(ResponseHeader::revision);
                let revision = revision.ok_or_else(|| internal("the reply contains no revision"));
                revision.map(|revision| (Changed::Done, change.after(revision)))
            }
            Ok(answer) => Found::read(&answer).map(|found| (Changed::Raced, found)),
            // The store's lease for the key.
            Err(error) if error.kind() == Lost => {
                self.find(name).await.map(|found| (Changed::Raced, found))
            }
            Err(error) if error.is_outcome_unknown() => match self.find(name).await {
                Ok(now) => change.outcome(&now).map(|it| (it, now)).ok_or(error),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        };
        if let KeyChange::Put(_, lease) = change.lock {
            let is_needed = match &answer {
                Ok((_, found)) => found.ends_with(lease),
                Err(error) => error.is_outcome_unknown(),
            };
            if !is_needed {
                self.revoke(lease);
            }
        }
        answer
    }

    /// Removes the companion record of a lock whose own key does not exist, if neither key has changed since they were
    /// read.
    pub(crate) async fn remove_record(&self, name: &LockName, before: &Found) -> Result<Changed> {
        let keys = self.keys.of(name);
        let [lock, companion] = keys.each_ref().map(String::as_str);
        let [lock_revision, kept_revision] = before.revisions();
        let stands = |key, at| Compare::mod_revision(key, CompareOp::Equal, at);
        let txn = Txn::new()
            .when([
                stands(lock, lock_revision),
                stands(companion, kept_revision),
            ])
            .and_then([TxnOp::delete(companion, None)]);
        match self.send(OutcomeUnknown, txn).await {
            Ok(answer) => Ok(Changed::done(answer.succeeded())),
            Err(error) if error.is_outcome_unknown() => match self.find(name).await {
                Ok(now) if now.kept.is_none() => Ok(Changed::Done),
                // The removal may still arrive.
                Ok(now) if now.revisions() == before.revisions() => Err(error),
                Ok(_) => Ok(Changed::Overtaken),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Sends a transaction. `lost` is the kind of the error if its reply is lost.
    pub(crate) async fn send(&self, lost: ErrorKind, txn: Txn) -> Result<TxnResponse> {
        let ask = |it: Arc<Client>| {
            let txn = txn.clone();
            async move { it.kv_client().txn(txn).await }
        };
        self.connections.ask(lost, ask).await
    }
}

impl Change<'_> {
    fn txn(&self) -> Txn {
        let [lock, companion] = self.keys.each_ref().map(String::as_str);
        let [lock_revision, kept_revision] = self.before.revisions();
        let stands = |key, at| Compare::mod_revision(key, CompareOp::Equal, at);
        let mut conditions = vec![stands(companion, kept_revision)];
        if !matches!(self.lock, KeyChange::Leave) {
            conditions.push(stands(lock, lock_revision));
        }
        let mut changes = Vec::new();
        match &self.lock {
            KeyChange::Put(value, lease) => {
                let options = PutOptions::new().with_lease(*lease);
                changes.push(TxnOp::put(lock, value.as_slice(), Some(options)));
            }
            KeyChange::Delete => changes.push(TxnOp::delete(lock, None)),
            KeyChange::Leave => {}
        }
        if let Some(record) = &self.record {
            changes.push(TxnOp::put(companion, record.to_text(), None));
        }
        let txn = Txn::new().when(conditions).and_then(changes);
        txn.or_else(gets(&self.keys))
    }

    fn after(&self, revision: i64) -> Found {
        let Found { mut lock, mut kept } = self.before.clone();
        match &self.lock {
            KeyChange::Put(value, lease) => {
                lock = Some(Locked {
                    value: value.clone(),
                    revision,
                    token: lock.map_or(revision.unsigned_abs(), |lock| lock.token),
                    lease: *lease,
                });
            }
            KeyChange::Delete => lock = None,
            KeyChange::Leave => {}
        }
        if let Some(record) = &self.record {
            kept = Some(Kept::new(record.clone(), revision));
        }
        Found { lock, kept }
    }

    /// Returns the outcome of a change whose reply was lost, judged by the current keys. They are unchanged, or as this
    /// change writes them, or as another change wrote them. Only in the first case does the outcome stay unknown,
    /// because the change may still arrive.
    fn outcome(&self, now: &Found) -> Option<Changed> {
        let leaves_lock = matches!(self.lock, KeyChange::Leave);
        let [lock, kept] = self.before.revisions();
        let [lock_now, kept_now] = now.revisions();
        // Compare the revisions first: an equal record may replace a record.
        if kept_now == kept && (leaves_lock || lock_now == lock) {
            return None;
        }
        // No two calls use the same lease or write the same record.
        let has_lock = match self.lock {
            KeyChange::Put(_, lease) => now.ends_with(lease),
            KeyChange::Delete => now.lock.is_none(),
            KeyChange::Leave => true,
        };
        let has = |record| now.kept.as_ref().is_some_and(|kept| kept.is(record));
        let is_made = has_lock && self.record.as_ref().is_none_or(has);
        Some(if is_made {
            Changed::Done
        } else {
            Changed::Overtaken
        })
    }
}

fn gets(keys: &[String; 2]) -> [TxnOp; 2] {
    keys.each_ref().map(|key| TxnOp::get(key.as_str(), None))
}
