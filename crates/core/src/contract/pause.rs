//! Pausing a lock: a lease held by an operator, which every replica obeys, ShedLock's included.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::clock::random_u64;
use crate::contract::{Error, ErrorKind, LockName, LockRecord, Owner, Slot};
use shedlock_support::text::{self, second};

/// What follows the operator's id. It is part of the wire format.
const MARK: &str = " paused";

/// What stands before the end that the pause keeps, in microseconds since 1970 (UTC).
const KEPT: &str = " kept=";

/// What separates all this from the reason.
const SEPARATOR: char = ':';

/// The length to which the whole mark is cut: ShedLock's tables have a `VARCHAR(255)`.
const LONGEST_MARK: usize = 255;

/// The length to which the operator's name is cut.
const LONGEST_USER: usize = 40;

/// Who has paused a lock, and why, as the owner in its record shows it:
/// `alice@web-3/4711/5f0c9b1d7e3a4c28 paused: the mail server is down`.
///
/// If the pause has replaced `lock_at_least_for` or a backoff that still ran, its end stands before
/// the reason: `… paused kept=1764100000000000: the mail server is down`. No reason can be read as
/// any of this, and none can hide it: the reason is the last part, and the only one that is cut.
///
/// ```
/// use shedlock::Pause;
///
/// let owner = "alice@web-3/4711/5f0c9b1d7e3a4c28 paused: the mail server is down";
/// let pause = Pause::parse(owner).unwrap();
/// assert_eq!((pause.by(), pause.reason()), ("alice@web-3", "the mail server is down"));
/// assert!(Pause::parse("web-3/4711/5f0c9b1d7e3a4c28").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause<'a> {
    id: &'a str,
    kept_micros: Option<i64>,
    reason: &'a str,
}

impl<'a> Pause<'a> {
    /// Parses the owner of a record. Returns `None` for an owner that is not a pause.
    pub fn parse(owner: &'a str) -> Option<Self> {
        let (id, _) = owner.split_once(' ')?;
        let rest = owner[id.len()..].strip_prefix(MARK)?;
        let (kept, reason) = rest.split_once(SEPARATOR)?;
        let kept_micros = match kept {
            "" => None,
            kept => Some(micros(kept.strip_prefix(KEPT)?)?),
        };
        let is_id = Owner::is_ours(id) && id.contains('@');
        let reason = reason.trim_start();
        is_id.then_some(Self {
            id,
            kept_micros,
            reason,
        })
    }

    /// Returns who has paused the lock: `user@host`, as that user claimed.
    pub fn by(&self) -> &'a str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// Returns the part of the mark that is unique to this pause: `user@host/process/random`.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// Returns the end of the `lock_at_least_for` or of the backoff that the pause has replaced. The
    /// pause never ends before it, and the lock stays taken until then if it is resumed earlier.
    pub fn kept_until(&self) -> Option<SystemTime> {
        Slot::from_micros(self.kept_micros?).ok().map(Slot::instant)
    }

    /// Returns the reason; empty if none was given.
    pub fn reason(&self) -> &'a str {
        self.reason
    }
}

/// Parses a number of microseconds in the one form in which it is written.
fn micros(text: &str) -> Option<i64> {
    let micros: i64 = text.parse().ok()?;
    (micros.to_string() == text && Slot::from_micros(micros).is_ok()).then_some(micros)
}

/// `by alice@web-3 (the mail server is down)`.
impl fmt::Display for Pause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {}", text::visible(self.by()))?;
        if !self.reason.is_empty() {
            write!(f, " ({})", text::visible(self.reason))?;
        }
        Ok(())
    }
}

/// When a pause ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseEnd {
    /// At the end of the longest lease that the store can hold.
    Longest,
    After(Duration),
    At(SystemTime),
}

/// Pauses a lock: until it is resumed, or until the pause ends, no one can take it. For operators.
///
/// The pause is a lease whose owner names the operator and the reason, so replicas need nothing to
/// obey it, ShedLock's included. Slots that fall due during the pause count as taken, also after it
/// has ended; [`ResumeRequest::catching_up`] makes them available again. Slots that were due before
/// it stay available. A second pause that begins before a slot after the first one was taken also
/// skips the slots between the two.
///
/// A running task is left alone unless the request [replaces its lease](Self::replacing_holder). A
/// lock that `lock_at_least_for` keeps, or whose slot waits for its backoff, is paused at once, and
/// stays taken until that end even if it is resumed earlier. A lock that is paused already gets the
/// new pause, whose slots are those since the beginning of the old one.
#[derive(Clone, Debug)]
#[must_use]
pub struct PauseRequest {
    /// The name of the lock.
    pub name: LockName,
    id: String,
    reason: String,
    end: PauseEnd,
    /// Whether a running task loses its lease.
    pub replaces_holder: bool,
}

