//! Statements as data: text, what is bound to it, what comes back.

use std::fmt::Write as _;
use std::sync::Arc;

use shedlock_core::Slot;

use crate::dialect::Dialect;
use crate::driver::BoxError;

/// A statement that can be read, compared and tested without a database.
///
/// Its text is built once for a table's [`Shape`](crate::shape::Shape), never for a call.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    text: Arc<str>,
    binds: Vec<Bind>,
    fields: Vec<Field>,
    parts: Vec<Part>,
}

/// What is bound to a placeholder. The order of [`Statement::binds`] is the order in which the
/// values are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    /// The lock's name: text.
    Name,
    /// The owner that asks, or that the record must name: text.
    Owner,
    /// What the record shall name as owner once the lease is over: text.
    Released,
    /// At-most in microseconds, a multiple of the dialect's unit.
    AtMost,
    /// At-least in microseconds, a multiple of the dialect's unit.
    AtLeast,
    /// The slot in microseconds since 1970 (UTC).
    Slot,
    /// How far ahead of now a slot may lie, in microseconds.
    Tolerance,
    /// How many attempts an open slot has.
    MostAttempts,
    /// The slot that must have been taken, or passed, before; or the last one, where it is to be set.
    Previous,
    /// The client's time in microseconds since 1970 (UTC); only where the client's clock rules.
    Now,
    /// The last instant of the server's clock at which an attempt may be granted, in microseconds
    /// since 1970 (UTC).
    NotAfter,
    /// The name that a page starts behind: text, empty for the first page.
    After,
    /// The page size.
    Limit,
}

/// What a column of the answer means. Instants come as microseconds since 1970 (UTC) in a 64-bit
/// integer, whatever the table keeps, so that no driver's time types are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Name,
    Owner,
    LockedAt,
    LockUntil,
    Token,
    Slot,
    SlotDone,
    SlotAttempts,
    Now,
    /// The server's time, where [`Now`](Self::Now) is the client's.
    ServerTime,
}

/// The columns that tell everything of a record, in the order in which all dialects select them; then,
/// where the clients' clocks rule, the time of the server's, which judges how late an attempt comes.
pub(crate) const RECORD_AND_SERVER_TIME: [Field; 10] = [
    Field::Name,
    Field::Owner,
    Field::LockedAt,
    Field::LockUntil,
    Field::Token,
    Field::Slot,
    Field::SlotDone,
    Field::SlotAttempts,
    Field::Now,
    Field::ServerTime,
];

/// The same without the latter.
pub(crate) const RECORD: &[Field] = RECORD_AND_SERVER_TIME.split_at(9).0;

/// What an attempt or insert returns that took the lock and an open slot.
pub(crate) const GRANTED_SLOT: [Field; 4] = [
    Field::LockedAt,
    Field::LockUntil,
    Field::Token,
    Field::SlotAttempts,
];

/// The same without an open slot.
pub(crate) const GRANTED: &[Field] = GRANTED_SLOT.split_at(3).0;

/// How a dialect writes placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// `$1`, and the same number again for the same value.
    Numbered,
    /// `?`, once for each use.
    Positional,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Box<str>),
    Bind(Bind),
}

impl Bind {
    const ALL: [(&'static str, Self); 13] = [
        ("name", Self::Name),
        ("owner", Self::Owner),
        ("released", Self::Released),
        ("at_most", Self::AtMost),
        ("at_least", Self::AtLeast),
        ("slot", Self::Slot),
        ("tolerance", Self::Tolerance),
        ("most_attempts", Self::MostAttempts),
        ("previous", Self::Previous),
        ("now", Self::Now),
        ("not_after", Self::NotAfter),
        ("after", Self::After),
        ("limit", Self::Limit),
    ];

    fn find(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find_map(|(name, bind)| (*name == word).then_some(*bind))
    }
}

impl Statement {
    /// Reads a template in which `:name`, `:at_most` and so on (the words of [`Bind`]) stand for
    /// values. Any other colon is left alone, so `::bigint` is no placeholder.
    pub(crate) fn new(placeholders: Placeholders, template: &str, fields: &[Field]) -> Self {
        let parts = split(template);
        let mut text = String::with_capacity(template.len());
        let mut binds: Vec<Bind> = Vec::new();
        for part in &parts {
            match (part, placeholders) {
                (Part::Text(fixed), _) => text.push_str(fixed),
                (Part::Bind(bind), Placeholders::Positional) => {
                    binds.push(*bind);
                    text.push('?');
                }
                (Part::Bind(bind), Placeholders::Numbered) => {
                    let known = binds.iter().position(|seen| seen == bind);
                    let index = known.unwrap_or_else(|| {
                        binds.push(*bind);
                        binds.len() - 1
                    });
                    // Writing to a String cannot fail.
                    let _ = write!(text, "${}", index + 1);
                }
            }
        }
        Self {
            text: text.into(),
            binds,
            fields: fields.to_vec(),
            parts,
        }
    }

    /// The text with placeholders. Identifiers in it were checked and quoted; values never are.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same, for drivers that keep it.
    pub(crate) fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// What to bind, in this order.
    pub(crate) fn binds(&self) -> &[Bind] {
        &self.binds
    }

    /// What the columns of the answer mean, in their order; empty where no rows come back.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The text with the values written into it as literals, for servers that are reached through
    /// something that cannot keep prepared statements.
    pub(crate) fn inlined(&self, values: &Values<'_>, dialect: &dyn Dialect) -> String {
        let mut text = String::with_capacity(self.text.len() + 128);
        for part in &self.parts {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Bind(bind) => match values.get(*bind) {
                    Value::Text(value) => text.push_str(&dialect.quote(value)),
                    Value::Integer(value) => {
                        let _ = write!(text, "{value}");
                    }
                },
            }
        }
        text
    }
}

