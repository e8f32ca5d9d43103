//! The provider over MySQL and MariaDB.

use diesel::deserialize;
use diesel::mysql::{Mysql, MysqlType, MysqlValue};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::row::{Field as _, Row};
use diesel::sql_types::Untyped;
use diesel_async::{AsyncMysqlConnection, SimpleAsyncConnection as _};
use shedlock_provider::StoreProvider;
use shedlock_sql::SqlStore;
use shedlock_sql::driver::mysql::{self, MYSQL, token_in};
use shedlock_sql::driver::{Class, Dialect, Failure, How, Reply, Statement, Values};

use crate::driver::{Database, DieselAsync};
use crate::failure::{Report, failed, report, unreported};
use crate::query::{Cell, Cells, rows, run};

/// Stores locks in a table of MySQL (5.7 or later) or MariaDB (10.2 or later) through connections of diesel-async.
/// Statements, guarantees and tables are those of the providers over other clients.
///
/// `builder` takes any [`ConnectionSource`](crate::ConnectionSource): diesel-async's pools of deadpool, bb8 or mobc, or
/// your own in a few lines. Connections need `client_found_rows`, which diesel-async sets unless you open them yourself.
pub type MySqlProvider = StoreProvider<SqlStore<DieselAsync<AsyncMysqlConnection>>>;

impl mysql::MySql for DieselAsync<AsyncMysqlConnection> {}

impl Database for AsyncMysqlConnection {
    const STORE: &'static str = "mysql";

    const DIALECT: &'static Dialect = &MYSQL;

    fn classify(report: &Report<'_>) -> Option<Class> {
        Some(mysql::classify(number(report)?, report.message))
    }

    fn at_login(report: &Report<'_>) -> Option<Class> {
        mysql::at_login(number(report)?)
    }

    async fn answer<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> Result<Reply, Failure> {
        if let How::Alone(proof) = how {
            let guard = proof.before().trim_end_matches("; ");
            if let Err(error) = self.batch_execute(guard).await {
                return Err(failure(self, error).await);
            }
        }
        let mut reply = match run(self, statement, values).await {
            Ok(reply) => reply,
            Err(error) => return Err(failure(self, error).await),
        };
        if reply.affected > 0 && statement.shared_text().contains(TOKEN) {
            let token = last_insert_id(self).await;
            // The statement may have taken the lock, but its token is lost.
            reply.last_insert_id = token.map_err(|error| failed(Class::ReplyLost, error))?;
        }
        Ok(reply)
    }
}

/// What a statement contains that sets the fencing token.
const TOKEN: &str = "LAST_INSERT_ID(";

/// The fencing token that the statement before this one has set. diesel keeps it to itself.
async fn last_insert_id(connection: &mut AsyncMysqlConnection) -> Result<Option<u64>, Error> {
    let rows = rows(connection, "SELECT CAST(LAST_INSERT_ID() AS SIGNED)").await?;
    let number = rows.first().map(|row| row.number(0));
    let number = number.and_then(Result::ok).flatten();
    Ok(number.and_then(|number| token_in(number.unsigned_abs())))
}

/// A failure of a statement.
async fn failure(connection: &mut AsyncMysqlConnection, error: Error) -> Failure {
    let class = match report(&error) {
        None => unreported(&error),
        Some(report) => match AsyncMysqlConnection::classify(&report) {
            Some(class) => class,
            None => match last_error(connection).await {
                Some(number) => mysql::classify(number, report.message),
                // The session has ended.
                None => Class::ReplyLost,
            },
        },
    };
    failed(class, error)
}

/// The number of the last error, which diesel drops and the session keeps. Statements that read it leave it unchanged,
/// but cannot be prepared, so it takes two.
async fn last_error(connection: &mut AsyncMysqlConnection) -> Option<u16> {
    // The last condition is the error, after its warnings.
    let read = "GET DIAGNOSTICS @shedlock_error = NUMBER; \
                GET DIAGNOSTICS CONDITION @shedlock_error @shedlock_error = MYSQL_ERRNO";
    connection.batch_execute(read).await.ok()?;
    let rows = rows(connection, "SELECT CAST(@shedlock_error AS SIGNED)").await;
    let number = rows.ok()?.first()?.number(0).ok()??;
    u16::try_from(number).ok()
}

/// The number of an error, by diesel's kind or, if it ends a session or keeps it from being opened, by its message.
fn number(report: &Report<'_>) -> Option<u16> {
    Some(match report.kind {
        Some(DatabaseErrorKind::UniqueViolation) => 1062,
        Some(DatabaseErrorKind::ForeignKeyViolation) => 1452,
        Some(DatabaseErrorKind::NotNullViolation) => 1048,
        Some(DatabaseErrorKind::CheckViolation) => 3819,
        Some(DatabaseErrorKind::ReadOnlyTransaction) => 1792,
        _ => {
            let is_number = |(_, text): &&(_, &str)| report.message.contains(text);
            NUMBERS.iter().find(is_number)?.0
        }
    })
}

const NUMBERS: &[(u16, &str)] = &[
    (1040, "Too many connections"),
    (1203, "max_user_connections"),
    (1226, "has exceeded the"),
    (1053, "Server shutdown in progress"),
    (1049, "Unknown database"),
    (1129, "is blocked because of many connection errors"),
    (4150, "Access denied, this account is locked"),
    (3159, "insecure transport are prohibited"),
    (1044, "to database '"),
    (1045, "Access denied for user"),
];

impl deserialize::FromSqlRow<Untyped, Mysql> for Cells {
    fn build_from_row<'a>(row: &impl Row<'a, Mysql>) -> deserialize::Result<Self> {
        let cell = |index| {
            row.get(index)
                .map_or(Cell::Other, |field| cell(field.value()))
        };
        Ok(Self((0..row.field_count()).map(cell).collect()))
    }
}

fn cell(value: Option<MysqlValue<'_>>) -> Cell {
    let Some(value) = value else {
        return Cell::Null;
    };
    match value.value_type() {
        MysqlType::LongLong | MysqlType::Long | MysqlType::UnsignedLong => {
            integer(value.as_bytes())
        }
        MysqlType::String | MysqlType::Blob => {
            let text = std::str::from_utf8(value.as_bytes());
            text.map_or(Cell::Other, |text| Cell::Text(text.to_owned()))
        }
        _ => Cell::Other,
    }
}

/// Integers of all widths arrive with 64 bits.
fn integer(bytes: &[u8]) -> Cell {
    let number = bytes.try_into().map(i64::from_le_bytes);
    number.map_or(Cell::Other, Cell::Number)
}
