//! Conversions between names and keys of a bucket.

use std::fmt::Write;

use shedlock_core::LockName;

/// The longest name, in bytes. As a key it is up to three times as long, and the subject that
/// contains the key must fit into one line of NATS's protocol.
pub(crate) const LONGEST: usize = 255;

/// The prefix of companion keys. No name produces it: in the key of a name, `=` is followed by
/// capital letters and digits.
const BESIDE: &str = "=s.";

/// Returns the key of a lock: its name, as ShedLock writes it, if NATS allows that.
///
/// Each byte that NATS does not allow, and each `=`, becomes `=` and two hexadecimal digits.
pub(crate) fn key(name: &LockName) -> String {
    let bytes = name.as_str().as_bytes();
    let mut key = String::with_capacity(bytes.len());
    for (i, byte) in bytes.iter().enumerate() {
        let is_end = i == 0 || i + 1 == bytes.len();
        let is_plain = match byte {
            // A dot separates tokens, and no token may be empty.
            b'.' => !is_end && bytes[i - 1] != b'.',
            b'-' | b'/' | b'_' => true,
            byte => byte.is_ascii_alphanumeric(),
        };
        if is_plain {
            key.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(key, "={byte:02X}");
        }
    }
    key
}

/// Returns the companion key, for the data that ShedLock's record has no room for.
pub(crate) fn key_beside(name: &LockName) -> String {
    format!("{BESIDE}{}", key(name))
}

/// Returns the name of a key; none for a key that no lock of ours can have.
pub(crate) fn name(of: &str) -> Option<LockName> {
    let mut bytes = Vec::with_capacity(of.len());
    let mut rest = of.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'=' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    let name = LockName::new(String::from_utf8(bytes).ok()?).ok()?;
    (key(&name) == of).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nats_allows_stay_as_shedlock_writes_them() {
        for plain in ["payroll", "com.example.Job", "a/b_c-D9"] {
            let lock = LockName::new(plain).unwrap();
            assert_eq!(key(&lock), plain);
            assert_eq!(name(plain), Some(lock));
        }
    }

    #[test]
    fn other_names_are_written_so_that_no_two_meet() {
        let pairs = [
            ("two words", "two=20words"),
            ("a=20b", "a=3D20b"),
            (".", "=2E"),
            ("..", "=2E=2E"),
            ("a..b.", "a.=2Eb=2E"),
            ("*.>", "=2A.=3E"),
            ("é", "=C3=A9"),
        ];
        for (text, written) in pairs {
            let lock = LockName::new(text).unwrap();
            assert_eq!(key(&lock), written);
            assert_eq!(name(written), Some(lock));
        }
    }

    #[test]
    fn keys_that_encode_no_name_have_none() {
        for foreign in ["=s.payroll", "a=b", "a=2", "a=61", "=e9"] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
    }
}
