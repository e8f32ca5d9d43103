//! Extending and ending a lease: under the condition that it is this owner's and runs.

use mongodb::bson::{Bson, Document, doc};
use shedlock_core::{
    AttemptRequest, Error, ExtendRequest, Extension, Lease, LockName, Owner, Slot, SlotEnd, Unlock,
    UnlockRequest,
};

use crate::expression::{
    AT, ATTEMPTS, BY, DONE, Now, SLOT, UNTIL, is_set, literal, millis_of, value,
};
use crate::found::Found;
use crate::provider::MongoProvider;
use crate::send::Written;
use crate::time::millis;

impl MongoProvider {
    pub(crate) async fn try_extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        request.validate(lease.lock_at_least_for())?;
        let at_most = millis(request.lock_at_most_for(), "lock_at_most_for")?;
        let now = self.commands().now();
        // The later end stays: an extension that arrives late must not shorten the lease.
        let ends = doc! { "$max": [millis_of(UNTIL), { "$add": [now.millis(), at_most] }] };
        let update = doc! { "$set": { UNTIL: { "$toDate": ends } } };
        let query = running(lease.name(), lease.owner(), now);
        match self.commands().update(query, vec![update]).await? {
            Written::Document(document) => {
                let until = Found::parse(&document)?.until;
                let extended = lease.extended(request).with_locked_until(until);
                Ok(Extension::Extended(extended))
            }
            _ => Ok(Extension::Lost),
        }
    }

    pub(crate) async fn try_unlock(
        &self,
        lease: &Lease,
        request: &UnlockRequest,
    ) -> Result<Unlock, Error> {
        let now = self.commands().now();
        let at_least = request.at_least_of(lease.lock_at_least_for());
        let at_least = millis(at_least, "lock_at_least_for")?;
        let mut ends = vec![
            Bson::from(now.millis()),
            doc! { "$add": [millis_of(AT), at_least] }.into(),
        ];
        if let (Some(_), SlotEnd::Failed { retry_after, .. }) = (lease.slot(), request.slot_end()) {
            let pause = millis(retry_after, "the pause of a failed slot")?;
            ends.push(doc! { "$add": [now.millis(), pause] }.into());
        }
        let slot = lease
            .slot()
            .map(|slot| slot_after(slot, request.slot_end()));
        let until = doc! { "$toDate": { "$max": ends } };
        let query = running(lease.name(), lease.owner(), now);
        let ended = ended(lease.owner(), until, slot.unwrap_or_default());
        if let Written::Document(_) = self.commands().update(query, ended).await? {
            return Ok(Unlock::Unlocked);
        }
        // Asked again, since an answer was lost: nobody took the lock meanwhile.
        let seen = self.commands().read(lease.name()).await?;
        let is_repeat =
            seen.is_some_and(|seen| seen.found.owner.as_deref() == Some(&lease.owner().released()));
        Ok(if is_repeat {
            Unlock::Unlocked
        } else {
            Unlock::Lost
        })
    }

    /// Ends what this request's owner may have won.
    ///
    /// Before that, the end of a lock that is free is moved up to now. A copy of the attempt that waits
    /// in the server, or that carries this client's time, judges by an earlier instant, and so
    /// finds the lock taken.
    pub(crate) async fn try_withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        let now = self.commands().now();
        let free = doc! { "_id": request.name().as_str(), "$expr": now.is_past_end() };
        let bar = doc! { "$set": { UNTIL: now.date() } };
        self.commands().update(free, vec![bar]).await?;
        let now = self.commands().now();
        let query = running(request.name(), request.owner(), now);
        let slot = request
            .slot()
            .map(|slot| slot_after(slot, SlotEnd::NotStarted));
        let ended = ended(request.owner(), now.later(0), slot.unwrap_or_default());
        let written = self.commands().update(query, ended).await?;
        Ok(matches!(written, Written::Document(_)))
    }
}

/// A lease of this owner that runs.
fn running(name: &LockName, owner: &Owner, now: Now) -> Document {
    doc! { "_id": name.as_str(), BY: owner.as_str(), "$expr": now.is_before_end() }
}

/// Gives a lease back: it names its owner no more.
fn ended(owner: &Owner, until: Document, slot: Document) -> Vec<Document> {
    let mut set = doc! { UNTIL: until, BY: literal(&owner.released()) };
    set.extend(slot);
    vec![doc! { "$set": set }]
}

/// What becomes of the fields of the slot, by the rules of `SlotState::ended`.
fn slot_after(slot: Slot, end: SlotEnd) -> Document {
    let of = slot.as_micros();
    let is_last = doc! { "$eq": [value(SLOT), of] };
    let is_counted = doc! { "$and": [
        is_last.clone(),
        is_set(ATTEMPTS),
        { "$gt": [value(ATTEMPTS), 0_i64] },
    ] };
    let fewer = doc! { "$toLong": { "$add": [value(ATTEMPTS), -1_i64] } };
    let attempts = doc! { "$cond": [is_counted, fewer, value(ATTEMPTS)] };
    let is_unused = doc! { "$and": [
        is_last,
        { "$not": [is_set(ATTEMPTS)] },
        { "$ne": [value(DONE), of] },
    ] };
    let last = doc! { "$cond": [is_unused, slot.just_before().as_micros(), value(SLOT)] };
    match end {
        SlotEnd::Done { .. } => doc! { DONE: of, ATTEMPTS: Bson::Null },
        SlotEnd::NotStarted => doc! { SLOT: last, ATTEMPTS: attempts },
        SlotEnd::Cut => doc! { ATTEMPTS: attempts },
        _ => doc! {},
    }
}
