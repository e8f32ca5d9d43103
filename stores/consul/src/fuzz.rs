//! Fuzz targets for code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use promises::is_refusal;
use serde_json::{Value, json};
use shedlock_core::ErrorKind;

/// URLs.
pub fn url(data: &[u8]) {
    promises::url_without_files(data, crate::url::read);
}

/// An agent's reply for a key: JSON, or the value alone.
pub fn pair(data: &[u8]) {
    let value = BASE64.encode(data);
    let ours = json!({"KV": {"Key": "shedlock/a", "Value": value, "ModifyIndex": 7}});
    let any: Value = serde_json::from_slice(data).unwrap_or_default();
    for pair in [ours, any] {
        if let Err(error) = crate::codec::reading(&pair) {
            is_refusal(&error, &[ErrorKind::Conflict, ErrorKind::Configuration]);
        }
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, pair);
