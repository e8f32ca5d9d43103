//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

use std::time::Duration;

use shedlock_core::fuzz::is_refusal;
use shedlock_core::{AttemptRequest, ErrorKind, LockName, Owner, Slot};

use crate::identifier::{Fold, Table};
use crate::statement::Row;
use crate::verdict::{State, record};

/// URLs of PostgreSQL. Files of certificates are left out, which are read.
#[cfg(feature = "postgres")]
pub fn postgres_url(data: &[u8]) {
    refused_or_read(data, |url| {
        crate::SqlStore::<sqlx::Postgres>::described(url).map(drop)
    });
}

/// URLs of PostgreSQL as tokio-postgres has them. Files of certificates are left out, which are read.
#[cfg(feature = "tokio-postgres")]
pub fn tokio_postgres_url(data: &[u8]) {
    refused_or_read(data, |url| {
        crate::SqlStore::<crate::TokioPostgres>::described(url).map(drop)
    });
}

/// URLs of MySQL and MariaDB. Files of certificates are left out, which are read.
#[cfg(feature = "mysql")]
pub fn mysql_url(data: &[u8]) {
    refused_or_read(data, |url| {
        crate::SqlStore::<sqlx::MySql>::described(url).map(drop)
    });
}

/// URLs of SQLite. Nothing is opened.
#[cfg(feature = "sqlite")]
pub fn sqlite_url(data: &[u8]) {
    refused_or_read(data, |url| {
        let (address, _) = crate::sqlite::described(url)?;
        address.settings.check::<sqlx::Sqlite>().map(drop)
    });
}

fn refused_or_read(data: &[u8], read: fn(&str) -> Result<(), shedlock_core::Error>) {
    let url = String::from_utf8_lossy(data);
    if url.contains("cert") || url.contains("key") || url.contains("ca=") {
        return;
    }
    if let Err(error) = read(&url).map_err(|error| error.of_url(&url)) {
        shedlock_core::fuzz::is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]);
    }
}

/// Names of tables: what is accepted cannot leave its quotes, and means the same when it is read again.
pub fn identifier(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for fold in [Fold::Lower, Fold::Keep] {
        match Table::parse(None, &text, fold, 63) {
            Ok(table) => {
                let quoted = table.quoted('"');
                let inner = quoted.replace('"', "").replacen('.', "", 1);
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$-".contains(&byte);
                assert!(inner.bytes().all(is_plain), "{quoted}");
                assert_eq!(Table::parse(None, &quoted, fold, 63).ok(), Some(table));
            }
            Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
        }
    }
}

/// Time zones of MySQL's sessions: what is accepted cannot leave its quotes, and is its own spelling.
#[cfg(feature = "mysql")]
pub fn session_zone(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match crate::zone::parse(&text) {
        Ok(zone) => {
            assert_eq!(crate::zone::parse(&zone).ok().as_ref(), Some(&zone));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+:".contains(&byte);
            assert!(zone.bytes().all(is_plain), "{zone:?}");
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
}

/// A row as it was read, a column a line: an attempt is answered, or told why not.
pub fn row(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut row = Row::default();
    for line in text.lines() {
        let (column, value) = line.split_once(' ').unwrap_or((line, ""));
        let number = value.parse().ok();
        match column {
            "name" => row.name = Some(value.to_owned()),
            "owner" => row.owner = Some(value.to_owned()),
            "locked_at" => row.locked_at = number,
            "lock_until" => row.lock_until = number,
            "token" => row.token = number,
            "slot" => row.slot = number,
            "slot_done" => row.slot_done = number,
            "slot_attempts" => row.slot_attempts = number,
            "now" => row.now = number,
            _ => {}
        }
    }
    let name = LockName::new("job").expect("it is a name");
    let owner = Owner::parse("web-3/1/0123456789abcdef").expect("it is an owner");
    let plain = AttemptRequest::new(name, owner, Duration::from_secs(60));
    let slot = Slot::from_micros(1_799_999_940_000_000).expect("it is a slot");
    for request in [plain.clone(), plain.with_slot(slot)] {
        match State::of(&request, &row) {
            Ok(State::Absent) => assert_eq!(row.name, None),
            Ok(State::Free) => {
                assert!(row.lock_until <= row.now);
                // What is free can be taken: the statement's conditions are met by what is there.
                let is_slot = |micros: &i64| Slot::from_micros(*micros).is_ok();
                assert!(request.slot().is_none() || row.slot.iter().all(is_slot));
            }
            Ok(State::Answered(_)) => {}
            Err(error) => is_refusal(
                &error,
                &[
                    ErrorKind::Conflict,
                    ErrorKind::SlotAhead,
                    ErrorKind::Lost,
                    ErrorKind::Internal,
                ],
            ),
        }
    }
    let _ = record(&row);
}

/// Texts as literals, for statements that are not prepared: none leaves its quotes, and what is between
/// them is the text.
pub fn literal(data: &[u8]) {
    use crate::driver::Driver;
    let text = String::from_utf8_lossy(data);
    #[cfg(feature = "postgres")]
    {
        let literal = sqlx::Postgres::dialect().quote(&text);
        let (inner, is_escaped) = match literal.strip_prefix("E'") {
            Some(inner) => (inner, true),
            None => (literal.strip_prefix('\'').expect("a quote"), false),
        };
        let inner = inner.strip_suffix('\'').expect("a quote");
        assert_eq!(unquoted(inner, is_escaped).as_deref(), Some(&*text));
    }
    #[cfg(feature = "sqlite")]
    {
        let literal = sqlx::Sqlite::dialect().quote(&text);
        let inner = literal
            .strip_prefix('\'')
            .and_then(|it| it.strip_suffix('\''));
        assert_eq!(
            unquoted(inner.expect("quotes"), false).as_deref(),
            Some(&*text)
        );
    }
    #[cfg(feature = "mysql")]
    {
        let literal = sqlx::MySql::dialect().quote(&text);
        let inner = literal
            .strip_prefix("_utf8mb4 X'")
            .and_then(|it| it.strip_suffix('\''));
        let inner = inner.expect("quotes");
        assert!(inner.len() == text.len() * 2 && inner.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

/// The text between two quotes as a server reads it; none where it ends before the last one.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn unquoted(inner: &str, is_escaped: bool) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\'' => chars.next().filter(|char| *char == '\'')?,
            '\\' if is_escaped => chars.next().filter(|char| *char == '\\')?,
            char => char,
        });
    }
    Some(text)
}

#[cfg(all(
    test,
    feature = "postgres",
    feature = "tokio-postgres",
    feature = "mysql",
    feature = "sqlite"
))]
shedlock_fuzz::tests!(
    postgres_url,
    tokio_postgres_url,
    mysql_url,
    sqlite_url,
    identifier,
    session_zone,
    row,
    literal,
);
