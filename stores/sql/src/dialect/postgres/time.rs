//! Instants in PostgreSQL's SQL.

use crate::shape::{TimeColumn, TimeKind};

/// Which now is meant; see the module above for why there are two of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// When the statement arrived: the same in all of it.
    Arrival,
    /// The time it has become, read anew at each place.
    Clock,
    /// The client's, sent along.
    Client,
}

impl Now {
    /// As a column of this kind holds it, to its last digit.
    pub(super) fn of(self, column: TimeColumn) -> String {
        match (self, column.kind) {
            (Self::Client, kind) => at(kind, ":now"),
            (_, TimeKind::Instant) => self.word().to_owned(),
            (_, _) => format!("timezone('utc', {})", self.word()),
        }
    }

    /// In microseconds since 1970 (UTC).
    pub(super) fn micros(self) -> String {
        match self {
            Self::Client => ":now".to_owned(),
            _ => micros(self.word()),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Clock => "clock_timestamp()",
            _ => "CURRENT_TIMESTAMP",
        }
    }

    /// Rounded down to what the column can hold: never later than now.
    pub(super) fn down(self, column: TimeColumn) -> String {
        let unit = column.unit();
        if unit == 1 {
            return self.of(column);
        }
        at(
            column.kind,
            &format!("({} / {unit} * {unit})", self.micros()),
        )
    }

    /// Now and so many microseconds, rounded up to what the column can hold.
    pub(super) fn after(self, column: TimeColumn, duration: &str) -> String {
        if column.unit() == 1 {
            return later(&self.of(column), duration);
        }
        up(column, &format!("{} + {duration}", self.micros()))
    }
}

/// Microseconds since 1970 (UTC), of an instant or of UTC wall time.
pub(super) fn micros(instant: &str) -> String {
    format!("(extract(epoch FROM {instant}) * 1000000)::bigint")
}

/// The same of a column, which may hold `infinity` or what no integer of 64 bits can count: cut to
/// the years from 1 to 9999. The literals take the column's type, an instant that of the session's
/// zone, which makes no difference so far from any lease.
pub(super) fn micros_of(column: &str) -> String {
    micros(&format!(
        "LEAST(GREATEST({column}, '0001-01-02 00:00:00'), '9999-12-30 00:00:00')"
    ))
}

/// So many microseconds after an instant, or after UTC wall time.
pub(super) fn later(instant: &str, duration: &str) -> String {
    format!("{instant} + {duration} * interval '1 microsecond'")
}

/// Microseconds since 1970 (UTC) as this column holds them, rounded up: the server itself would
/// round to the nearest, and so could end a lease early.
pub(super) fn up(column: TimeColumn, micros: &str) -> String {
    let unit = column.unit();
    if unit == 1 {
        return at(column.kind, &format!("({micros})"));
    }
    at(
        column.kind,
        &format!("(({micros} + {}) / {unit} * {unit})", unit - 1),
    )
}

/// The instant, or the UTC wall time, of so many microseconds since 1970 (UTC).
fn at(kind: TimeKind, micros: &str) -> String {
    let epoch = match kind {
        TimeKind::Instant => "timestamptz '1970-01-01 00:00:00+00'",
        _ => "timestamp '1970-01-01 00:00:00'",
    };
    format!("({})", later(epoch, micros))
}