impl PauseRequest {
    /// Pauses this lock until it is resumed, or for the longest time that the store can hold.
    ///
    /// `user` is shown to everyone who meets the pause. Characters that an owner cannot have are
    /// left out, and it is cut to 40.
    pub fn new(name: LockName, user: &str) -> Self {
        let fits = |char: &char| char.is_ascii_graphic() && !matches!(char, '/' | '@');
        let user: String = user.chars().filter(fits).take(LONGEST_USER).collect();
        let user = if user.is_empty() { "unknown" } else { &user };
        let id = Owner::of_host(format_args!("{user}@"), random_u64());
        Self {
            name,
            id: id.as_str().to_owned(),
            reason: String::new(),
            end: PauseEnd::Longest,
            replaces_holder: false,
        }
    }

    /// Adds the reason. It is kept as printable ASCII, and cut so that the owner has at most 255
    /// characters: room for 70 or more.
    pub fn with_reason(mut self, reason: &str) -> Self {
        let words: Vec<&str> = reason.split_whitespace().collect();
        let ascii = words
            .join(" ")
            .replace(|char: char| !matches!(char, ' '..='~'), "?");
        self.reason = ascii;
        self
    }

    /// Ends the pause this long after the store has granted it.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.end = PauseEnd::After(duration);
        self
    }

    /// Ends the pause at this instant of the store's clock.
    pub fn until(mut self, instant: SystemTime) -> Self {
        self.end = PauseEnd::At(instant);
        self
    }

    /// Takes the lock from a running task too. The task detects the loss at its next extension or
    /// when it unlocks; until then it may go on. Fencing tokens reject its late writes.
    ///
    /// On MongoDB, ZooKeeper and Redis without `safeUpdate`, ShedLock unlocks without checking the
    /// owner, so a task of ShedLock that ends later ends this pause.
    pub fn replacing_holder(mut self) -> Self {
        self.replaces_holder = true;
        self
    }

    /// Returns the owner text of the pause, if it replaces no end that it must keep.
    pub fn owner(&self) -> String {
        self.owner_keeping(None)
    }

    /// Returns the owner text of the pause, with the end that it keeps
    /// ([`Pause::kept_until`]).
    pub(crate) fn owner_keeping(&self, end: Option<SystemTime>) -> String {
        // Never earlier: a slot has whole microseconds.
        let up = |end: SystemTime| end.checked_add(Duration::from_nanos(999));
        let kept = end.and_then(up).and_then(|end| Slot::at(end).ok());
        let kept = kept.map_or_else(String::new, |end| format!("{KEPT}{}", end.as_micros()));
        let mut owner = format!("{}{MARK}{kept}{SEPARATOR} {}", self.id, self.reason);
        owner.truncate(LONGEST_MARK);
        // Some stores trim owners.
        owner.truncate(owner.trim_end().len());
        owner
    }

    /// Returns whether this is the pause of this very request.
    pub fn is_pause(&self, pause: &Pause<'_>) -> bool {
        pause.id == self.id
    }

    /// Returns the length of the pause if the store's clock shows `now` and `longest` is its longest
    /// lease.
    ///
    /// # Errors
    /// `InvalidInput` for a pause that would end before it begins, or later than the store can hold.
    pub fn duration(&self, now: SystemTime, longest: Duration) -> Result<Duration, Error> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidInput, what);
        let duration = match self.end {
            PauseEnd::Longest => return Ok(longest),
            PauseEnd::After(duration) => duration,
            PauseEnd::At(instant) => instant.duration_since(now).unwrap_or_default(),
        };
        match self.end {
            PauseEnd::At(instant) if duration.is_zero() => Err(wrong(format!(
                "the pause would end at {}, which is in the past by the store's clock ({})",
                text::instant(instant),
                second(now)
            ))
            .advise("choose a later time")),
            _ if duration.is_zero() => Err(wrong("a pause must be longer than zero".to_owned())),
            _ if duration > longest => Err(wrong(format!(
                "this store cannot pause a lock for longer than {}",
                text::duration(longest)
            ))
            .advise("choose an earlier end, or none")),
            _ => Ok(duration),
        }
    }
}

/// Ends the pause of a lock. For operators.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct ResumeRequest {
    /// The name of the lock.
    pub name: LockName,
    /// Whether slots of the pause become available.
    pub catches_up: bool,
}

