//! The owner of a lease.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use crate::clock::random_u64;
use crate::contract::{Error, ErrorKind, Pause};

/// The owner of **one acquisition**: `[prefix:]host/process/random`, for instance
/// `web-3/4711/5f0c9b1d7e3a4c28`.
///
/// The owner is generated before any I/O, so that an attempt whose reply was lost can be repeated
/// and recognized. Two acquisitions never share an owner, not even within one process. A late
/// holder can therefore neither free nor extend a lock that another owner holds now (law 3).
/// ShedLock writes the bare host name instead; the two slashes distinguish the two forms.
///
/// An owner is at most [`MAX_LEN`](Self::MAX_LEN) bytes of visible ASCII. In a `VARCHAR(255)` this
/// leaves room for the mark that an unlock adds ([`released`](Self::released)).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

/// The suffix of the owner in a record whose lease was ended by its owner.
const RELEASED: &str = " unlocked";

/// The suffix of the owner in a record whose lease was ended by force. Another one than
/// [`RELEASED`]: the owner must not take it for its own unlock, which would have written more.
const FREED: &str = " freed";

impl Owner {
    /// The maximum length of an owner in bytes.
    pub const MAX_LEN: usize = 200;

    /// Generates a new owner, different from every other one.
    pub fn generate() -> Self {
        Self::drawn(None, random_u64()).expect("there is no prefix that could be wrong")
    }

    /// Generates a new owner that starts with `prefix:` (a team, a service), so that it is easier
    /// to find.
    ///
    /// # Errors
    /// `InvalidInput` if the prefix is longer than 64 bytes or contains blanks, slashes or anything
    /// but visible ASCII.
    pub fn generate_with_prefix(prefix: &str) -> Result<Self, Error> {
        Self::drawn(Some(prefix), random_u64())
    }

    /// Creates a new owner with a given random part.
    pub(crate) fn drawn(prefix: Option<&str>, chance: u64) -> Result<Self, Error> {
        let Some(prefix) = prefix else {
            return Ok(Self::of_host(format_args!(""), chance));
        };
        check_prefix(prefix)?;
        Ok(Self::of_host(format_args!("{prefix}:"), chance))
    }

    /// Appends host, process and random part to the prefix. Assembled on the stack, since every
    /// attempt creates an owner.
    pub(crate) fn of_host(prefix: fmt::Arguments<'_>, chance: u64) -> Self {
        let mut text = [0; Self::MAX_LEN];
        let mut rest = &mut text[..];
        // Neither number is cached. A process that forks must not share its parent's identity, and
        // a machine that is cloned while it runs must not reuse the random part of the other.
        // Together with host and process, 64 random bits are more than enough.
        let process = std::process::id();
        write!(rest, "{prefix}{}/{process}/{chance:016x}", host())
            .expect("the longest prefix and host leave room for the numbers");
        let left = rest.len();
        let text = std::str::from_utf8(&text[..Self::MAX_LEN - left])
            .expect("prefix and host are visible ASCII");
        Self(text.into())
    }

