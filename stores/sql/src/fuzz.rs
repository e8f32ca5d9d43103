//! Fuzz targets for the code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::Duration;

use ErrorKind::{Conflict, Internal, Lost, SlotAhead};
use promises::is_refusal;
use shedlock_core::{AttemptRequest, ErrorKind, LockName, Owner, Slot};

use crate::dialect::mysql::MYSQL;
use crate::dialect::postgres::POSTGRES;
use crate::dialect::sqlite::SQLITE;
use crate::identifier::{Fold, Table};
use crate::statement::Row;
use crate::verdict::{State, record};

/// Names of tables: an accepted name cannot leave its quotes, and has the same meaning when it is parsed again.
pub fn identifier(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for fold in [Fold::Lower, Fold::Keep] {
        match Table::parse(None, &text, fold, 63) {
            Ok(table) => {
                let quoted = table.quoted('"');
                let inner = quoted.replace('"', "").replacen('.', "", 1);
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$-".contains(&byte);
                assert!(inner.bytes().all(is_plain), "{quoted}");
                assert_eq!(Table::parse(None, &quoted, fold, 63).ok(), Some(table));
            }
            Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
        }
    }
}

/// Time zones of MySQL's sessions: an accepted zone cannot leave its quotes, and parsing it again does not change it.
pub fn session_zone(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match crate::zone::parse(&text) {
        Ok(zone) => {
            assert_eq!(crate::zone::parse(&zone).ok().as_ref(), Some(&zone));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+:".contains(&byte);
            assert!(zone.bytes().all(is_plain), "{zone:?}");
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
}

/// A row as read from a table, one column per line: an attempt gets an outcome or an expected error.
pub fn row(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let value = |column: &str| {
        let mut lines = text.lines().rev();
        lines.find_map(|line| match line.split_once(' ').unwrap_or((line, "")) {
            (name, value) if name == column => Some(value.to_owned()),
            _ => None,
        })
    };
    let number = |column| value(column)?.parse().ok();
    let row = Row {
        name: value("name"),
        owner: value("owner"),
        locked_at: number("locked_at"),
        lock_until: number("lock_until"),
        token: number("token"),
        slot: number("slot"),
        slot_done: number("slot_done"),
        slot_attempts: number("slot_attempts"),
        skip_from: number("skip_from"),
        skip_until: number("skip_until"),
        now: number("now"),
        ..Row::default()
    };
    let name = LockName::new("job").expect("it is a name");
    let owner = Owner::parse("web-3/1/0123456789abcdef").expect("it is an owner");
    let plain = AttemptRequest::new(name, owner, Duration::from_secs(60));
    let slot = Slot::from_micros(1_799_999_940_000_000).expect("it is a slot");
    for request in [plain.clone(), plain.with_slot(slot)] {
        match State::of(&request, &row, Duration::ZERO) {
            Ok(State::Absent) => assert_eq!(row.name, None),
            Ok(State::Free) => {
                assert!(row.lock_until <= row.now);
                // A free lock can be taken: the stored values meet the statement's conditions.
                let is_slot = |micros: &i64| Slot::from_micros(*micros).is_ok();
                assert!(request.slot.is_none() || row.slot.iter().all(is_slot));
            }
            Ok(State::Answered(_)) => {}
            Err(error) => is_refusal(&error, &[Conflict, SlotAhead, Lost, Internal]),
        }
    }
    let _ = row
        .name
        .as_ref()
        .and_then(|it| record(&row, &LockName::new(it).ok()?));
}

/// Texts as literals, for statements that are not prepared: none leaves its quotes, and unquoting it returns the text.
pub fn literal(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let literal = (POSTGRES.quote)(&text);
    let escaped = literal.strip_prefix('E');
    let inner = between(escaped.unwrap_or(&literal), "'");
    assert_eq!(unquoted(inner, escaped.is_some()), Some(text.to_string()));
    let literal = (SQLITE.quote)(&text);
    let inner = between(&literal, "'");
    assert_eq!(unquoted(inner, false), Some(text.to_string()));
    let literal = (MYSQL.quote)(&text);
    let inner = between(&literal, "_utf8mb4 X'");
    assert!(inner.len() == text.len() * 2 && inner.bytes().all(|b| b.is_ascii_hexdigit()));
}

fn between<'a>(literal: &'a str, start: &str) -> &'a str {
    let inner = literal.strip_prefix(start).expect("a quote");
    inner.strip_suffix('\'').expect("a quote")
}

/// The text between two quotes as a server reads it; `None` if it ends before the last quote.
fn unquoted(inner: &str, is_escaped: bool) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\'' => chars.next().filter(|char| *char == '\'')?,
            '\\' if is_escaped => chars.next().filter(|char| *char == '\\')?,
            char => char,
        });
    }
    Some(text)
}

#[cfg(test)]
shedlock_fuzz::tests!(identifier, session_zone, row, literal);
