//! The pipelines of an attempt: whether the lock, and the slot, are to be had, and what is written
//! then. The rules for slots are those of [`SlotState`](shedlock_core::SlotState).

use std::time::Duration;

use mongodb::bson::{Bson, DateTime, Document, doc};
use shedlock_core::{AttemptRequest, Error, Retries, Slot};

use crate::expression::{
    AT, ATTEMPTS, BY, DONE, Now, SLOT, TOKEN, UNTIL, has_type, is_set, literal, micros_of,
    millis_of, value,
};
use crate::time::{LONGEST, millis};

/// An attempt, as the server judges it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    request: &'a AttemptRequest,
    at_most: i64,
    now: Now,
    /// The last instant by the server's clock, where that judges, at which it may be granted.
    not_after: Option<DateTime>,
}

impl<'a> Claim<'a> {
    /// # Errors
    /// `InvalidInput` for an at-most that no date can show.
    pub(crate) fn new(
        request: &'a AttemptRequest,
        now: Now,
        not_after: Option<DateTime>,
    ) -> Result<Self, Error> {
        Ok(Self {
            request,
            at_most: millis(request.lock_at_most_for(), "lock_at_most_for")?,
            now,
            not_after,
        })
    }

    /// Takes the lock of a document that is there, if it is to be had.
    ///
    /// Where it is not, the document stays as it is, and so does one that no lock looks like. A lock
    /// that is free stays free where this owner has released it before, and where the attempt comes
    /// late. Of a lease of this very owner that is over, whose slot cannot be taken again, it says
    /// that it is over, so that the owner in the answer is this attempt's only if it has the lease.
    pub(crate) fn update(self) -> Vec<Document> {
        let whole = || Bson::from("$$ROOT");
        let is_free = doc! { "$lte": [millis_of(UNTIL), self.now.millis()] };
        let is_own = doc! { "$eq": [value(BY), literal(self.request.owner().as_str())] };
        let released = literal(&self.request.owner().released());
        let is_released = doc! { "$eq": [value(BY), released.clone()] };
        let over = doc! { "$cond": [is_own, merged(doc! { BY: released }), whole()] };
        let may_take = doc! { "$and": [
            self.may_take_slot(),
            { "$not": [is_released] },
            self.is_in_time(),
        ] };
        let free = doc! { "$cond": [may_take, merged(self.taken()), over] };
        let lock = doc! { "$cond": [is_free, free, whole()] };
        vec![doc! { "$replaceWith": { "$cond": [is_a_lock(), lock, whole()] } }]
    }

    /// Whether it has not come late. An instant of the client's own is judged as it is: whatever has
    /// happened to the lock since is later than that.
    fn is_in_time(self) -> Bson {
        match self.not_after {
            Some(last) => doc! { "$lte": [self.now.millis(), last.timestamp_millis()] }.into(),
            None => true.into(),
        }
    }

    /// What is written. The token is the larger of the last one + 1 and now in microseconds.
    fn taken(self) -> Document {
        let next = doc! { "$add": [{ "$ifNull": [value(TOKEN), 0_i64] }, 1_i64] };
        let token = doc! { "$max": [next, self.now.micros()] };
        let mut taken = doc! {
            UNTIL: self.now.later(self.at_most),
            AT: self.now.date(),
            BY: literal(self.request.owner().as_str()),
            TOKEN: { "$toLong": token },
        };
        if let Some(slot) = self.request.slot() {
            let slot = slot.as_micros();
            taken.insert(SLOT, slot);
            taken.insert(ATTEMPTS, Bson::Null);
            if self.request.completion().retries().is_some() {
                let made = doc! { "$ifNull": [value(ATTEMPTS), 0_i64] };
                let is_same = doc! { "$eq": [value(SLOT), slot] };
                let made = doc! { "$cond": [is_same, made, 0_i64] };
                taken.insert(ATTEMPTS, doc! { "$toLong": { "$add": [made, 1_i64] } });
            }
        }
        taken
    }

    /// Whether the slot is to be had, of a lock that is free.
    fn may_take_slot(self) -> Bson {
        let Some(slot) = self.request.slot() else {
            return true.into();
        };
        let tolerance = self.request.slot_tolerance().min(LONGEST).as_micros();
        let tolerance = i64::try_from(tolerance).unwrap_or(i64::MAX);
        let latest = doc! { "$add": [self.now.micros(), tolerance] };
        let in_order = match self.request.completion().retries() {
            Some(retries) => self.may_take_open(slot, retries),
            None => doc! { "$lt": [value(SLOT), slot.as_micros()] },
        };
        let is_first = doc! { "$not": [is_set(SLOT)] };
        doc! { "$and": [
            { "$lte": [slot.as_micros(), latest] },
            { "$not": [is_shedlocks_since(slot.as_micros())] },
            { "$or": [is_first, in_order] },
        ] }
        .into()
    }

    /// The same of a slot that is open until it is done, where there is a last one.
    fn may_take_open(self, slot: Slot, retries: Retries) -> Document {
        let slot = slot.as_micros();
        let most = i64::from(retries.most_attempts());
        let is_open = doc! { "$and": [is_set(ATTEMPTS), { "$lt": [value(ATTEMPTS), most] }] };
        // ShedLock's run at or after the slot that is open has done it.
        let is_pending = doc! { "$and": [
            is_open.clone(),
            { "$not": [is_shedlocks_since(value(SLOT))] },
        ] };
        let is_gap = match self.request.previous_slot() {
            Some(before) => Bson::from(doc! { "$lt": [value(SLOT), before.as_micros()] }),
            None => false.into(),
        };
        let follows = doc! { "$not": [{ "$or": [is_pending, is_gap] }] };
        let is_same = doc! { "$eq": [value(SLOT), slot] };
        doc! { "$cond": [
            { "$lt": [value(SLOT), slot] },
            follows,
            { "$and": [is_same, is_open] },
        ] }
    }
}

/// Makes the document of a lock that has been free for this long, so that whoever judges by an instant
/// a little earlier can take it too. A copy that comes late does no harm.
pub(crate) fn creation(now: Now, free_for: Duration) -> Vec<Document> {
    let millis = i64::try_from(free_for.as_millis()).unwrap_or(i64::MAX);
    vec![doc! { "$replaceWith": merged(doc! { UNTIL: now.later(-millis) }) }]
}

/// The document with these fields in it.
fn merged(fields: Document) -> Document {
    doc! { "$mergeObjects": ["$$ROOT", fields] }
}

/// Whether every field that is read is of a type that is written there.
fn is_a_lock() -> Document {
    let number = ["long", "int", "double", "null", "missing"];
    doc! { "$and": [
        has_type(UNTIL, &["date"]),
        has_type(AT, &["date", "null", "missing"]),
        has_type(BY, &["string", "null", "missing"]),
        has_type(TOKEN, &number),
        has_type(SLOT, &number),
        has_type(DONE, &number),
        has_type(ATTEMPTS, &number),
    ] }
}

/// Whether ShedLock was the last to acquire, at or after this instant (in microseconds). It names a
/// host, which has no two slashes.
fn is_shedlocks_since(micros: impl Into<Bson>) -> Document {
    let is_ours = doc! { "$regexMatch": { "input": value(BY), "regex": "/.*/" } };
    let since = doc! { "$gte": [micros_of(AT), micros.into()] };
    doc! { "$and": [
        { "$not": [is_ours] },
        { "$cond": [has_type(AT, &["date"]), since, false] },
    ] }
}
