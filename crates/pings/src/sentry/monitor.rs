//! Monitors: what Sentry expects of a job.

use std::time::Duration;

use serde_json::{Value, json};
use shedlock_core::Error;

use crate::{invalid, slug};

/// A monitor of Sentry: its slug, and the schedule with which a check-in creates or updates it.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Monitor {
    slug: Option<String>,
    schedule: Option<Schedule>,
    zone: Option<String>,
    checkin_margin: Option<Duration>,
    max_runtime: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Schedule {
    Crontab(String),
    Every(Duration),
}

/// The longest slug of a monitor.
const LONGEST_SLUG: usize = 50;

const MINUTE: u64 = 60;

impl Monitor {
    /// Creates a monitor with the slug of its job's name, and without a schedule: it has to exist in
    /// Sentry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the slug.
    pub fn slug(mut self, slug: impl Into<String>) -> Self {
        self.slug = Some(slug.into());
        self
    }

    /// Sets the schedule as a cron expression with five fields, or with six if the first, the
    /// seconds, is one number: Sentry's schedules have no seconds.
    pub fn crontab(mut self, expression: impl Into<String>) -> Self {
        self.schedule = Some(Schedule::Crontab(expression.into()));
        self
    }

    /// Sets the schedule as a period of whole minutes.
    pub fn every(mut self, period: Duration) -> Self {
        self.schedule = Some(Schedule::Every(period));
        self
    }

    /// Sets the time zone of the cron expression, like `Europe/Berlin`. Sentry's default is UTC.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets how late a run may start before Sentry reports it as missed, rounded up to minutes.
    pub fn checkin_margin(mut self, margin: Duration) -> Self {
        self.checkin_margin = Some(margin);
        self
    }

    /// Sets how long a run may take before Sentry reports it as timed out, rounded up to minutes.
    pub fn max_runtime(mut self, longest: Duration) -> Self {
        self.max_runtime = Some(longest);
        self
    }

    pub(super) fn slug_of(&self, job: &str) -> String {
        let own = self.slug.clone();
        own.unwrap_or_else(|| slug(job, LONGEST_SLUG))
    }

    /// Returns the configuration that a check-in carries, if there is a schedule.
    pub(super) fn config(&self) -> Result<Option<Value>, Error> {
        let Some(schedule) = &self.schedule else {
            return Ok(None);
        };
        let schedule = match schedule {
            Schedule::Crontab(expression) => {
                json!({ "type": "crontab", "value": without_seconds(expression)? })
            }
            Schedule::Every(period) => interval(*period)?,
        };
        let mut config = json!({ "schedule": schedule });
        if let Some(zone) = &self.zone {
            config["timezone"] = Value::from(zone.as_str());
        }
        if let Some(margin) = self.checkin_margin {
            config["checkin_margin"] = Value::from(minutes(margin));
        }
        if let Some(longest) = self.max_runtime {
            config["max_runtime"] = Value::from(minutes(longest));
        }
        Ok(Some(config))
    }
}

/// Rounds up, to at least one minute.
fn minutes(duration: Duration) -> u64 {
    let is_fraction = duration.subsec_nanos() > 0;
    let seconds = duration.as_secs() + u64::from(is_fraction);
    seconds.div_ceil(MINUTE).max(1)
}

fn without_seconds(expression: &str) -> Result<String, Error> {
    let known = match expression.trim().to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        "@monthly" => Some("0 0 1 * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@hourly" => Some("0 * * * *"),
        _ => None,
    };
    if let Some(known) = known {
        return Ok(known.to_owned());
    }
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields[..] {
        [_, _, _, _, _] => Ok(fields.join(" ")),
        [seconds, _, _, _, _, _] if seconds.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(fields[1..].join(" "))
        }
        [_, _, _, _, _, _] => Err(invalid(format!(
            "Sentry's monitors have no seconds, and {expression:?} fires more than once a minute"
        ))
        .advise("use a monitor without a schedule")),
        _ => Err(invalid(format!("{expression:?} is not a cron expression"))
            .advise("write five fields, like \"30 2 * * *\"")),
    }
}

fn interval(period: Duration) -> Result<Value, Error> {
    let seconds = period.as_secs();
    if seconds == 0 || seconds % MINUTE != 0 || period.subsec_nanos() != 0 {
        return Err(invalid("Sentry's intervals are whole minutes")
            .advise("use such a period, or a monitor without a schedule"));
    }
    let units = [("day", 24 * 60), ("hour", 60), ("minute", 1)];
    let count = seconds / MINUTE;
    let unit = units.into_iter().find(|(_, minutes)| count % *minutes == 0);
    let (unit, minutes) = unit.unwrap_or(("minute", 1));
    Ok(json!({ "type": "interval", "value": count / minutes, "unit": unit }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_written_as_sentry_reads_them() {
        for (expression, expected) in [
            ("30 2 * * *", "30 2 * * *"),
            ("0  */10 * * * *", "*/10 * * * *"),
            ("@daily", "0 0 * * *"),
        ] {
            let config = Monitor::new().crontab(expression).config();
            let config = config.unwrap().unwrap();
            assert_eq!(config["schedule"]["value"], expected);
        }
        for (minutes, value, unit) in [(10, 10, "minute"), (120, 2, "hour"), (2880, 2, "day")] {
            let monitor = Monitor::new().every(Duration::from_secs(minutes * 60));
            let config = monitor.config().unwrap().unwrap();
            let expected = json!({ "type": "interval", "value": value, "unit": unit });
            assert_eq!(config["schedule"], expected);
        }
    }

    #[test]
    fn what_sentry_cannot_express_is_refused() {
        for (monitor, says) in [
            (Monitor::new().crontab("*/30 * * * * *"), "no seconds"),
            (Monitor::new().crontab("every day"), "five fields"),
            (
                Monitor::new().every(Duration::from_secs(90)),
                "whole minutes",
            ),
        ] {
            let said = monitor.config().unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn limits_are_rounded_up_to_minutes() {
        let monitor = Monitor::new()
            .crontab("* * * * *")
            .checkin_margin(Duration::from_secs(5))
            .max_runtime(Duration::from_secs(61));
        let config = monitor.config().unwrap().unwrap();
        assert_eq!(
            (&config["checkin_margin"], &config["max_runtime"]),
            (&json!(1), &json!(2))
        );
    }
}
