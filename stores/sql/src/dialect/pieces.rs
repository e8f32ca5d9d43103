//! Statements as texts with words in them.

use std::borrow::Cow;

use super::{Claim, Dialect, End, Step};
use crate::options::{ATTEMPTS_COLUMN, DONE_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::Shape;

/// Texts by the words that stand for them in templates, and in each other: `{until}`.
pub(crate) struct Pieces(Vec<(&'static str, Cow<'static, str>)>);

impl Pieces {
    /// The names of table and columns.
    pub(super) fn of_table(dialect: &Dialect, options: &Options) -> Self {
        let mark = dialect.quotation_mark;
        let names = &options.columns;
        let mut pieces = Self(Vec::new());
        pieces.set("table", options.table.quoted(mark));
        pieces.set("name", names.name.quoted(mark));
        pieces.set("until", names.lock_until.quoted(mark));
        pieces.set("at", names.locked_at.quoted(mark));
        pieces.set("by", names.locked_by.quoted(mark));
        pieces.set("token", TOKEN_COLUMN);
        pieces.set("slot", SLOT_COLUMN);
        pieces.set("done", DONE_COLUMN);
        pieces.set("attempts", ATTEMPTS_COLUMN);
        pieces
    }

    /// Those, and what all dialects have in common of this step. They refer to words of the dialect's.
    pub(super) fn of_step(dialect: &Dialect, options: &Options, shape: &Shape, step: Step) -> Self {
        let mut pieces = Self::of_table(dialect, options);
        let extras = shape.extras;
        pieces.set(
            "record",
            "{name}, {by}, {at_micros}, {until_micros}, {extras}",
        );
        pieces.set("extras", extras.or_null("{null}"));
        pieces.set("held", "{named} AND {by} = :owner AND {until} > {now}");
        // The attempt does not come too late, whoever's clock rules: by the server's, read at this place.
        pieces.set("in_time", "{server_micros} <= :not_after");
        pieces.set("held_only", "");
        pieces.set("server_time", "");
        if options.time.is_client() {
            pieces.set("server_time", ", {server_micros}");
        }
        match step {
            Step::Attempt(claim) | Step::Insert(claim) => pieces.claim(claim, shape),
            Step::Unlock(end) => pieces.end(end, shape),
            Step::List { held_only: true } => pieces.set("held_only", " AND {until} > {now}"),
            _ => {}
        }
        (dialect.pieces)(options, shape, step, &mut pieces);
        pieces
    }

    /// The rules of a claim.
    fn claim(&mut self, claim: Claim, shape: &Shape) {
        let extras = shape.extras;
        let has_token = |text| if extras.token { text } else { "" };
        let claims = |text| if claim == Claim::Nothing { "" } else { text };
        let opens = |text| if claim == Claim::OpenSlot { text } else { "" };
        self.set(
            "granted_token",
            if extras.token { "{token}" } else { "{null}" },
        );
        self.set("granted_attempts", opens(", {attempts}"));
        self.set("set_token", has_token(", {token} = {next_token}"));
        self.set("set_slot", claims("{sets_slot}"));
        self.set("sets_slot", ", {slot} = :slot{set_attempts}");
        self.set(
            "set_attempts",
            match claim {
                Claim::OpenSlot => ", {attempts} = {next_attempt}",
                Claim::Slot if extras.completion() => ", {attempts} = NULL",
                _ => "",
            },
        );
        self.set("token_column", has_token(", {token}"));
        self.set("token_value", has_token(", {first_token}"));
        self.set("slot_column", claims(", {slot}"));
        self.set("slot_value", claims(", :slot"));
        self.set("attempts_column", opens(", {attempts}"));
        self.set("attempts_value", opens(", 1"));
        self.set(
            "is_not_ahead",
            claims(" AND :slot <= {now_micros} + :tolerance"),
        );
        self.set(
            "slot_is_free",
            claims(" AND {claimable}{is_not_ahead} AND ({is_before_slot} OR {by} LIKE '%/%/%')"),
        );
        self.set("is_before_slot", "{acquired} < :slot");
        self.set("acquired", "{at_micros}");
        self.set("first_token", "{now_micros}");
        self.set(
            "claimable",
            if claim == Claim::OpenSlot {
                "{claimable_open}"
            } else {
                "{claimable_once}"
            },
        );
        self.set("claimable_once", "COALESCE({slot} < :slot, {true})");
        self.set("claimable_open", "{open_slot_is_free}");
        // There is no slot yet, it is this one and has attempts left, or it is an earlier one that is over: done,
        // given up, or run by ShedLock since the record was `{acquired}`.
        self.set(
            "open_slot_is_free",
            "({slot} IS NULL \
             OR ({slot} = :slot AND {attempts} < :most_attempts) \
             OR ({slot} < :slot AND {slot} >= :previous \
             AND (COALESCE({attempts}, :most_attempts) >= :most_attempts \
             OR (COALESCE({by}, '') NOT LIKE '%/%/%' AND {acquired} >= {slot}))))",
        );
    }

    /// What an unlock sets of the slot's columns. The slot comes first: MySQL sets one after the other, and a slot that
    /// is given back has no attempts.
    fn end(&mut self, end: End, shape: &Shape) {
        self.set("pause", if end == End::Failed { ", {end}" } else { "" });
        self.set("is_ours", "CASE WHEN {slot} = :slot");
        self.set(
            "give_back_attempt",
            ", {attempts} = {is_ours} AND {attempts} > 0 THEN {attempts} - 1 ELSE {attempts} END",
        );
        self.set(
            "slot_after",
            match end {
                End::Done { .. } => ", {done} = :slot, {attempts} = NULL",
                End::NotStarted if !shape.extras.completion() => {
                    ", {slot} = {is_ours} THEN :previous ELSE {slot} END"
                }
                End::NotStarted => {
                    ", {slot} = {is_ours} AND {attempts} IS NULL AND COALESCE({done}, -1) <> :slot \
                     THEN :previous ELSE {slot} END{give_back_attempt}"
                }
                End::Cut => "{give_back_attempt}",
                End::Nothing | End::Failed => "",
            },
        );
    }

    /// Says what a word stands for, from now on.
    pub(crate) fn set(&mut self, word: &'static str, text: impl Into<Cow<'static, str>>) {
        self.0.push((word, text.into()));
    }

    /// The template with each `{word}` replaced, also in what replaces it.
    pub(super) fn expand(&self, template: &str) -> String {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, from)) = rest.split_once('{') {
            let (word, after) = from.split_once('}').expect("each word ends");
            let found = self.0.iter().rev().find(|(known, _)| *known == word);
            let (_, piece) = found.unwrap_or_else(|| panic!("{{{word}}} has no text"));
            text.push_str(before);
            text.push_str(&self.expand(piece));
            rest = after;
        }
        text.push_str(rest);
        text
    }
}
