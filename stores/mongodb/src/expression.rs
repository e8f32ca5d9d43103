//! What conditions and updates are made of: expressions over a lock's document and now.

use mongodb::bson::{Bson, DateTime, Document, doc};

/// The end: ShedLock's.
pub(crate) const UNTIL: &str = "lockUntil";
/// The beginning of the last acquisition: ShedLock's.
pub(crate) const AT: &str = "lockedAt";
/// The owner: ShedLock's.
pub(crate) const BY: &str = "lockedBy";

/// The fencing token of the last acquisition of ours.
pub(crate) const TOKEN: &str = "shedlockFencingToken";
/// The last slot that was taken.
pub(crate) const SLOT: &str = "shedlockSlot";
/// The last slot that is done.
pub(crate) const DONE: &str = "shedlockSlotDone";
/// The attempts at a last slot that must not be lost and is not done.
pub(crate) const ATTEMPTS: &str = "shedlockSlotAttempts";

/// The instant by which a command judges.
///
/// Instants are compared as numbers. Dates compare as well in MongoDB, but not in the double that
/// the tests run over, which takes a stored date and `$$NOW` for equal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Now {
    /// The server's, when it begins with the command.
    Server,
    /// This one.
    Told(DateTime),
}

impl Now {
    /// As a date.
    pub(crate) fn date(self) -> Bson {
        match self {
            Self::Server => "$$NOW".into(),
            Self::Told(date) => date.into(),
        }
    }

    /// In milliseconds since 1970.
    pub(crate) fn millis(self) -> Document {
        doc! { "$toLong": self.date() }
    }

    /// In microseconds since 1970.
    pub(crate) fn micros(self) -> Document {
        doc! { "$multiply": [self.millis(), 1_000_i64] }
    }

    /// The date this many milliseconds later.
    pub(crate) fn later(self, millis: i64) -> Document {
        doc! { "$add": [self.date(), millis] }
    }

    /// Whether the lock is taken; false where its end is no date.
    pub(crate) fn is_before_end(self) -> Document {
        let runs = doc! { "$gt": [millis_of(UNTIL), self.millis()] };
        doc! { "$cond": [has_type(UNTIL, &["date"]), runs, false] }
    }

    /// Whether the lock has been free for a while; false where its end is no date.
    pub(crate) fn is_past_end(self) -> Document {
        let is_over = doc! { "$lt": [millis_of(UNTIL), self.millis()] };
        doc! { "$cond": [has_type(UNTIL, &["date"]), is_over, false] }
    }
}

/// The value of a field.
pub(crate) fn value(field: &str) -> Bson {
    format!("${field}").into()
}

/// A text that is no expression, whatever it begins with.
pub(crate) fn literal(text: &str) -> Document {
    doc! { "$literal": text }
}

/// A date in milliseconds since 1970.
pub(crate) fn millis_of(field: &str) -> Document {
    doc! { "$toLong": value(field) }
}

/// A date in microseconds since 1970.
pub(crate) fn micros_of(field: &str) -> Document {
    doc! { "$multiply": [millis_of(field), 1_000_i64] }
}

/// Whether a field is of one of these types.
pub(crate) fn has_type(field: &str, types: &[&str]) -> Document {
    doc! { "$in": [{ "$type": value(field) }, types] }
}

/// Whether a field holds a number.
pub(crate) fn is_set(field: &str) -> Document {
    has_type(field, &["long", "int", "double"])
}
