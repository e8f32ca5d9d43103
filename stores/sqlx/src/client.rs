//! What sqlx 0.9 does differently than 0.8. `shedlock-sqlx08` has its own module of this name; its other modules are
//! copies of ours.

use std::sync::Arc;

use shedlock_sql::driver::Statement;
use sqlx::AssertSqlSafe;

/// The crate whose features bring TLS.
pub(crate) const CRATE: &str = "shedlock-sqlx";

/// The text of a statement, for a query that is prepared.
pub(crate) fn prepared(statement: &Statement) -> AssertSqlSafe<Arc<str>> {
    AssertSqlSafe(Arc::clone(statement.shared_text()))
}

/// A text that is sent as it is.
pub(crate) fn plain(text: &str) -> AssertSqlSafe<&str> {
    AssertSqlSafe(text)
}
