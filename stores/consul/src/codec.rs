//! The reply of an agent for a key.

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use serde_json::Value;
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{Found, Reading, Record, Result};

pub(crate) fn reading(pair: &Value) -> Result<Reading<u64>> {
    let index = index_of(pair, ErrorKind::Configuration)?;
    let text = pair["KV"]["Value"].as_str().unwrap_or_default();
    let text = BASE64.decode(text).unwrap_or_default();
    let record = Record::from_bytes(&text)?;
    Ok(Reading::found(Found::new(record, index)))
}

/// Returns the index in a reply. The reply is empty if the token may not read the key; the error then has the kind
/// `otherwise`.
pub(crate) fn index_of(pair: &Value, otherwise: ErrorKind) -> Result<u64> {
    let none = || {
        Error::new(otherwise, "the agent returned no index")
            .advise("check that the token may read the key")
    };
    pair["KV"]["ModifyIndex"].as_u64().ok_or_else(none)
}
