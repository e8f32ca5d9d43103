//! The cron schedules of a journal's jobs, each parsed once.
//!
//! A page or a scrape computes several slots of each job. Parsing its schedule takes longer than all of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::Schedule;

/// The most schedules that are kept, so that a journal cannot fill the memory.
const MOST: usize = 4_096;

static PARSED: LazyLock<Mutex<Parsed>> = LazyLock::new(|| Mutex::new(Parsed::default()));

/// Schedules by their text and zone; `None` for those that cannot be parsed.
#[derive(Default)]
struct Parsed(HashMap<String, Option<Arc<Schedule>>>);

/// The schedule of this cron expression in this zone, if it is one.
pub(super) fn cron(expression: &str, zone: &str) -> Option<Arc<Schedule>> {
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    parsed.get(expression, zone)
}

impl Parsed {
    fn get(&mut self, expression: &str, zone: &str) -> Option<Arc<Schedule>> {
        let key = format!("{zone}\0{expression}");
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let schedule = Schedule::cron_in(expression, zone).ok().map(Arc::new);
        if self.0.len() >= MOST {
            // A fleet with more schedules is rare. Those in use are back after one page.
            self.0.clear();
        }
        self.0.insert(key, schedule.clone());
        schedule
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_parsed_once_for_each_zone() {
        let mut parsed = Parsed::default();
        let mut get = |expression, zone| parsed.get(expression, zone);
        let first = get("30 2 * * *", "UTC").unwrap();
        assert!(Arc::ptr_eq(&first, &get("30 2 * * *", "UTC").unwrap()));
        let other = get("30 2 * * *", "Europe/Berlin").unwrap();
        assert!(other != first);
        assert!(get("x", "UTC").is_none());
        assert!(get("x", "UTC").is_none());
        assert_eq!(parsed.0.len(), 3);
    }

    #[test]
    fn no_more_than_a_number_of_schedules_are_kept() {
        let mut parsed = Parsed::default();
        for at in 0..=MOST {
            assert!(parsed.get(&format!("no cron {at}"), "UTC").is_none());
        }
        assert_eq!(parsed.0.len(), 1);
        assert!(parsed.get("30 2 * * *", "UTC").is_some());
    }
}
