//! Statements and rows, as diesel sees them.

use diesel::QueryResult;
use diesel::backend::{Backend, DieselReserveSpecialization};
use diesel::deserialize::FromSqlRow;
use diesel::expression::QueryMetadata;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Text, Untyped};
use diesel_async::{AsyncConnectionCore, RunQueryDsl};
use shedlock_sql::driver::{BoxError, Reply, Statement, Value, Values};

/// A text with placeholders, and its values. diesel prepares it, as the application's own queries.
pub(crate) struct Prepared<'a> {
    pub(crate) text: &'a str,
    pub(crate) values: Vec<Value<'a>>,
    /// Whether the connection keeps it for the next time.
    pub(crate) is_kept: bool,
}

impl<D> QueryFragment<D> for Prepared<'_>
where
    D: Backend + DieselReserveSpecialization + HasSqlType<Text> + HasSqlType<BigInt>,
    str: ToSql<Text, D>,
    i64: ToSql<BigInt, D>,
{
    fn walk_ast<'b>(&'b self, mut pass: AstPass<'_, 'b, D>) -> QueryResult<()> {
        pass.push_sql(self.text);
        if !self.is_kept {
            pass.unsafe_to_cache_prepared();
        }
        for value in &self.values {
            match value {
                Value::Text(text) => pass.push_bind_param_value_only::<Text, str>(text)?,
                Value::Integer(integer) => {
                    pass.push_bind_param_value_only::<BigInt, i64>(integer)?;
                }
            }
        }
        Ok(())
    }
}

/// Prepared statements differ by their texts.
impl QueryId for Prepared<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Prepared<'_> {
    type SqlType = Untyped;
}

/// A value of a row.
pub(crate) enum Cell {
    Null,
    Text(String),
    Number(i64),
    /// Of another type.
    Other,
}

/// A row.
pub(crate) struct Cells(pub(crate) Vec<Cell>);

impl Cells {
    pub(crate) fn text(&self, index: usize) -> Result<Option<String>, BoxError> {
        match self.0.get(index) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(text)) => Ok(Some(text.clone())),
            _ => Err("not a text".into()),
        }
    }

    pub(crate) fn number(&self, index: usize) -> Result<Option<i64>, BoxError> {
        match self.0.get(index) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Number(number)) => Ok(Some(*number)),
            _ => Err("not a 64-bit integer".into()),
        }
    }
}

/// Runs a statement to the end of its reply. One that has neither values nor rows is sent as a text, because servers do
/// not prepare everything, and may consist of several.
pub(crate) async fn run<'a, C, D>(
    connection: &mut C,
    statement: &'a Statement,
    values: &'a Values<'a>,
) -> QueryResult<Reply>
where
    C: AsyncConnectionCore<Backend = D>,
    D: Backend + DieselReserveSpecialization + HasSqlType<Text> + HasSqlType<BigInt>,
    D: QueryMetadata<Untyped> + 'static,
    str: ToSql<Text, D>,
    i64: ToSql<BigInt, D>,
    Cells: FromSqlRow<Untyped, D>,
{
    let query = Prepared {
        text: statement.shared_text(),
        values: statement.bound(values).collect(),
        is_kept: statement.is_prepared(),
    };
    let mut reply = Reply::default();
    if statement.returns_rows() {
        let rows: Vec<Cells> = query.load(connection).await?;
        reply.affected = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        for row in rows {
            reply.add(
                statement,
                |index| row.text(index),
                |index| row.number(index),
            );
        }
    } else if query.values.is_empty() {
        connection.batch_execute(query.text).await?;
    } else {
        let affected = query.execute(connection).await?;
        reply.affected = u64::try_from(affected).unwrap_or(u64::MAX);
    }
    Ok(reply)
}

/// The rows of a text.
#[cfg(feature = "mysql")]
pub(crate) async fn rows(
    connection: &mut diesel_async::AsyncMysqlConnection,
    text: &str,
) -> QueryResult<Vec<Cells>> {
    let query = Prepared {
        text,
        values: Vec::new(),
        is_kept: true,
    };
    query.load(connection).await
}
