//! Both keys of a lock in one transaction: read, or changed if they still are as they were read.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnResponse};
use shedlock_core::{Error, ErrorKind};
use shedlock_store::Record;

use crate::connections::{Clients, Connections, Effect};
use crate::found::{Found, Kept, Locked};
use crate::key::Pair;

/// What becomes of a lock's two keys.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) pair: &'a Pair,
    /// What was read: the condition.
    pub(crate) before: &'a Found,
    pub(crate) lock: Own,
    /// The record beside it; none to leave it.
    pub(crate) record: Option<Record>,
}

/// What becomes of the lock's own key.
#[derive(Debug)]
pub(crate) enum Own {
    /// It is set, with a lease of the store.
    Put {
        /// The value.
        value: Vec<u8>,
        /// The lease.
        lease: i64,
    },
    /// It is deleted.
    Delete,
    /// It stays as it is.
    Leave,
}

/// What came of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It was made, and this is there now.
    Done(Found),
    /// Somebody else changed the keys first, and this is there now. Nothing was written.
    Raced(Found),
    /// The answer was lost, and this is there now: the change was made and somebody else has made
    /// another one since, or it never will be made.
    Overtaken(Found),
    /// The lease that the lock's key was to have is over. Nothing was written.
    LeaseGone,
}

/// What is there, as the majority of the cluster has it.
pub(crate) async fn look(connections: &Connections, pair: &Pair) -> Result<Found, Error> {
    let both = Txn::new().and_then(gets(pair));
    let answer = send(connections, Effect::None, both).await?;
    Found::read(&answer.op_responses())
}

/// Makes a change, if nobody made another one since.
///
/// Where the answer is lost, the keys tell: they are still as before, or as this change would have
/// them, or as another one has them. Only in the first case the outcome stays unknown, since the change
/// may yet arrive.
pub(crate) async fn change(
    connections: &Connections,
    change: &Change<'_>,
) -> Result<Changed, Error> {
    let answer = match try_send(connections, Effect::Writes, change.txn()).await {
        Ok(answer) => answer,
        Err(failure) if failure.is_lease_gone() => return Ok(Changed::LeaseGone),
        Err(failure) => {
            let error = failure.explain(Effect::Writes);
            if !error.is_unknown() {
                return Err(error);
            }
            return match look(connections, change.pair).await {
                // First, since a record can be replaced by itself.
                Ok(found) if change.is_met_by(&found) => Err(error),
                Ok(found) if change.is_in(&found) => Ok(Changed::Done(found)),
                Ok(found) => Ok(Changed::Overtaken(found)),
                Err(_) => Err(error),
            };
        }
    };
    if !answer.succeeded() {
        return Found::read(&answer.op_responses()).map(Changed::Raced);
    }
    let revision = answer
        .header()
        .map(etcd_client::ResponseHeader::revision)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "an answer has no revision"))?;
    Ok(Changed::Done(change.after(revision)))
}

impl Change<'_> {
    fn txn(&self) -> Txn {
        let Pair { lock, companion } = self.pair;
        let unchanged = |key: &str, revision: Option<i64>| {
            // A key that is not there has revision 0.
            Compare::mod_revision(key, CompareOp::Equal, revision.unwrap_or(0))
        };
        let mut conditions = vec![unchanged(companion, self.before.kept_revision())];
        if !matches!(self.lock, Own::Leave) {
            conditions.push(unchanged(lock, self.before.lock_revision()));
        }
        let mut changes = Vec::new();
        match &self.lock {
            Own::Put { value, lease } => {
                let options = PutOptions::new().with_lease(*lease);
                changes.push(TxnOp::put(lock.as_str(), value.as_slice(), Some(options)));
            }
            Own::Delete => changes.push(TxnOp::delete(lock.as_str(), None)),
            Own::Leave => {}
        }
        if let Some(record) = &self.record {
            changes.push(TxnOp::put(companion.as_str(), record.to_text(), None));
        }
        Txn::new()
            .when(conditions)
            .and_then(changes)
            .or_else(gets(self.pair))
    }

    /// What is there once this change was made, at this revision.
    fn after(&self, revision: i64) -> Found {
        let before = &self.before.lock;
        let lock = match &self.lock {
            Own::Put { value, lease } => Some(Locked {
                value: value.clone(),
                revision,
                created: before.as_ref().map_or(revision, |lock| lock.created),
                lease: *lease,
            }),
            Own::Delete => None,
            Own::Leave => before.clone(),
        };
        let kept = match &self.record {
            Some(record) => Some(Kept::new(record.clone(), revision)),
            None => self.before.kept.clone(),
        };
        Found { lock, kept }
    }

    /// Whether this is what the change leaves behind. No two calls take one lease, or write one
    /// record.
    fn is_in(&self, found: &Found) -> bool {
        let lock = match &self.lock {
            Own::Put { lease, .. } => found.lock.as_ref().is_some_and(|it| it.lease == *lease),
            Own::Delete => found.lock.is_none(),
            Own::Leave => true,
        };
        lock && self
            .record
            .as_ref()
            .is_none_or(|record| found.kept.as_ref().is_some_and(|kept| kept.is(record)))
    }

    /// Whether the change could still be made.
    fn is_met_by(&self, found: &Found) -> bool {
        let lock =
            matches!(self.lock, Own::Leave) || found.lock_revision() == self.before.lock_revision();
        lock && found.kept_revision() == self.before.kept_revision()
    }
}

fn gets(pair: &Pair) -> Vec<TxnOp> {
    vec![
        TxnOp::get(pair.lock.as_str(), None),
        TxnOp::get(pair.companion.as_str(), None),
    ]
}

/// The error of a call that was overtaken by others each time.
pub(crate) fn contended() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the lock was changed by somebody else each time before it could be written: ask again",
    )
}

/// Sends a transaction.
pub(crate) async fn send(
    connections: &Connections,
    effect: Effect,
    txn: Txn,
) -> Result<TxnResponse, Error> {
    let answer = try_send(connections, effect, txn).await;
    answer.map_err(|failure| failure.explain(effect))
}

async fn try_send(
    connections: &Connections,
    effect: Effect,
    txn: Txn,
) -> Result<TxnResponse, crate::explain::Failure> {
    let ask = |clients: Arc<Clients>| {
        let txn = txn.clone();
        async move { clients.kv.clone().txn(txn).await }
    };
    connections.ask(effect, ask).await
}
