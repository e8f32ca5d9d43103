//! MongoDB.

use super::Address;
use anyhow::{Context as _, bail};
use std::io::Read;

/// `{buildInfo: 1, $db: "admin"}` as one message.
pub(crate) fn question() -> Vec<u8> {
    let fields = [
        &b"\x10buildInfo\0\x01\0\0\0"[..],
        b"\x02$db\0\x06\0\0\0admin\0",
    ]
    .concat();
    let document = [&(fields.len() as u32 + 5).to_le_bytes()[..], &fields, &[0]].concat();
    // Flags, then a section of one document.
    let body = [&[0; 5][..], &document].concat();
    let head = [body.len() as u32 + 16, 1, 0, 2013].map(u32::to_le_bytes);
    [head.concat(), body].concat()
}

/// The version that it reports, even if it requires a password.
pub(crate) fn version(reply: &mut dyn Read, _: &Address<'_>) -> anyhow::Result<String> {
    read(reply)
}

fn read(reply: &mut dyn Read) -> anyhow::Result<String> {
    let mut head = [0; 16];
    reply.read_exact(&mut head).context("no answer")?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let mut body = Vec::new();
    reply
        .take(u64::from(length).saturating_sub(16))
        .read_to_end(&mut body)
        .context("its answer is incomplete")?;
    let text = |key: &[u8]| {
        let at = body.windows(key.len()).position(|window| window == key)?;
        // A length follows the key.
        let value = body.get(at + key.len() + 4..)?;
        let end = value.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&value[..end]).into_owned())
    };
    if let Some(version) = text(b"\x02version\0") {
        return Ok(version);
    }
    bail!("it says: {}", text(b"\x02errmsg\0").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mongodb_is_asked_for_its_version() {
        let question = question();
        assert_eq!(question.len(), usize::from(question[0]));
        let answer = |document: &[u8]| {
            let length = u32::try_from(document.len() + 16).unwrap().to_le_bytes();
            let said = [&length[..], &[0; 12], document].concat();
            read(&mut &said[..])
        };
        let version = answer(b"\0\0\0\0\0\x02version\0\x06\0\0\x008.0.4\0");
        assert_eq!(version.unwrap(), "8.0.4");
        let refused = answer(b"\x02errmsg\0\x0f\0\0\0not authorized\0").unwrap_err();
        assert!(refused.to_string().contains("not authorized"), "{refused}");
    }
}
