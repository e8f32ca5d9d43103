//! The record beside a lock's own key.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{Error, ErrorKind, Owner, Slot, SlotState};

/// What lasts when the lock's own key is gone: two lines of words, `-` for what is not known.
///
/// The first, `{token} {slot} {slot_done} {slot_attempts}`, is of all acquisitions, and may have more
/// words some day; the second, `{at} {until} {owner}`, is of the last one. An unlock adds
/// ` unlocked {until}` to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Of the last acquisition of ours, with the mark of its unlock.
    pub(crate) owner: String,
    pub(crate) at: Option<SystemTime>,
    pub(crate) until: Option<SystemTime>,
    pub(crate) token: Option<u64>,
    pub(crate) slots: SlotState,
}

impl Kept {
    /// Reads a record; nothing where there is none.
    ///
    /// # Errors
    /// `Conflict` for what we do not write.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let (lasting, last) = text.split_once('\n').ok_or_else(foreign)?;
        let mut words = lasting.split(' ');
        let token = number(words.next())?;
        let slots = SlotState::new(
            slot(words.next())?,
            slot(words.next())?,
            number(words.next())?,
        );
        let mut words = last.split(' ');
        let at = number(words.next())?;
        let mut until = number(words.next())?;
        let owner = words.next().ok_or_else(foreign)?;
        // What is left is the mark.
        let is_running = words.next().is_none();
        if let Some(ended) = words.next_back() {
            until = number(Some(ended))?;
        }
        Ok(Self {
            owner: if is_running {
                owner.to_owned()
            } else {
                Owner::released_text(owner)
            },
            at: at.map(instant),
            until: until.map(instant),
            token,
            slots,
        })
    }
}

/// An instant in microseconds.
pub(crate) fn instant(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}

/// A whole number; none where there is `-`.
fn number<T: FromStr>(word: Option<&str>) -> Result<Option<T>, Error> {
    match word {
        None => Err(foreign()),
        Some("-") => Ok(None),
        Some(digits) => digits.parse().map(Some).map_err(|_| foreign()),
    }
}

fn slot(word: Option<&str>) -> Result<Option<Slot>, Error> {
    let slot = number(word)?.map(Slot::from_micros).transpose();
    slot.map_err(|error| foreign().with_source(error))
}

pub(crate) fn foreign() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the record of fencing token and slots beside the lock (its key begins with \
         \"shedlock-rs:\") holds what shedlock does not write there: look at it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_while_its_lease_runs_and_when_it_was_ended() {
        let running = "7 10 - 2\n1000 2000 web-3/1/ab";
        let kept = Kept::parse(running).unwrap();
        assert_eq!(kept.owner, "web-3/1/ab");
        assert_eq!((kept.token, kept.slots.attempts), (Some(7), Some(2)));
        assert_eq!(
            (kept.slots.last, kept.slots.done),
            (Slot::from_micros(10).ok(), None)
        );
        assert_eq!(
            (kept.at, kept.until),
            (Some(instant(1000)), Some(instant(2000)))
        );
        let ended = Kept::parse(&format!("{running} unlocked 1500")).unwrap();
        assert_eq!(ended.owner, "web-3/1/ab unlocked");
        assert_eq!(ended.until, Some(instant(1500)));
        let freed = Kept::parse(&format!("{running} unlocked")).unwrap();
        assert_eq!(freed.owner, "web-3/1/ab unlocked");
        assert_eq!(freed.until, Some(instant(2000)));
    }

    #[test]
    fn what_a_later_release_may_keep_is_passed_over() {
        let kept = Kept::parse("7 - - - more words\n- - web-3/1/ab").unwrap();
        assert_eq!((kept.token, kept.at, kept.until), (Some(7), None, None));
    }

    #[test]
    fn what_we_do_not_write_is_told_apart_from_nothing() {
        assert_eq!(Kept::parse("").unwrap(), Kept::default());
        for text in [
            "7",
            "7 - - -",
            "7 - - -\n",
            "many - - -\n1 2 a/b/c",
            "7 - -\n1 2 a/b/c",
            "7 - - -\n1 2",
            "7 - - -\n1 2 a/b/c unlocked then",
        ] {
            let error = Kept::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}");
        }
    }
}
