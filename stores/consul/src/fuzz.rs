//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

use serde_json::{Value, json};
use shedlock_core::ErrorKind;
use shedlock_core::fuzz::{is_refusal, is_refusal_of_url};

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};

/// URLs. Files are left out, which are read.
pub fn url(data: &[u8]) {
    let url = String::from_utf8_lossy(data);
    if let Err(error) = crate::url::Address::read(&url) {
        let error = error.of_url(&url);
        is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]);
    }
}

/// What an agent says of a key: JSON, or the value alone.
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
