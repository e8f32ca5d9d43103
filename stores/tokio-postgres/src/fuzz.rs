//! The fuzz target for URLs. It panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal_of_url;
use shedlock_core::{Error, ErrorKind};
use shedlock_sql::driver::Remote as _;

/// URLs of PostgreSQL.
pub fn tokio_postgres_url(data: &[u8]) {
    refused_or_read(data, |url| crate::TokioPostgres::described(url).map(drop));
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

#[cfg(test)]
shedlock_fuzz::tests!(tokio_postgres_url);
