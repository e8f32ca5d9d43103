//! A lock that its holder could not release.

use std::time::Duration;

use shedlock::{Deadline, HeldLock};

use crate::clock;
use crate::output::{self, shell_word};
use crate::words;

/// Its lease goes on until its end, unless an operator frees it.
#[derive(Clone, Debug)]
pub(crate) struct Unreleased {
    pub(crate) name: String,
    /// Whose lease it is. The advice names it, so that following it late does not free the lease of a later owner.
    pub(crate) owner: String,
    /// When the lease ends, if that is known.
    pub(crate) until: Option<String>,
    /// When the lease ends, by the clock of this program.
    pub(crate) ends_at: Deadline,
}

impl Unreleased {
    /// The lock, while it is still held.
    pub(crate) fn of(held: &HeldLock) -> Self {
        Self {
            name: held.name().as_str().to_owned(),
            owner: held.owner().as_str().to_owned(),
            until: held.locked_until().and_then(output::instant),
            ends_at: clock::now().deadline(held.time_left()),
        }
    }

    /// Whether the lease ends before an operator could do anything.
    pub(crate) fn ends_soon(&self) -> bool {
        const SOON: Duration = Duration::from_secs(10);
        self.ends_at.left(clock::now()) < SOON
    }

    /// What becomes of the lock. The rest of a sentence that begins with it.
    pub(crate) fn fate(&self, is_over: bool) -> String {
        if !is_over {
            return format!("it {}", self.outlook());
        }
        let at = self.until.as_deref();
        let at = at.map_or_else(String::new, |until| format!(", at {until}"));
        format!("its lease has ended by itself{at}")
    }

    /// The same for a lock that another process goes on to release.
    pub(crate) fn goes_on(&self) -> String {
        let at = self.until.as_deref();
        let at = at.map_or_else(String::new, |until| format!(" at {until}"));
        format!(
            "this goes on in the background until the lease ends{at}; if it is stopped before, run `{}`",
            self.unlock()
        )
    }

    /// The command that frees it.
    fn unlock(&self) -> String {
        format!(
            "shedlock unlock {} --force --owner {}{}",
            shell_word(&self.name),
            shell_word(&self.owner),
            words::store_option(),
        )
    }

    /// Until when it is taken, and how to free it sooner if there is time for that.
    fn outlook(&self) -> String {
        if self.ends_soon() {
            return match &self.until {
                Some(until) => format!("becomes free by itself at {until}"),
                None => "becomes free by itself within seconds".to_owned(),
            };
        }
        format!(
            "stays taken until {}; to free it sooner, run `{}`",
            self.until
                .as_deref()
                .unwrap_or("--lock-at-most-for has passed"),
            self.unlock()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_owner_and_is_given_only_if_there_is_time_to_follow_it() {
        let lock = |left, until: Option<&str>| Unreleased {
            name: "a b".to_owned(),
            owner: "web/4711/1a".to_owned(),
            until: until.map(str::to_owned),
            ends_at: clock::now().deadline(Duration::from_secs(left)),
        };
        let at = Some("2027-01-15T08:00:00Z");
        assert_eq!(
            lock(60, at).outlook(),
            "stays taken until 2027-01-15T08:00:00Z; to free it sooner, run `shedlock unlock 'a b' \
             --force --owner web/4711/1a`"
        );
        let unknown = lock(60, None).outlook();
        let said = "stays taken until --lock-at-most-for has passed; to free it sooner, run `";
        assert!(unknown.starts_with(said), "{unknown}");
        let said = "becomes free by itself at 2027-01-15T08:00:00Z";
        assert_eq!(lock(9, at).outlook(), said);
        let said = "becomes free by itself within seconds";
        assert_eq!(lock(9, None).outlook(), said);
    }
}