impl ResumeRequest {
    /// Ends the pause of this lock, whoever has paused it. Slots that fell due during the pause
    /// stay taken, also if something else has ended it.
    pub fn new(name: LockName) -> Self {
        Self {
            name,
            catches_up: false,
        }
    }

    /// Makes the slots that the pause has skipped available again, also if it has ended.
    pub fn catching_up(mut self) -> Self {
        self.catches_up = true;
        self
    }
}

/// The result of a pause.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Paused {
    /// The lock is paused.
    #[non_exhaustive]
    Done {
        /// The record from before; none if the lock had no record.
        before: Option<LockRecord>,
        /// When the pause ends by itself.
        until: SystemTime,
    },
    /// A task holds the lock. Nothing was changed.
    Held(LockRecord),
}

/// The result of a resumption.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Resumed {
    /// The pause has ended, or had ended and left slots over that are free now. This is the record
    /// from before.
    Resumed(LockRecord),
    /// The lock is not paused, and no slots are left over that the request could free; this is its
    /// record, if it has one. Nothing was changed.
    NotPaused(Option<LockRecord>),
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn request(user: &str, reason: &str) -> PauseRequest {
        PauseRequest::new(LockName::new("job").unwrap(), user).with_reason(reason)
    }

    #[test]
    fn a_pause_is_read_back_as_it_was_written() {
        let request = request("alice", "the mail server is down");
        let owner = request.owner();
        let pause = Pause::parse(&owner).unwrap();
        assert!(pause.by().starts_with("alice@"), "{owner}");
        assert_eq!(pause.reason(), "the mail server is down");
        assert!(request.is_pause(&pause));
        assert!(Owner::is_ours(&owner), "not taken for ShedLock's");
        assert!(!Owner::is_released(&owner));
    }

    #[test]
    fn untrusted_words_cannot_break_the_mark() {
        let request = request(
            "a/b @c\u{202e}",
            &format!("a\nb \u{e9} unlocked {}", "x".repeat(300)),
        );
        let owner = request.owner();
        assert_eq!(owner.len(), LONGEST_MARK);
        assert!(
            owner.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{owner}"
        );
        let pause = Pause::parse(&owner).unwrap();
        assert!(pause.by().starts_with("abc@"), "{owner}");
        assert!(pause.reason().starts_with("a b ? unlocked x"), "{owner}");
        let empty = PauseRequest::new(LockName::new("job").unwrap(), "");
        let owner = empty.owner();
        assert!(owner.starts_with("unknown@"), "{owner}");
        assert!(owner.ends_with(" paused:"), "{owner}");
        assert_eq!(Pause::parse(&owner).unwrap().reason(), "");
    }

    #[test]
    fn the_end_that_a_pause_keeps_stands_before_the_reason() {
        let end = UNIX_EPOCH + Duration::from_micros(1_764_100_000_000_000);
        let request = request("alice", &"kept=7: x".repeat(40));
        let owner = request.owner_keeping(Some(end));
        assert_eq!(owner.len(), LONGEST_MARK);
        let mark = " paused kept=1764100000000000: kept=7: x";
        assert!(owner.contains(mark), "{owner}");
        let pause = Pause::parse(&owner).unwrap();
        assert_eq!(pause.kept_until(), Some(end));
        assert!(pause.reason().starts_with("kept=7: x"));
        let none = request.owner();
        assert_eq!(Pause::parse(&none).unwrap().kept_until(), None);
    }

    #[test]
    fn owners_that_are_no_pause_are_not_taken_for_one() {
        for owner in [
            "web-3",
            "web-3/1/ff",
            "web-3 paused: x",
            "a/b/c paused: x",
            "x paused: a@b/c/d",
            "a@b/c/d paused",
            "a@b/c/d paused kept=1",
            "a@b/c/d paused kept=01: x",
            "a@b/c/d paused kept=-1: x",
            "a@b/c/d paused soon: x",
            "a@b/c/d unlocked paused: x",
        ] {
            assert_eq!(Pause::parse(owner), None, "{owner}");
        }
    }

    #[test]
    fn a_pause_ends_after_it_begins_and_within_the_longest_lease() {
        let (now, hour) = (
            UNIX_EPOCH + Duration::from_secs(1_000_000),
            Duration::from_secs(3600),
        );
        let of = |request: PauseRequest| request.duration(now, hour);
        assert_eq!(of(request("a", "")).unwrap(), hour);
        assert_eq!(
            of(request("a", "").until(now + hour / 2)).unwrap(),
            hour / 2
        );
        for wrong in [
            request("a", "").lasting(Duration::ZERO),
            request("a", "").lasting(hour * 2),
            request("a", "").until(now),
        ] {
            assert_eq!(of(wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
