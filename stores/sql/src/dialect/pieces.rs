//! Statements as texts with words in them.

use std::borrow::Cow;

use super::{Claim, Dialect, End, Step};
use crate::identifier::Identifier;
use crate::options::{
    ATTEMPTS_COLUMN, COLUMNS, DONE_COLUMN, Options, SKIP_FROM_COLUMN, SKIP_UNTIL_COLUMN,
    SLOT_COLUMN, TOKEN_COLUMN,
};
use crate::shape::Shape;

/// The texts for the words in templates and in other texts: `{until}`.
pub(crate) struct Pieces(Vec<(&'static str, Cow<'static, str>)>);

/// Defines the texts of words; a later definition replaces an earlier one.
macro_rules! words {
    ($pieces:ident: $($word:ident = $text:expr;)*) => {
        $($pieces.set(stringify!($word), $text);)*
    };
}
pub(super) use words;

impl Pieces {
    pub(super) fn of_table(dialect: &Dialect, options: &Options) -> Self {
        Self::of_columns(dialect, options, &options.columns)
    }

    /// For a table that exists: its columns are spelled as they are there, and its name includes its schema.
    pub(super) fn of_shape(dialect: &Dialect, options: &Options, shape: &Shape) -> Self {
        let columns = shape.columns.as_ref().unwrap_or(&options.columns);
        let mut pieces = Self::of_columns(dialect, options, columns);
        let table = options.table.found_in(shape.schema.as_ref());
        pieces.set("table", table.quoted(dialect.quotation_mark));
        pieces
    }

    fn of_columns(dialect: &Dialect, options: &Options, columns: &[Identifier; 4]) -> Self {
        let mark = dialect.quotation_mark;
        let [name, until, at, by] = columns;
        let mut pieces = Self(Vec::new());
        words! { pieces:
            table = options.table.quoted(mark);
            name = name.quoted(mark);
            until = until.quoted(mark);
            at = at.quoted(mark);
            by = by.quoted(mark);
            token = TOKEN_COLUMN;
            slot = SLOT_COLUMN;
            done = DONE_COLUMN;
            attempts = ATTEMPTS_COLUMN;
            skip_from = SKIP_FROM_COLUMN;
            skip_until = SKIP_UNTIL_COLUMN;
        }
        pieces
    }

    /// The dialect's words and those that all dialects share for this step. The shared texts refer to the dialect's
    /// words.
    pub(super) fn of_step(dialect: &Dialect, options: &Options, shape: &Shape, step: Step) -> Self {
        let mut pieces = Self::of_shape(dialect, options, shape);
        let complete = |text| if shape.is_complete { text } else { "" };
        // In the order of `RECORD`.
        let ours = if shape.is_complete {
            COLUMNS
        } else {
            ["{null}"; COLUMNS.len()]
        };
        words! { pieces:
            record = "{name}, {by}, {at_micros}, {until_micros}, {ours}";
            ours = ours.join(", ");
            own = "{named} AND {by} = :owner";
            held = "{own} AND {until} > {now}";
            ended = if step == Step::Unlock(End::NotStarted) { "{own}" } else { "{held}" };
            // Whichever clock judges leases: the attempt is not too late by the server's clock, evaluated at this
            // place.
            in_time = "{server_micros} <= :not_after";
            held_only = if step == (Step::List { held_only: true }) { " AND {until} > {now}" } else { "" };
            server_time = if options.time.is_client() { ", {server_micros}" } else { "" };
            none = "-1";
            set_token = complete(", {token} = {next_token}");
            // The record is as it was read.
            is_same = "{own} AND COALESCE({until_micros}, {none}) = :until{and_last_slot}";
            and_last_slot = complete(" AND {is_last_slot}");
            is_last_slot = "COALESCE({slot}, {none}) = :previous";
            is_idle = "{is_same} AND {until} <= {now}";
            set_skipped = "{skip_from} = NULLIF(:skip_from, {none}), {skip_until} = NULLIF(:skip_until, {none})";
            set_slots = "{slot} = NULLIF(:slot, {none}), {done} = NULLIF(:done, {none}), \
                 {attempts} = NULLIF(:attempts, {none}), {set_skipped}";
            pause_slots = complete(", {set_skipped}");
            // The slots are as they were read.
            are_same_slots = "{is_last_slot} AND COALESCE({attempts}, {none}) = :seen_attempts \
                 AND COALESCE({skip_until}, {none}) = :seen_skip_until";
            // An interval that ends ahead of the clock belongs to a pause that something else has ended.
            skip_ended = if options.time.is_client() { "{skip_until} <= {now_micros} + :skew" } else { "{skip_until} <= {now_micros}" };
        }
        match step {
            Step::Attempt(claim) | Step::Insert(claim) => pieces.claim(claim, shape),
            Step::Unlock(end) => pieces.end(end),
            _ => {}
        }
        (dialect.pieces)(options, shape, step, &mut pieces);
        pieces
    }

