//! The two keys of a lock, its own and the companion key: reading them, and writing them consistently.

use std::time::UNIX_EPOCH;

use async_nats::HeaderMap;
use futures_util::future;
use shedlock_core::{Error, ErrorKind, LockName};
use shedlock_provider::{Found, Reading, Record, Result, VersionedStore as _, Written, maybe};

use crate::bucket::Put;
use crate::codec::{Beside, Version, kept, message};
use crate::key;
use crate::store::NatsStore;

impl NatsStore {
    pub(crate) async fn look(&self, name: &LockName) -> Result<Reading<Version>> {
        let connection = self.bucket.line.nth().await?;
        let (key, key_beside) = (key::key(name), key::key_beside(name));
        let both = future::try_join(self.bucket.last(&key), self.bucket.last(&key_beside));
        let (mut lock, message_beside) = both.await?;
        if lock.is_none() && message_beside.is_none() {
            return Ok(Reading::nothing());
        }
        let beside = message_beside.as_ref().filter(|it| !it.data.is_empty());
        let beside = beside.map(|message| Beside::from_bytes(&message.data));
        let known = beside.as_ref().and_then(|beside| beside.as_ref().ok());
        if known.map_or(0, |it| it.based_on) > lock.as_ref().map_or(0, |it| it.sequence) {
            // The lock was read before it reached the state that the companion message is based on, unless it was
            // deleted by hand.
            lock = self.bucket.last(&key).await?;
        }
        let sequence = lock.as_ref().map_or(0, |it| it.sequence);
        let (mut record, is_whole) = match &lock {
            Some(message) => message.record()?,
            // Deleted by hand without leaving a marker.
            None => (Record::until(UNIX_EPOCH), false),
        };
        let pending = known.and_then(|it| it.pending(sequence));
        // If the lock's own message is complete, its next acquisition replaces the companion message, whatever it
        // contains.
        if !is_whole && let Some(beside) = beside {
            beside?.complete(&mut record, sequence);
        }
        let version = Version {
            lock: sequence,
            beside: message_beside.map_or(0, |message| message.sequence),
            token: record.fencing_token,
            slots: record.slots,
            is_from_beside: !is_whole,
            pending,
            connection,
        };
        Ok(Reading::found(Found::new(record, version)))
    }

    pub(crate) async fn write_pair(
        &self,
        name: &LockName,
        before: &Version,
        record: &Record,
    ) -> Result<Written<Version>> {
        let line = &self.bucket.line;
        // A write that changes neither the token nor the last slot affects no other owner's lock or slot, so it skips
        // the check of the settings.
        let is_kept = !before.is_from_beside
            && record.fencing_token == before.token
            && record.slots.last == before.slots.last;
        if !is_kept && self.seen.known().passed != line.nth().await? {
            self.look_at_settings().await?;
        }
        let connection = line.nth().await?;
        if before.lock > 0 && self.comes_again(before) && before.connection != connection {
            // The server may have lost its last writes since. The message that was read may be gone, and its sequence
            // may belong to another message.
            return Ok(Written::Raced);
        }
        let sequences = self.write_keys(name, before, record, is_kept).await;
        let doubtful =
            |error: &Error| error.is_outcome_unknown() || error.kind() == ErrorKind::Configuration;
        if sequences.as_ref().is_err_and(doubtful) {
            self.seen.doubt();
        }
        Ok(sequences?.map(|(lock, beside)| Version {
            lock,
            beside,
            token: record.fencing_token,
            slots: record.slots,
            is_from_beside: false,
            pending: None,
            connection,
        }))
    }

    /// Removes both messages, the companion's first: if only that succeeds, the lock is still listed, and the next
    /// removal finds it.
    ///
    /// An attempt writes the companion message before the lock's, each only if its last message is the one that was
    /// read. So an attempt that writes the companion first prevents the removal, and one that comes after it reads
    /// again.
    pub(crate) async fn remove_pair(&self, name: &LockName, before: &Version) -> Result<bool> {
        let connection = self.bucket.line.nth().await?;
        if self.comes_again(before) && before.connection != connection {
            return Ok(false);
        }
        let messages = [
            (key::key_beside(name), before.beside),
            (key::key(name), before.lock),
        ];
        for (key, sequence) in messages {
            if sequence > 0 && !self.bucket.purge(&key, sequence).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes both keys in one step if the bucket accepts that. Otherwise writes the companion key first, then the
    /// lock. After the first write, only two of our clients can still take the lock: the last one to write the
    /// companion key, or an earlier one whose acquisition the last one has carried over.
    ///
    /// Returns the sequences of both.
    async fn write_keys(
        &self,
        name: &LockName,
        before: &Version,
        record: &Record,
        is_kept: bool,
    ) -> Result<Written<(u64, u64)>> {
        let lock = || Put::new(key::key(name), before.lock, message(record));
        let mut sequence_beside = before.beside;
        if !is_kept {
            let beside = Beside {
                based_on: before.lock,
                was: kept(before.token, before.slots),
                taken: kept(record.fencing_token, record.slots),
            };
            let put = |beside: &Beside| {
                let content = (beside.to_text().into(), HeaderMap::new());
                Put::new(key::key_beside(name), before.beside, content)
            };
            if self.seen.known().is_atomic {
                if let Some(written) = self.bucket.put_both(put(&beside), lock()).await? {
                    return Ok(written.map(|sequence| (sequence, sequence - 1)));
                }
                self.seen.doubt();
            }
            let beside = maybe(beside, before.pending.as_ref(), Beside::carrying);
            match self.bucket.put(put(&beside)).await? {
                Written::Done(sequence) => sequence_beside = sequence,
                Written::Raced => return Ok(Written::Raced),
            }
        }
        let written = self.bucket.put(lock()).await?;
        Ok(written.map(|sequence| (sequence, sequence_beside)))
    }
}
