//! The values of statements.

use shedlock_core::{SkippedSlots, Slot, SlotState};

/// Defines [`Values`], whose fields are the words of templates.
macro_rules! values {
    (
        texts { $($(#[$of_text:meta])* $text:ident,)* }
        integers { $($(#[$of_integer:meta])* $integer:ident,)* }
    ) => {
        /// The values of one call; each statement uses those that it names. Durations are in microseconds, and at-most and
        /// at-least are multiples of the dialect's unit. Instants and slots are in microseconds since 1970 (UTC).
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Values<'a> {
            $($(#[$of_text])* pub(crate) $text: &'a str,)*
            $($(#[$of_integer])* pub(crate) $integer: i64,)*
            /// The values of the journal's statements, by their words without the `j_` with which these start.
            pub(crate) more: &'a [(&'static str, Value<'a>)],
        }

        impl<'a> Values<'a> {
            /// The value for this word of a template.
            pub(crate) fn get(&self, word: &str) -> Option<Value<'a>> {
                Some(match word {
                    $(stringify!($text) => Value::Text(self.$text),)*
                    $(stringify!($integer) => Value::Integer(self.$integer),)*
                    word => {
                        let word = word.strip_prefix("j_")?;
                        let found = self.more.iter().find(|(known, _)| *known == word);
                        found.map_or(Value::Integer(NONE), |(_, value)| *value)
                    }
                })
            }
        }
    };
}

values! {
    texts {
        name,
        /// The owner that makes the call, or that the record must contain.
        owner,
        /// The owner text that the record gets when the lease ends.
        released,
        /// The owner text that the record has if an operator has freed this owner's lock by force.
        freed,
        /// The name after which a page starts; empty for the first page.
        after,
    }
    integers {
        at_most,
        /// When a pause ends, whenever its statement is executed.
        ends_at,
        at_least,
        slot,
        /// How far ahead of now a slot may be.
        tolerance,
        most_attempts,
        /// The slot that must have been taken, or passed, before this one. When an operator changes slots: the last slot
        /// that was read, or [`NONE`]. When a slot is given back: the last slot that the record gets.
        previous,
        /// The client's time; used only if the client's clock judges leases.
        now,
        /// The last instant of the server's clock at which an attempt may be granted.
        not_after,
        /// The end of the lock when it was read; [`NONE`] for none.
        until,
        /// The last slot that is done; [`NONE`] for none.
        done,
        /// The attempts at the last slot; [`NONE`] for none.
        attempts,
        /// The slots that a pause skips, or that an attempt takes as skipped; both [`NONE`] for none.
        skip_from,
        skip_until,
        /// The attempts and the end of the skipped slots when they were read; [`NONE`] for none.
        seen_attempts,
        seen_skip_until,
        /// How much later than now the end of a pause may be that has ended by another client's clock.
        skew,
        limit,
    }
}

/// The value that stands for null where a column may be null. No instant and no slot has it.
pub(crate) const NONE: i64 = -1;

/// A value that is bound to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text.
    Text(&'a str),
    /// A number of 64 bits.
    Integer(i64),
}

impl<'a> Values<'a> {
    /// Sets the slots that the record gets.
    pub(crate) fn slots(&mut self, slots: &SlotState) {
        let micros = |slot: Option<Slot>| slot.map_or(NONE, Slot::as_micros);
        self.slot = micros(slots.last);
        self.done = micros(slots.done);
        self.attempts = slots.attempts.map_or(NONE, i64::from);
        self.skipped(slots.skipped);
    }

    /// Sets an interval of skipped slots.
    pub(crate) fn skipped(&mut self, skipped: Option<SkippedSlots>) {
        self.skip_from = skipped.map_or(NONE, |it| it.from.as_micros());
        self.skip_until = skipped.map_or(NONE, |it| it.until.as_micros());
    }

    /// Adds the slot of a lease that ends, and the last slot that the record gets if the slot is given back.
    pub(crate) fn end_of(&mut self, slot: Option<Slot>) {
        self.slot = slot.map_or(0, Slot::as_micros);
        self.previous = slot.map_or(0, |slot| slot.just_before().as_micros());
    }
}
