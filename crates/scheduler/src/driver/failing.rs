//! The jobs whose attempts fail at the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use shedlock_core::{Error, ErrorKind};

/// What was logged for each job since the store last answered it. Idle and healthy jobs take no room.
#[derive(Default)]
pub(crate) struct Failing(Mutex<HashMap<String, Vec<String>>>);

/// How many failures of one job are logged until the store answers again, if each has another text.
const MOST: usize = 10;

impl Failing {
    /// Records that an attempt of this job failed. Returns true if it is news: no attempt since the
    /// store last answered has failed like this.
    pub(super) fn is_news(&self, job: &str, error: &Error) -> bool {
        let failure = match error.kind() {
            // Its text has the times of both clocks.
            ErrorKind::SlotAhead => ErrorKind::SlotAhead.to_string(),
            _ => format!("{:#}", error.reason()),
        };
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = failing.entry(job.to_owned()).or_default();
        let is_news = known.len() < MOST && !known.contains(&failure);
        if is_news {
            known.push(failure);
        }
        is_news
    }

    /// Records that the store has answered an attempt of this job.
    pub(super) fn forget(&self, job: &str) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.remove(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(what: String) -> Error {
        Error::new(ErrorKind::Unavailable, what)
    }

    #[test]
    fn a_failure_is_news_until_it_is_known_and_after_the_store_has_answered() {
        let failing = Failing::default();
        let is_news = |job, what: &str| failing.is_news(job, &refused(what.to_owned()));
        assert!(is_news("a", "no route") && is_news("b", "no route"));
        assert!(is_news("a", "the disk is full"));
        assert!(!is_news("a", "no route") && !is_news("a", "the disk is full"));
        failing.forget("a");
        assert!(is_news("a", "no route") && !is_news("b", "no route"));
    }

    #[test]
    fn errors_that_are_never_the_same_twice_do_not_fill_the_log() {
        let failing = Failing::default();
        let ahead = |at| Error::new(ErrorKind::SlotAhead, format!("this clock shows {at}"));
        let slots = (0..100).filter(|at| failing.is_news("a", &ahead(*at)));
        assert_eq!(slots.count(), 1);
        let port = |at| refused(format!("no route from port {at}"));
        let others = (0..100).filter(|at| failing.is_news("a", &port(*at)));
        assert_eq!(others.count(), MOST - 1);
    }
}
