//! Statements as data: their text, what is bound to it, and what they return.

use std::cell::Cell as Last;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use Field::{
    Attempts, Done, LockUntil, LockedAt, Name, Now, Owner, ServerTime, SkipFrom, SkipUntil, Slot,
    Token,
};

use crate::dialect::Dialect;
use crate::failure::{BoxError, Class, Failure};
use crate::identifier::Identifier;
use crate::options::{
    ATTEMPTS_COLUMN, DONE_COLUMN, SKIP_FROM_COLUMN, SKIP_UNTIL_COLUMN, SLOT_COLUMN, TOKEN_COLUMN,
};
use crate::shape::Column;
pub(crate) use crate::values::NONE;
pub use crate::values::{Value, Values};

/// A statement that can be read, compared and tested without a database.
///
/// Its text is built once per shape of a table, never per call.
#[derive(Clone, Debug)]
pub struct Statement {
    /// With the names of the values.
    pub(crate) template: String,
    /// The text with placeholders. Identifiers in it were checked and quoted. Values are never part of it.
    pub(crate) text: Arc<str>,
    /// The names of the bound values, in the order in which they are sent.
    pub(crate) binds: Vec<String>,
    /// The meaning of the reply's columns, in their order; empty if no rows are returned.
    pub(crate) fields: &'static [Field],
    /// Whether the server prepares it, once per session.
    pub(crate) prepared: bool,
    /// Whether its table's name includes the schema in every session, so that no temporary table is meant on PostgreSQL.
    pub(crate) names_schema: bool,
}

/// The meaning of a column of the reply. Instants are microseconds since 1970 (UTC) in a 64-bit integer, whatever the
/// table stores, so that no driver's time types are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Name,
    Owner,
    LockedAt,
    LockUntil,
    Token,
    Slot,
    /// The last slot that is done.
    Done,
    /// The attempts at the last slot.
    Attempts,
    /// The slots that a pause skips are those after this one…
    SkipFrom,
    /// … up to this one.
    SkipUntil,
    Now,
    /// The server's time, if [`Now`](Self::Now) is the client's.
    ServerTime,
    /// A column of the table; all columns of the reply describe it.
    Column,
    /// A text of the journal; see [`Row::cells`].
    Text,
    /// A number of the journal; see [`Row::cells`].
    Number,
}

/// All columns of a record, in the order in which every dialect selects them, followed by the server's time. The latter
/// is selected only if the clients' clocks judge leases; it shows how late an attempt arrives.
pub(crate) const RECORD_AND_SERVER_TIME: [Field; 12] = [
    Name, Owner, LockedAt, LockUntil, Token, Slot, Done, Attempts, SkipFrom, SkipUntil, Now,
    ServerTime,
];

/// The columns of a record without the server's time.
pub(crate) const RECORD: &[Field] = RECORD_AND_SERVER_TIME.split_at(11).0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// `$1`, and the same number again for the same value.
    Numbered,
    /// `?`, once per use.
    Positional,
}

