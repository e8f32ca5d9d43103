//! NATS.

use super::{Address, after_key, line};
use anyhow::bail;
use std::io::Read;

/// Its version. It sends its greeting first, and must have JetStream.
pub(crate) fn version(reply: &mut dyn Read, _: &Address<'_>) -> anyhow::Result<String> {
    read(reply)
}

fn read(reply: &mut dyn Read) -> anyhow::Result<String> {
    let line = line(reply, b"\n")?;
    let Some(info) = line.strip_prefix("INFO ") else {
        bail!("it says: {}", line.trim());
    };
    if !info.contains("\"jetstream\":true") {
        bail!("JetStream is not enabled there");
    }
    after_key(info, "version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nats_must_have_jetstream() {
        let with = b"INFO {\"version\":\"2.9.10\",\"jetstream\":true} \r\n";
        assert_eq!(read(&mut &with[..]).unwrap(), "2.9.10");
        let without = b"INFO {\"version\":\"2.9.10\"} \r\n";
        let said = read(&mut &without[..]).unwrap_err().to_string();
        assert!(said.contains("JetStream"), "{said}");
    }
}
