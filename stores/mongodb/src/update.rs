//! The pipelines that change a document: their conditions, and what they write.

use std::time::{Duration, SystemTime};

use mongodb::bson::{Bson, DateTime, Document, doc};
use shedlock_core::{AttemptRequest, Budget, Retries, Slot, SlotEnd};
use shedlock_provider::{End, HUNDRED_YEARS};

use crate::codec::{AT, ATTEMPTS, BY, DONE, SKIP_FROM, SKIP_UNTIL, SLOT, TOKEN, UNTIL, millis};

/// An attempt as the server judges it: whether the lock and the slot are available, and what is written then. The rules
/// for slots are those of [`SlotState`](shedlock_core::SlotState).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) request: &'a AttemptRequest,
    pub(crate) budget: &'a Budget,
    pub(crate) now: Now,
    /// By how much another clock that judges may be ahead.
    pub(crate) skew: Duration,
    /// The last instant of the server's clock, if that clock judges, at which the attempt may be granted.
    pub(crate) not_after: Option<SystemTime>,
}

impl Claim<'_> {
    /// Takes the lock of an existing document if it is available.
    ///
    /// Otherwise the document stays unchanged, and so does a document that cannot be a lock. A free lock stays free if
    /// this owner has released it before, or if the attempt is too late. If this owner's own lease has expired and its
    /// slot cannot be taken again, the document is marked as released. So the reply contains this attempt's owner only
    /// if it has the lease.
    pub(crate) fn update(self) -> Vec<Document> {
        let whole = || Bson::from("$$ROOT");
        let is_free = doc! { "$lte": [millis_of(UNTIL), self.now.millis()] };
        let is_own = doc! { "$eq": [value(BY), literal(self.request.owner.as_str())] };
        let released = literal(&self.request.owner.released());
        let freed = literal(&self.request.owner.freed());
        let is_released = doc! { "$in": [value(BY), [released.clone(), freed]] };
        let over = doc! { "$cond": [is_own, merged(doc! { BY: released }), whole()] };
        // If the client's own clock judges, no such limit is needed: any change of the lock since then has a later
        // instant.
        let is_in_time = self.not_after.map_or(Bson::from(true), |last| {
            let last = DateTime::from_system_time(last).timestamp_millis();
            doc! { "$lte": [self.now.millis(), last] }.into()
        });
        let may_take =
            doc! { "$and": [self.may_take_slot(), { "$not": [is_released] }, is_in_time] };
        let free = doc! { "$cond": [may_take, merged(self.taken()), over] };
        let lock = doc! { "$cond": [is_free, free, whole()] };
        vec![doc! { "$replaceWith": { "$cond": [is_a_lock(), lock, whole()] } }]
    }

    fn taken(self) -> Document {
        let at_most = self.request.lock_at_most_for;
        let mut taken = acquired(self.now, self.request.owner.as_str(), at_most);
        let stays = match self.request.slot {
            None => self.is_skipping(),
            Some(slot) => {
                let reaches = doc! { "$gte": [value(SKIP_UNTIL), slot.as_micros()] };
                doc! { "$and": [self.is_skipping(), reaches] }
            }
        };
        for field in [SKIP_FROM, SKIP_UNTIL] {
            let kept = doc! { "$cond": [stays.clone(), value(field), Bson::Null] };
            taken.insert(field, kept);
        }
        if let Some(slot) = self.request.slot {
            let slot = slot.as_micros();
            let is_same = doc! { "$eq": [value(SLOT), slot] };
            let made = doc! { "$ifNull": [value(ATTEMPTS), 0_i64] };
            let made = doc! { "$cond": [is_same, made, 0_i64] };
            let counted = doc! { "$toLong": { "$add": [made, 1_i64] } };
            let is_open = self.request.completion.retries().is_some();
            taken.extend(doc! { SLOT: slot, ATTEMPTS: is_open.then_some(counted) });
        }
        taken
    }

    /// Whether a pause that has ended has skipped slots. An interval that ends ahead of the clock belongs to a pause that
    /// something else has ended.
    fn is_skipping(self) -> Document {
        let latest = doc! { "$add": [self.now.micros(), micros(self.skew)] };
        doc! { "$and": [is_set(SKIP_UNTIL), { "$lte": [value(SKIP_UNTIL), latest] }] }
    }

    /// Whether the slots that the requester takes as skipped are others.
    fn assumes_others(self) -> Document {
        let assumed = self.request.skipped_slots;
        let differs = |field: &str, assumed: Option<Slot>| {
            let found = doc! { "$cond": [self.is_skipping(), value(field), -1_i64] };
            doc! { "$ne": [found, assumed.map_or(-1, Slot::as_micros)] }
        };
        doc! { "$or": [
            differs(SKIP_FROM, assumed.map(|it| it.from)),
            differs(SKIP_UNTIL, assumed.map(|it| it.until)),
        ] }
    }

    /// Whether the slot of a free lock is available.
    fn may_take_slot(self) -> Bson {
        let Some(slot) = self.request.slot else {
            return true.into();
        };
        let tolerance = micros(self.request.slot_tolerance.min(HUNDRED_YEARS));
        let latest = doc! { "$add": [self.now.micros(), tolerance] };
        let is_open = match self.request.completion.retries() {
            Some(retries) => self.may_take_open(slot, retries),
            None => doc! { "$lt": [value(SLOT), slot.as_micros()] },
        };
        let is_first = doc! { "$not": [is_set(SLOT)] };
        // An open slot stays open.
        let is_covered = doc! { "$and": [
            self.is_skipping(),
            { "$lt": [value(SKIP_FROM), slot.as_micros()] },
            { "$gte": [value(SKIP_UNTIL), slot.as_micros()] },
            { "$not": [{ "$and": [is_set(ATTEMPTS), { "$eq": [value(SLOT), slot.as_micros()] }] }] },
        ] };
        doc! { "$and": [
            { "$lte": [slot.as_micros(), latest] },
            { "$not": [is_shedlocks_since(slot.as_micros())] },
            { "$not": [is_covered] },
            { "$or": [is_first, is_open] },
        ] }
        .into()
    }

    /// Whether a slot that stays open until it is done is available, if there is a last slot.
    fn may_take_open(self, slot: Slot, retries: Retries) -> Document {
        let slot = slot.as_micros();
        let most = i64::from(retries.get_max_attempts());
        let is_open = doc! { "$and": [is_set(ATTEMPTS), { "$lt": [value(ATTEMPTS), most] }] };
        // A run by ShedLock at or after the instant of the open slot counts as done.
        let is_pending = doc! { "$and": [
            is_open.clone(),
            { "$not": [is_shedlocks_since(value(SLOT))] },
        ] };
        let is_gap = match self.request.previous_slot {
            Some(before) => {
                let is_earlier = doc! { "$lt": [value(SLOT), before.as_micros()] };
                Bson::from(doc! { "$or": [is_earlier, self.assumes_others()] })
            }
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

/// Creates the document of a lock that has been free for this long, so that attempts that judge by a slightly earlier
/// instant can take it too. A copy that arrives late does no harm.
pub(crate) fn creation(now: Now, free_for: Duration) -> Vec<Document> {
    let millis = i64::try_from(free_for.as_millis()).unwrap_or(i64::MAX);
    vec![doc! { "$replaceWith": merged(doc! { UNTIL: now.later(-millis) }) }]
}

/// Moves the end of a lease. The later end stays, because an extension that arrives late must not shorten the lease.
pub(crate) fn extension(now: Now, at_most: Duration) -> Vec<Document> {
    let ends = doc! { "$max": [millis_of(UNTIL), { "$add": [now.millis(), millis(at_most)] }] };
    set(doc! { UNTIL: { "$toDate": ends } })
}

/// Gives a lease back: the document no longer contains its owner.
pub(crate) fn ended(now: Now, end: &End<'_>) -> Vec<Document> {
    let mut ends = vec![now.millis()];
    if !end.at_least.is_zero() {
        ends.push(doc! { "$add": [millis_of(AT), millis(end.at_least)] });
    }
    if !end.retry_after().is_zero() {
        ends.push(doc! { "$add": [now.millis(), millis(end.retry_after())] });
    }
    let until = doc! { "$toDate": { "$max": ends } };
    let mut fields = doc! { UNTIL: until, BY: literal(&end.owner.released()) };
    if let Some((slot, end)) = end.slot {
        fields.extend(slot_after(slot, end));
    }
    set(fields)
}

/// The fields of a lock that this owner has acquired, without its slots.
pub(crate) fn acquired(now: Now, owner: &str, at_most: Duration) -> Document {
    let next = doc! { "$add": [{ "$ifNull": [value(TOKEN), 0_i64] }, 1_i64] };
    let token = doc! { "$max": [next, now.micros()] };
    doc! {
        UNTIL: now.later(millis(at_most)),
        AT: now.date(),
        BY: literal(owner),
        TOKEN: { "$toLong": token },
    }
}

/// The fields of a lock whose lease an operator has ended, and that stays taken until `kept`.
pub(crate) fn ended_by_operator(now: Now, owner: &str, kept: Option<SystemTime>) -> Document {
    let kept = kept.map_or(0, |kept| {
        DateTime::from_system_time(kept).timestamp_millis()
    });
    let until = doc! { "$toDate": { "$max": [now.millis(), kept] } };
    doc! { UNTIL: until, BY: literal(owner) }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn set(fields: Document) -> Vec<Document> {
    vec![doc! { "$set": fields }]
}

/// The slot's fields after a lease has ended, by the rules of `SlotState::ended`.
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
        SlotEnd::Done { .. } => {
            doc! { DONE: { "$max": [value(DONE), of] }, ATTEMPTS: Bson::Null }
        }
        SlotEnd::NotStarted => doc! { SLOT: last, ATTEMPTS: attempts },
        SlotEnd::Cut => doc! { ATTEMPTS: attempts },
        _ => doc! {},
    }
}

fn merged(fields: Document) -> Document {
    doc! { "$mergeObjects": ["$$ROOT", fields] }
}

/// Whether each field that is read has a type that is written there.
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
        has_type(SKIP_FROM, &number),
        has_type(SKIP_UNTIL, &number),
    ] }
}