impl Statement {
    /// Parses a template in which `:name`, `:at_most` and so on (the fields of [`Values`]) stand for values. Any other
    /// colon is left alone, so `::bigint` is not a placeholder.
    pub(crate) fn new(
        placeholders: Placeholders,
        template: &str,
        fields: &'static [Field],
    ) -> Self {
        let mut binds: Vec<String> = Vec::new();
        let text = replaced(template, &Values::default(), |text, word, _| {
            let known = binds.iter().position(|seen| seen == word);
            let known = known.filter(|_| placeholders == Placeholders::Numbered);
            let index = known.unwrap_or_else(|| {
                binds.push(word.to_owned());
                binds.len() - 1
            });
            match placeholders {
                Placeholders::Positional => text.push('?'),
                Placeholders::Numbered => text.push_str(&format!("${}", index + 1)),
            }
        });
        Self {
            template: template.to_owned(),
            text: text.into(),
            binds,
            fields,
            prepared: false,
            names_schema: false,
        }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(Placeholders::Positional, text, &[])
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text with placeholders, in the same `Arc` for each call.
    #[must_use]
    pub fn shared_text(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether a session that keeps prepared statements keeps this one.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Whether its reply has rows.
    #[must_use]
    pub fn returns_rows(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The values of the placeholders, in their order.
    pub fn bound<'a>(&self, values: &Values<'a>) -> impl Iterator<Item = Value<'a>> {
        self.binds.iter().filter_map(|word| values.get(word))
    }

    /// The text with the values written into it as literals, for servers behind a proxy that cannot keep prepared
    /// statements.
    #[must_use]
    pub fn inlined(&self, values: &Values<'_>, dialect: &Dialect) -> String {
        replaced(&self.template, values, |text, _, value| match value {
            Value::Text(value) => text.push_str(&(dialect.quote)(value)),
            Value::Integer(value) => text.push_str(&value.to_string()),
        })
    }
}

/// Replaces the placeholders of a template: `replace` is called with each name and its value.
fn replaced(
    template: &str,
    values: &Values<'_>,
    mut replace: impl FnMut(&mut String, &str, Value<'_>),
) -> String {
    let mut text = String::with_capacity(template.len() + 128);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(':') {
        text.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_lowercase() && c != '_');
        let (word, behind) = after.split_at(end.unwrap_or(after.len()));
        let is_cast = before.is_empty() && text.ends_with(':');
        match values.get(word).filter(|_| !is_cast) {
            Some(value) => {
                replace(&mut text, word, value);
                rest = behind;
            }
            None => {
                text.push(':');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// What a server replied to a statement.
#[derive(Debug, Default)]
pub struct Reply {
    /// The number of rows changed (or found, on MySQL), as the server counts them for the last statement of the text.
    pub affected: u64,
    /// The value that `LAST_INSERT_ID(…)` was set to; MySQL and MariaDB only.
    pub last_insert_id: Option<u64>,
    /// True if the reply of a first try was lost. That try may have taken effect.
    pub(crate) repeated: bool,
    pub(crate) rows: Vec<Row>,
    /// Rows with unexpected content: their names, if readable, and the reasons.
    pub(crate) unreadable: Vec<(Option<String>, BoxError)>,
    /// The violation of a unique key that rejected an insert.
    pub(crate) duplicate: Option<Failure>,
}

impl Reply {
    /// Adds a row of this statement's reply. `text` and `number` read the two types that its columns have.
    pub fn add<E: Into<BoxError>>(
        &mut self,
        statement: &Statement,
        text: impl Fn(usize) -> Result<Option<String>, E>,
        number: impl Fn(usize) -> Result<Option<i64>, E>,
    ) {
        let fields = statement.fields;
        let last = Last::new(0);
        let noted_text = |index| {
            last.set(index);
            text(index)
        };
        let noted_number = |index| {
            last.set(index);
            number(index)
        };
        match Row::read(fields, noted_text, noted_number) {
            Ok(row) => self.rows.push(row),
            Err(error) => {
                let unreadable = Unreadable {
                    field: fields.get(last.get()).copied(),
                    value: text(last.get()).ok().flatten(),
                    source: error.into(),
                };
                let name = text(0).ok().flatten();
                self.unreadable.push((name, unreadable.into()));
            }
        }
    }

    /// The reply, if all of it is readable.
    pub(crate) fn readable(mut self) -> Result<Self, Failure> {
        match self.unreadable.pop() {
            None => Ok(self),
            Some((_, error)) => Err(Failure::new(Class::Foreign, error)),
        }
    }

    pub(crate) fn row(&self) -> Option<&Row> {
        self.rows.first()
    }

    /// The last name of a page, in byte order.
    pub(crate) fn last_name(&self) -> Option<&str> {
        let read = self.rows.last().and_then(|row| row.name.as_deref());
        let unread = self.unreadable.last().and_then(|(name, _)| name.as_deref());
        read.max(unread)
    }

    /// The fencing token, from the row or from the last insert ID.
    pub(crate) fn token(&self) -> Option<u64> {
        self.last_insert_id.or(self.row().and_then(Row::token))
    }
}

/// A value of another type than its column has.
#[derive(Debug)]
pub(crate) struct Unreadable {
    field: Option<Field>,
    /// If it is a text.
    value: Option<String>,
    source: BoxError,
}

impl Unreadable {
    /// The column and its value. These are the names of ShedLock's columns.
    pub(crate) fn described(&self, columns: &[Identifier; 4]) -> String {
        let [name, until, at, by] = columns.each_ref().map(Identifier::as_str);
        let column = match self.field {
            Some(Name) => name,
            Some(LockUntil) => until,
            Some(LockedAt) => at,
            Some(Owner) => by,
            Some(Token) => TOKEN_COLUMN,
            Some(Slot) => SLOT_COLUMN,
            Some(Done) => DONE_COLUMN,
            Some(Attempts) => ATTEMPTS_COLUMN,
            Some(SkipFrom) => SKIP_FROM_COLUMN,
            Some(SkipUntil) => SKIP_UNTIL_COLUMN,
            _ => return self.to_string(),
        };
        match &self.value {
            Some(value) => format!("column {column:?} holds {value:?}"),
            None => format!("column {column:?} holds a value of another type"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a column holds a value of another type")
    }
}

impl Error for Unreadable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// A row of a reply. Columns that the statement does not select are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) locked_at: Option<i64>,
    pub(crate) lock_until: Option<i64>,
    pub(crate) token: Option<i64>,
    pub(crate) slot: Option<i64>,
    pub(crate) slot_done: Option<i64>,
    pub(crate) slot_attempts: Option<i64>,
    pub(crate) skip_from: Option<i64>,
    pub(crate) skip_until: Option<i64>,
    pub(crate) now: Option<i64>,
    pub(crate) server_time: Option<i64>,
    pub(crate) column: Option<Column>,
    /// The columns of a row of the journal.
    pub(crate) cells: Vec<Cell>,
}

/// A column of a row of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
}

impl Row {
    fn read<E>(
        fields: &[Field],
        text: impl Fn(usize) -> Result<Option<String>, E>,
        number: impl Fn(usize) -> Result<Option<i64>, E>,
    ) -> Result<Self, E> {
        let mut row = Self::default();
        for (index, field) in fields.iter().enumerate() {
            match field {
                Name => row.name = text(index)?,
                Owner => row.owner = text(index)?,
                LockedAt => row.locked_at = number(index)?,
                LockUntil => row.lock_until = number(index)?,
                Token => row.token = number(index)?,
                Slot => row.slot = number(index)?,
                Done => row.slot_done = number(index)?,
                Attempts => row.slot_attempts = number(index)?,
                SkipFrom => row.skip_from = number(index)?,
                SkipUntil => row.skip_until = number(index)?,
                Now => row.now = number(index)?,
                ServerTime => row.server_time = number(index)?,
                Field::Text => row.cells.push(Cell::Text(text(index)?)),
                Field::Number => row.cells.push(Cell::Number(number(index)?)),
                Field::Column => row.column = Some(Column::read(&text, &number)?),
            }
        }
        Ok(row)
    }

    pub(crate) fn token(&self) -> Option<u64> {
        u64::try_from(self.token?).ok()
    }

    /// Whether the condition holds, in a row of a statement that has no other columns.
    pub(crate) fn is_true(&self) -> bool {
        self.name.as_deref().is_some_and(|name| !name.is_empty())
    }

    /// The time of the server's clock, whichever clock judges leases.
    pub(crate) fn server_time(&self) -> Option<i64> {
        self.server_time.or(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str =
        "UPDATE t SET a = :at_most::bigint + :at_most WHERE n = :name AND o = ':x'";

    #[test]
    fn placeholders_are_numbered_once_or_counted_each() {
        let numbered = Statement::new(Placeholders::Numbered, TEMPLATE, &[]);
        assert_eq!(
            numbered.text(),
            "UPDATE t SET a = $1::bigint + $1 WHERE n = $2 AND o = ':x'"
        );
        assert_eq!(numbered.binds, ["at_most", "name"]);
        let positional = Statement::new(Placeholders::Positional, TEMPLATE, &[]);
        assert_eq!(
            positional.text(),
            "UPDATE t SET a = ?::bigint + ? WHERE n = ? AND o = ':x'"
        );
        assert_eq!(positional.binds, ["at_most", "at_most", "name"]);
    }

    #[test]
    fn inlined_values_are_quoted() {
        let values = Values {
            name: "it's",
            at_most: -7,
            ..Values::default()
        };
        let statement = Statement::new(Placeholders::Numbered, TEMPLATE, &[]);
        assert_eq!(
            statement.inlined(&values, &crate::dialect::postgres::POSTGRES),
            "UPDATE t SET a = -7::bigint + -7 WHERE n = 'it''s' AND o = ':x'"
        );
    }
}
