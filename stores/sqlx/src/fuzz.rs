//! Fuzz targets for URLs. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal_of_url;
use shedlock_core::{Error, ErrorKind};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use shedlock_sql::driver::Remote as _;

/// URLs of PostgreSQL.
#[cfg(feature = "postgres")]
pub fn postgres_url(data: &[u8]) {
    refused_or_read(data, |url| crate::Postgres::described(url).map(drop));
}

/// URLs of MySQL and MariaDB.
#[cfg(feature = "mysql")]
pub fn mysql_url(data: &[u8]) {
    refused_or_read(data, |url| crate::MySql::described(url).map(drop));
}

/// URLs of SQLite. Nothing is opened.
#[cfg(feature = "sqlite")]
pub fn sqlite_url(data: &[u8]) {
    refused_or_read(data, |url| {
        shedlock_sql::driver::File::schema(url).map(drop)
    });
}

/// Skips URLs that name certificate files, because reading such a URL reads the files.
fn refused_or_read(data: &[u8], read: fn(&str) -> Result<(), Error>) {
    let url = String::from_utf8_lossy(data);
    if ["cert", "key", "ca="].iter().any(|file| url.contains(file)) {
        return;
    }
    if let Err(error) = read(&url).map_err(|error| error.of_url(&url)) {
        is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]);
    }
}

#[cfg(all(test, feature = "postgres", feature = "mysql", feature = "sqlite"))]
shedlock_fuzz::tests!(postgres_url, mysql_url, sqlite_url);