fn split(template: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = template;
    let mut fixed = String::new();
    while let Some(at) = rest.find(':') {
        let (before, from_colon) = rest.split_at(at);
        fixed.push_str(before);
        let after = &from_colon[1..];
        let end = after
            .find(|c: char| !c.is_ascii_lowercase() && c != '_')
            .unwrap_or(after.len());
        let is_cast = fixed.ends_with(':');
        if let Some(bind) = Bind::find(&after[..end]).filter(|_| !is_cast) {
            parts.push(Part::Text(std::mem::take(&mut fixed).into()));
            parts.push(Part::Bind(bind));
            rest = &after[end..];
        } else {
            fixed.push(':');
            rest = after;
        }
    }
    fixed.push_str(rest);
    parts.push(Part::Text(fixed.into()));
    parts
}

/// The values of one call; each statement takes those it names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) released: &'a str,
    pub(crate) at_most: i64,
    pub(crate) at_least: i64,
    pub(crate) slot: i64,
    pub(crate) tolerance: i64,
    pub(crate) most_attempts: i64,
    pub(crate) previous: i64,
    pub(crate) now: i64,
    pub(crate) not_after: i64,
    pub(crate) after: &'a str,
    pub(crate) limit: i64,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Integer(i64),
}

impl<'a> Values<'a> {
    /// Adds the slot of a lease that ends, with what the last slot is where it is given back.
    pub(crate) fn end_of(&mut self, slot: Option<Slot>) {
        self.slot = slot.map_or(0, Slot::as_micros);
        self.previous = slot.map_or(0, |slot| slot.just_before().as_micros());
    }

    /// The value for this placeholder.
    pub(crate) fn get(&self, bind: Bind) -> Value<'a> {
        match bind {
            Bind::Name => Value::Text(self.name),
            Bind::Owner => Value::Text(self.owner),
            Bind::Released => Value::Text(self.released),
            Bind::AtMost => Value::Integer(self.at_most),
            Bind::AtLeast => Value::Integer(self.at_least),
            Bind::Slot => Value::Integer(self.slot),
            Bind::Tolerance => Value::Integer(self.tolerance),
            Bind::MostAttempts => Value::Integer(self.most_attempts),
            Bind::Previous => Value::Integer(self.previous),
            Bind::Now => Value::Integer(self.now),
            Bind::NotAfter => Value::Integer(self.not_after),
            Bind::After => Value::Text(self.after),
            Bind::Limit => Value::Integer(self.limit),
        }
    }
}

/// What came back of a statement.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// How many rows were changed (or found, on MySQL), as the server counts them for the last
    /// statement of the text.
    pub(crate) affected: u64,
    /// What `LAST_INSERT_ID(…)` was set to; MySQL and MariaDB only.
    pub(crate) last_insert_id: Option<u64>,
    /// True where the reply of a first try was lost, which may have taken effect.
    pub(crate) repeated: bool,
    /// What was returned or selected.
    pub(crate) rows: Vec<Row>,
    /// Rows that hold other things than they should: their names, where these can be read, and why.
    pub(crate) unreadable: Vec<(Option<String>, BoxError)>,
}

impl Reply {
    /// The first row, where there is one.
    pub(crate) fn row(&self) -> Option<&Row> {
        self.rows.first()
    }

    /// The last name of a page, in the order of bytes.
    pub(crate) fn last_name(&self) -> Option<&str> {
        let read = self.rows.last().and_then(|row| row.name.as_deref());
        let unread = self.unreadable.last().and_then(|(name, _)| name.as_deref());
        read.max(unread)
    }

    /// The fencing token, from the row or as last insert id.
    pub(crate) fn token(&self) -> Option<u64> {
        let of_row = self.row().and_then(|row| row.token);
        let of_row = of_row.and_then(|token| u64::try_from(token).ok());
        self.last_insert_id.or(of_row)
    }
}

/// A row of an answer; what its statement does not select is `None`.
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
    pub(crate) now: Option<i64>,
    pub(crate) server_time: Option<i64>,
}

impl Row {
    /// Reads the columns of an answer by the two types that they have.
    pub(crate) fn decoded<E>(
        fields: &[Field],
        text: impl Fn(usize) -> Result<Option<String>, E>,
        number: impl Fn(usize) -> Result<Option<i64>, E>,
    ) -> Result<Self, E> {
        let mut row = Self::default();
        for (index, field) in fields.iter().enumerate() {
            match field {
                Field::Name => row.name = text(index)?,
                Field::Owner => row.owner = text(index)?,
                Field::LockedAt => row.locked_at = number(index)?,
                Field::LockUntil => row.lock_until = number(index)?,
                Field::Token => row.token = number(index)?,
                Field::Slot => row.slot = number(index)?,
                Field::SlotDone => row.slot_done = number(index)?,
                Field::SlotAttempts => row.slot_attempts = number(index)?,
                Field::Now => row.now = number(index)?,
                Field::ServerTime => row.server_time = number(index)?,
            }
        }
        Ok(row)
    }

    /// The time of the server's clock, whoever's clock rules.
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
        assert_eq!(numbered.binds(), [Bind::AtMost, Bind::Name]);
        let positional = Statement::new(Placeholders::Positional, TEMPLATE, &[]);
        assert_eq!(
            positional.text(),
            "UPDATE t SET a = ?::bigint + ? WHERE n = ? AND o = ':x'"
        );
        assert_eq!(positional.binds(), [Bind::AtMost, Bind::AtMost, Bind::Name]);
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
            statement.inlined(&values, &crate::dialect::postgres::Postgres),
            "UPDATE t SET a = -7::bigint + -7 WHERE n = 'it''s' AND o = ':x'"
        );
    }
}
