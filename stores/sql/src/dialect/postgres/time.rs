//! Instants in PostgreSQL's SQL.

use crate::shape::{TimeColumn, TimeKind};

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

/// Now, as a column of this kind holds it, to its last digit.
pub(super) fn now(column: TimeColumn, is_client: bool) -> String {
    match column.kind {
        kind if is_client => at(kind, "{now_micros}"),
        TimeKind::Instant => "{clock}".to_owned(),
        _ => "timezone('utc', {clock})".to_owned(),
    }
}

/// Now, rounded down to what the column can hold: never later.
pub(super) fn now_down(column: TimeColumn, is_client: bool) -> String {
    match column.unit() {
        1 => now(column, is_client),
        unit => at(column.kind, &format!("({{now_micros}} / {unit} * {unit})")),
    }
}

/// Now and so many microseconds, rounded up to what the column can hold.
pub(super) fn after(duration: &str, column: TimeColumn, is_client: bool) -> String {
    match column.unit() {
        1 => later(&now(column, is_client), duration),
        _ => up(column, &format!("{{now_micros}} + {duration}")),
    }
}

/// Microseconds since 1970 (UTC) as this column holds them, rounded up: the server itself would
/// round to the nearest, and so could end a lease early.
pub(super) fn up(column: TimeColumn, micros: &str) -> String {
    match column.unit() {
        1 => at(column.kind, &format!("({micros})")),
        unit => at(
            column.kind,
            &format!("(({micros} + {}) / {unit} * {unit})", unit - 1),
        ),
    }
}

/// The instant, or the UTC wall time, of so many microseconds since 1970 (UTC).
fn at(kind: TimeKind, micros: &str) -> String {
    let epoch = match kind {
        TimeKind::Instant => "timestamptz '1970-01-01 00:00:00+00'",
        _ => "timestamp '1970-01-01 00:00:00'",
    };
    format!("({})", later(epoch, micros))
}