    fn claim(&mut self, claim: Claim, shape: &Shape) {
        let complete = |text| if shape.is_complete { text } else { "" };
        let claims = |text| if claim == Claim::Nothing { "" } else { text };
        let opens = |text| if claim == Claim::OpenSlot { text } else { "" };
        words! { self:
            granted_token = if shape.is_complete { "{token}" } else { "{null}" };
            granted_attempts = opens(", {attempts}");
            set_slot = claims("{sets_slot}");
            sets_slot = ", {slot} = :slot{set_attempts}";
            set_attempts = match claim {
                Claim::OpenSlot => ", {attempts} = {next_attempt}",
                Claim::Slot => ", {attempts} = NULL",
                Claim::Nothing => "",
            };
            // The end comes last: MySQL assigns one after the other.
            keep_skipped = complete(
                ", {skip_from} = CASE WHEN {stays_skipped} THEN {skip_from} END, \
                 {skip_until} = CASE WHEN {stays_skipped} THEN {skip_until} END",
            );
            stays_skipped = if claim == Claim::Nothing { "{skip_ended}" } else { "{skip_ended} AND :slot <= {skip_until}" };
            token_column = complete(", {token}");
            token_value = complete(", {first_token}");
            slot_column = claims(", {slot}");
            slot_value = claims(", :slot");
            attempts_column = opens(", {attempts}");
            attempts_value = opens(", 1");
            is_not_ahead = claims(" AND :slot <= {now_micros} + :tolerance");
            slot_is_free = claims(" AND {claimable}{is_not_ahead} AND ({is_before_slot} OR {by} LIKE '%/%/%')");
            is_before_slot = "{acquired} < :slot";
            acquired = "{at_micros}";
            first_token = "{now_micros}";
            claimable = if claim == Claim::OpenSlot { "{claimable_open}" } else { "{claimable_once}" };
            claimable_once = "COALESCE({slot} < :slot, {true}) AND {is_not_skipped}";
            is_not_skipped = "COALESCE(NOT ({skip_from} < :slot AND :slot <= {skip_until} AND {skip_ended}), {true})";
            claimable_open = "{open_slot_is_free}";
            // Either the slot is this one and has attempts left. Or no pause has skipped this one, and there is no slot
            // yet, or an earlier one that is closed: done, given up, or run by ShedLock (acquired at or after the slot's
            // instant). If the attempt names a previous slot, that one was taken, and the attempt takes as skipped what
            // is.
            open_slot_is_free = "(({slot} = :slot AND {attempts} < :most_attempts) \
                 OR ({is_not_skipped} AND ({slot} IS NULL \
                 OR ({slot} < :slot AND {slot} >= :previous AND (:previous < 1 OR {is_as_assumed}) \
                 AND (COALESCE({attempts}, :most_attempts) >= :most_attempts \
                 OR (COALESCE({by}, '') NOT LIKE '%/%/%' AND {acquired} >= {slot}))))))";
            is_as_assumed = "COALESCE(CASE WHEN {skip_ended} THEN {skip_from} END, {none}) = :skip_from \
                 AND COALESCE(CASE WHEN {skip_ended} THEN {skip_until} END, {none}) = :skip_until";
        }
    }

    /// Sets the slot's columns on unlock. The slot comes first: MySQL assigns one after the other, and a slot that is
    /// given back has no attempts.
    fn end(&mut self, end: End) {
        words! { self:
            pause = if end == End::Failed { ", {end}" } else { "" };
            is_ours = "CASE WHEN {slot} = :slot";
            give_back_attempt = ", {attempts} = {is_ours} AND {attempts} > 0 THEN {attempts} - 1 ELSE {attempts} END";
            give_back_unless_done = ", {slot} = {is_ours} AND {attempts} IS NULL AND COALESCE({done}, -1) <> :slot \
                 THEN :previous ELSE {slot} END";
            slot_after = match end {
                End::Done { .. } => ", {done} = CASE WHEN {done} > :slot THEN {done} ELSE :slot END, {attempts} = NULL",
                End::NotStarted => "{give_back_unless_done}{give_back_attempt}",
                End::Cut => "{give_back_attempt}",
                End::Nothing | End::Failed => "",
            };
        }
    }

    pub(crate) fn set(&mut self, word: &'static str, text: impl Into<Cow<'static, str>>) {
        self.0.push((word, text.into()));
    }

    pub(super) fn get(&self, word: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| *known == word);
        found.map(|(_, text)| &**text)
    }

    /// Replaces each `{word}` of the template, including those in the replacements.
    pub(super) fn expand(&self, template: &str) -> String {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, from)) = rest.split_once('{') {
            let (word, after) = from.split_once('}').expect("each word ends");
            let piece = self.get(word);
            let piece = piece.unwrap_or_else(|| panic!("{{{word}}} has no text"));
            text.push_str(before);
            text.push_str(&self.expand(piece));
            rest = after;
        }
        text.push_str(rest);
        text
    }
}
