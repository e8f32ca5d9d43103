//! What sqlx 0.8 does differently than 0.9.

use shedlock_sql::driver::Statement;

/// The crate whose features bring TLS.
pub(crate) const CRATE: &str = "shedlock-sqlx08";

/// The text of a statement, for a query that is prepared.
pub(crate) fn prepared(statement: &Statement) -> &str {
    statement.shared_text()
}

/// A text that is sent as it is.
pub(crate) fn plain(text: &str) -> &str {
    text
}