/// Whether ShedLock made the last acquisition, at or after this instant (in microseconds). Its owner is a host, which
/// does not contain two slashes.
fn is_shedlocks_since(micros: impl Into<Bson>) -> Document {
    let is_ours = doc! { "$regexMatch": { "input": value(BY), "regex": "/.*/" } };
    let at = doc! { "$multiply": [millis_of(AT), 1_000_i64] };
    let since = doc! { "$gte": [at, micros.into()] };
    doc! { "$and": [
        { "$not": [is_ours] },
        { "$cond": [has_type(AT, &["date"]), since, false] },
    ] }
}

/// The instant by which a command judges.
///
/// Instants are compared as numbers. MongoDB can compare dates too, but the emulator used in tests treats a stored date
/// and `$$NOW` as equal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Now {
    Server,
    Given(DateTime),
}

impl Now {
    pub(crate) fn date(self) -> Bson {
        match self {
            Self::Server => "$$NOW".into(),
            Self::Given(date) => date.into(),
        }
    }

    fn millis(self) -> Document {
        doc! { "$toLong": self.date() }
    }

    pub(crate) fn micros(self) -> Document {
        doc! { "$multiply": [self.millis(), 1_000_i64] }
    }

    fn later(self, millis: i64) -> Document {
        doc! { "$add": [self.date(), millis] }
    }

    /// Compares the lock's end with the current time: `$gt` is true while the lock is taken. False if the end is not a
    /// date.
    pub(crate) fn is_end(self, compared: &str) -> Document {
        let compared = doc! { compared: [millis_of(UNTIL), self.millis()] };
        doc! { "$cond": [has_type(UNTIL, &["date"]), compared, false] }
    }
}

fn value(field: &str) -> Bson {
    format!("${field}").into()
}

/// A text that is never treated as an expression, whatever its first character.
fn literal(text: &str) -> Document {
    doc! { "$literal": text }
}

fn millis_of(field: &str) -> Document {
    doc! { "$toLong": value(field) }
}

fn has_type(field: &str, types: &[&str]) -> Document {
    doc! { "$in": [{ "$type": value(field) }, types] }
}

fn is_set(field: &str) -> Document {
    has_type(field, &["long", "int", "double"])
}
