//! What sqlx 0.9 takes as a text. `stores/sqlx08/tests` has its own, for 0.8.

use sqlx::AssertSqlSafe;

/// A text, as sqlx takes it.
pub(crate) fn text(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}