    /// Parses an owner from stored text. For tests, and to resume a lease of another process.
    ///
    /// # Errors
    /// `InvalidInput` unless the text has the form of an owner: visible ASCII, two slashes, not too
    /// long.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let looks_right = text.len() <= Self::MAX_LEN
            && text.bytes().all(|b| b.is_ascii_graphic())
            && is_ours(text);
        if !looks_right {
            return Err(
                Error::new(ErrorKind::InvalidInput, format!("{text:?} is not an owner"))
                    .advise("take one as it was stored: host/process/random in visible ASCII"),
            );
        }
        Ok(Self(text.into()))
    }

    /// The host in the text of an owner of ours.
    #[doc(hidden)]
    pub fn host_of(text: &str) -> Option<&str> {
        let (host, _) = text.split_once('/')?;
        Some(host.split_once(':').map_or(host, |(_, host)| host))
    }

    /// Returns the text that a store keeps while the lease runs.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text that a store keeps after this owner has unlocked. It no longer names a
    /// current holder, but still shows who held the lock last.
    pub fn released(&self) -> String {
        Self::released_text(&self.0)
    }

    /// Does the same as [`released`](Self::released) for an owner that is known only as stored
    /// text: ShedLock's, or a pause, of which only the part before the reason is kept.
    pub fn released_text(stored: &str) -> String {
        Self::marked(stored, RELEASED)
    }

    /// Returns the text that a store keeps after an operator has freed this owner's lock by force.
    pub fn freed(&self) -> String {
        Self::freed_text(&self.0)
    }

    /// Does the same as [`freed`](Self::freed) for an owner that is known only as stored text.
    pub fn freed_text(stored: &str) -> String {
        Self::marked(stored, FREED)
    }

    /// Returns whether a store keeps this owner with a mark, whichever it is: its lease has ended.
    pub fn has_ended_in(&self, stored: &str) -> bool {
        let mark = stored.strip_prefix(&*self.0);
        mark.is_some_and(|mark| mark == RELEASED || mark == FREED)
    }

    fn marked(stored: &str, mark: &str) -> String {
        let id = Pause::parse(stored).map_or(stored, |pause| pause.id());
        format!("{id}{mark}")
    }

    /// Returns true for a text with a mark: one that [`released`](Self::released) or
    /// [`freed`](Self::freed) made. A [`Pause`] has none, whatever its reason ends in.
    pub fn is_released(text: &str) -> bool {
        Self::without_mark(text).len() < text.len()
    }

    /// Returns true for a text that [`freed`](Self::freed) made.
    pub(crate) fn is_freed(text: &str) -> bool {
        Self::is_released(text) && text.ends_with(FREED)
    }

    /// Returns a stored owner text without its mark, if it has one.
    pub fn without_mark(text: &str) -> &str {
        if Pause::parse(text).is_some() {
            return text;
        }
        let marks = [RELEASED, FREED].into_iter();
        let without = marks.filter_map(|mark| text.strip_suffix(mark)).next();
        without.unwrap_or(text)
    }

    /// Returns true for a stored text that an acquisition of ours wrote, and false for ShedLock's.
    ///
    /// The rule is fixed, so that stores can evaluate it: the text contains two or more slashes.
    pub fn is_ours(text: &str) -> bool {
        is_ours(text)
    }
}

fn is_ours(text: &str) -> bool {
    text.bytes().filter(|b| *b == b'/').count() >= 2
}

pub(crate) fn check_prefix(prefix: &str) -> Result<(), Error> {
    let fits = !prefix.is_empty()
        && prefix.len() <= 64
        && prefix.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    if fits {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        format!("owner prefix {prefix:?} must be 1 to 64 visible ASCII characters without '/'"),
    ))
}

/// Returns the name of this host, truncated to fit and without characters that are not allowed.
pub fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let host: String = gethostname::gethostname()
            .to_string_lossy()
            .chars()
            .filter(|c| c.is_ascii_graphic() && *c != '/')
            .take(80)
            .collect();
        if host.is_empty() {
            "unknown".to_owned()
        } else {
            host
        }
    })
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl AsRef<str> for Owner {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_differ_and_can_be_read() {
        let (a, b) = (Owner::generate(), Owner::generate());
        assert_ne!(a, b);
        assert_eq!(Owner::parse(a.as_str()).unwrap(), a);
        assert!(a.as_str().contains(&format!("/{}/", std::process::id())));
        assert!(Owner::is_ours(&a.released()));
        assert!(Owner::is_released(&a.released()));
        assert!(Owner::is_released(&a.freed()));
        assert_ne!(a.released(), a.freed());
        assert!(!Owner::is_released(a.as_str()));
    }

    #[test]
    fn the_longest_owner_leaves_room_for_the_mark() {
        let longest = "x".repeat(Owner::MAX_LEN);
        assert!(longest.len() + RELEASED.len() <= 255);
        let prefixed = Owner::generate_with_prefix(&"p".repeat(64)).unwrap();
        assert!(prefixed.as_str().len() <= Owner::MAX_LEN);
    }

    #[test]
    fn prefixes_and_texts_that_would_confuse_are_refused() {
        for bad in ["", "a b", "a/b", "é", &"p".repeat(65)] {
            let error = Owner::generate_with_prefix(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
        for bad in ["web-3", "web-3/1", "web 3/1/ab", "web-3/1/ab unlocked"] {
            assert!(Owner::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn shedlocks_owner_is_not_ours() {
        assert!(!Owner::is_ours("web-3.example.org"));
        assert!(!Owner::is_ours("unknown"));
    }
}
