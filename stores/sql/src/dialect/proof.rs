//! How a statement on a connection that is not ours proves that it is in no transaction but its own.

use super::{Dialect, Pieces};
use crate::options::Options;
use crate::statement::Statement;

/// Texts around a statement that is sent in one request with them. Nothing can come between them, and neither is in the
/// way of a pooler.
pub(super) struct Alone {
    /// Before it: fails in a transaction, so that the statement is not executed.
    pub(super) before: &'static str,
    /// After it: returns why the statement does not count, or an empty text. Words like `{table}` are replaced. Where it
    /// is empty, `before` has proved it.
    pub(super) after: &'static str,
    /// The part of `after` (`{shadowed}`) about a session in which the table's name means another table, unless it includes
    /// the schema.
    pub(super) shadowed: &'static str,
}

/// How a statement on a connection that is not ours proves that it is in no transaction but its own: texts that are sent
/// in one request with it.
#[derive(Debug)]
pub struct Proof {
    pub(crate) before: &'static str,
    pub(crate) after: String,
}

/// The proofs of the statements of one table.
#[derive(Debug)]
pub(crate) struct Proofs {
    pub(crate) usual: Proof,
    /// For statements that name the schema.
    with_schema: Proof,
}

impl Proofs {
    pub(crate) fn of(&self, statement: &Statement) -> &Proof {
        match statement.names_schema {
            true => &self.with_schema,
            false => &self.usual,
        }
    }
}

impl Proof {
    /// What precedes the statement.
    #[must_use]
    pub fn before(&self) -> &str {
        self.before
    }

    /// What follows it, and returns a row for [`check_proof`](crate::driver::check_proof), unless it is empty.
    #[must_use]
    pub fn after(&self) -> &str {
        &self.after
    }
}

impl Dialect {
    pub(crate) fn proofs(&self, options: &Options) -> Proofs {
        let proof = |shadowed: &'static str| {
            let mut pieces = Pieces::of_table(self, options);
            pieces.set("shadowed", shadowed);
            Proof {
                before: self.alone.before,
                after: pieces.expand(self.alone.after),
            }
        };
        Proofs {
            usual: proof(self.alone.shadowed),
            with_schema: proof(""),
        }
    }
}
