//! PostgreSQL, or a proxy in front of one.

use super::Address;
use anyhow::{Context as _, bail};
use std::io::Read;

/// The first message, without a password.
pub(crate) fn hello(at: &Address<'_>) -> Vec<u8> {
    let user = at.url.username();
    let database = Some(at.url.path().trim_start_matches('/')).filter(|name| !name.is_empty());
    let mut hello = Vec::from(196_608_u32.to_be_bytes());
    for word in ["user", user, "database", database.unwrap_or(user), ""] {
        hello.extend_from_slice(word.as_bytes());
        hello.push(0);
    }
    let length = u32::try_from(hello.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &hello].concat()
}

/// Its version. Fails if one of ours does not accept the user without a password.
pub(crate) fn version(reply: &mut dyn Read, at: &Address<'_>) -> anyhow::Result<String> {
    match read(reply) {
        // Our probe has no passwords; the tests do.
        Err(error) if !at.is_ours && error.to_string().contains("password") => {
            Ok("version not reported without a password".to_owned())
        }
        read => read,
    }
}

fn read(reply: &mut dyn Read) -> anyhow::Result<String> {
    let mut version = None;
    loop {
        let mut head = [0; 5];
        reply.read_exact(&mut head).context("no answer")?;
        let [kind, length @ ..] = head;
        let body = (i32::from_be_bytes(length) - 4)
            .try_into()
            .context("a malformed answer")?;
        let mut bytes = Vec::new();
        reply
            .take(body)
            .read_to_end(&mut bytes)
            .context("its answer is incomplete")?;
        match kind {
            b'R' if bytes != [0; 4] => bail!("it asks for a password"),
            b'S' => {
                let mut words = bytes.split(|byte| *byte == 0);
                if words.next() == Some(b"server_version") {
                    let word = words.next();
                    version = word.map(|word| String::from_utf8_lossy(word).into_owned());
                }
            }
            b'E' => bail!("it says: {}", message(&bytes)),
            b'Z' => return version.context("it does not report its version"),
            _ => {}
        }
    }
}

/// The message among the fields of an error. A letter precedes each field.
fn message(fields: &[u8]) -> String {
    let mut fields = fields.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(message.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn postgres_is_ready_only_when_it_says_so() {
        let trusted = message(b'R', &[0; 4]);
        let version = message(b'S', b"server_version\x0015.3 (Debian 15.3-0)\0");
        let other = message(b'S', b"TimeZone\0UTC\0");
        let ready = message(b'Z', b"I");
        let said = [&trusted[..], &other, &version, &ready].concat();
        assert_eq!(read(&mut &said[..]).unwrap(), "15.3 (Debian 15.3-0)");
        let cut = [&trusted[..], &version].concat();
        assert!(read(&mut &cut[..]).is_err());
    }

    #[test]
    fn postgres_refusals_are_reported() {
        let starting = message(
            b'E',
            b"SFATAL\0C57P03\0Mthe database system is starting up\0\0",
        );
        let said = read(&mut &starting[..]).unwrap_err().to_string();
        assert!(
            said.contains("the database system is starting up"),
            "{said}"
        );
        let asks = message(b'R', &10_i32.to_be_bytes());
        let said = read(&mut &asks[..]).unwrap_err().to_string();
        assert!(said.contains("password"), "{said}");
    }
}
