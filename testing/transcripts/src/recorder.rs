//! Writes what a step printed as lines of a page: old lines where they still match, and placeholders for values that can
//! be told by their form.

use std::time::Duration;

use jiff::Timestamp;

use crate::pattern::{Value, is_boundary};
use crate::placeholder::{Facts, Moment, instant};
use crate::session::Session;
use crate::{columns, duration};

pub(crate) struct Recorder<'a> {
    pub(crate) facts: &'a Facts,
    /// The durations in the lines that were typed so far.
    pub(crate) typed: &'a [Duration],
    pub(crate) moment: Moment,
}

impl Recorder<'_> {
    /// The lines of the page for this screen.
    pub(crate) fn lines(
        &self,
        session: &mut Session,
        old: &[String],
        screen: &[String],
    ) -> Vec<String> {
        let before = session.captured();
        let mut lines = Vec::new();
        let mut next = 0;
        for line in screen {
            let mut rest = old[next..].iter();
            let kept = rest.position(|old| {
                let pattern = session.pattern(old);
                session.matches(&pattern, line, !pattern.is_open()).is_ok()
            });
            match kept {
                Some(at) => {
                    lines.push(old[next + at].clone());
                    next += at + 1;
                }
                None => lines.push(self.line(session, line)),
            }
        }
        session.restore(before);
        match lines.iter().eq(screen) {
            true => lines,
            false => columns::straightened(&lines, screen),
        }
    }

    fn line(&self, session: &mut Session, line: &str) -> String {
        let mut text = String::new();
        let mut at = 0;
        while let Some(char) = line[at..].chars().next() {
            let found = self
                .known(&line[at..], &line[..at])
                .or_else(|| self.seconds(&line[at..], &line[..at]));
            let found = found.or_else(|| self.value(session, &line[at..], &line[..at]));
            match found {
                Some((length, placeholder)) => {
                    text.push_str(&placeholder);
                    at += length;
                }
                None => {
                    text.push(char);
                    at += char.len_utf8();
                }
            }
        }
        text
    }

    /// What the stage knows.
    fn known(&self, rest: &str, before: &str) -> Option<(usize, String)> {
        let is_host = before.ends_with('@');
        let is_named = |name: &str| match name {
            "store" => before.is_empty() || before.ends_with("shedlock: "),
            "namespace" => is_boundary(before),
            _ => true,
        };
        let names = self.facts.names.iter();
        let names = names.map(|(name, value)| (*name, &**value, is_named(name)));
        let facts = [
            ("dir", &*self.facts.folder, true),
            ("host", &*self.facts.host, is_host),
            (
                "version",
                &*self.facts.version,
                before.ends_with("shedlock "),
            ),
        ];
        let mut facts = names.chain(facts);
        let found = facts
            .find(|(_, value, is_here)| *is_here && !value.is_empty() && rest.starts_with(value));
        found.map(|(name, value, _)| (value.len(), format!("{{{name}}}")))
    }

    fn value(&self, session: &mut Session, rest: &str, before: &str) -> Option<(usize, String)> {
        if !is_boundary(before) {
            return None;
        }
        let (length, value) = Value::leading(rest)?;
        let shown = &rest[..length];
        let placeholder = match value {
            Value::Owner if rest[length..].starts_with('…') => cut(session, shown),
            Value::Owner if shown.starts_with(&self.facts.host) => Some(
                session
                    .known("owner", shown)
                    .unwrap_or_else(|| session.label("owner", shown)),
            ),
            Value::Time => self.time(shown),
            Value::Token => self.token(shown),
            Value::Duration => self.duration(shown),
            Value::Id => Some("{id}".to_owned()),
            _ => None,
        }?;
        Some((length, placeholder))
    }

    /// The time within the scene, or so much after or before it as was typed.
    fn time(&self, shown: &str) -> Option<String> {
        let (time, precision) = instant(shown)?;
        self.moved_by("time", time, precision)
            .or_else(|| self.new_year(shown))
    }

    /// The slot of `0 0 1 1 *`.
    fn new_year(&self, shown: &str) -> Option<String> {
        const START: &str = "-01-01T00:00:00Z";
        let year: i64 = shown.strip_suffix(START)?.parse().ok()?;
        let this: i64 = self.moment.now.strftime("%Y").to_string().parse().ok()?;
        match year - this {
            0 => Some(format!("{{year}}{START}")),
            1 => Some(format!("{{year+1}}{START}")),
            _ => None,
        }
    }

    fn token(&self, shown: &str) -> Option<String> {
        self.moved_by("token", shown.parse().ok()?, 1_000)
    }

    fn moved_by(&self, kind: &str, time: i64, precision: i64) -> Option<String> {
        let (began, now) = (micros(self.moment.began), micros(self.moment.now));
        let of = |duration: &Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let is_within = |time: i64| (began - precision..=now + precision).contains(&time);
        // A slot of `--every 1h`.
        let is_slot = |time: i64, period: i64| {
            let first = began.div_euclid(period.max(1)) * period;
            time % period.max(1) == 0 && (first..=now).contains(&time)
        };
        let none = Duration::ZERO;
        let offsets = || {
            std::iter::once(&none)
                .chain(self.typed)
                .flat_map(|by| [('+', by), ('-', by)])
        };
        let back = |sign: char, by: &Duration| match sign {
            '+' => time.saturating_sub(of(by)),
            _ => time.saturating_add(of(by)),
        };
        let written = |align: &str, sign: char, by: &Duration| match by.is_zero() {
            true => format!("{{{kind}{align}}}"),
            false => format!("{{{kind}{align}{sign}{}}}", duration::duration(*by)),
        };
        if let Some((sign, by)) = offsets().find(|(sign, by)| is_within(back(*sign, by))) {
            return Some(written("", sign, by));
        }
        self.typed
            .iter()
            .filter(|period| kind == "time" && !period.is_zero())
            .find_map(|period| {
                let (sign, by) =
                    offsets().find(|(sign, by)| is_slot(back(*sign, by), of(period)))?;
                Some(written(
                    &format!("@{}", duration::duration(*period)),
                    sign,
                    by,
                ))
            })
    }

    /// No longer than the scene, or less than what was typed by no more.
    fn duration(&self, shown: &str) -> Option<String> {
        let (_, printed) = duration::leading(shown)?;
        let value = printed.value;
        let elapsed = micros(self.moment.now) - micros(self.moment.began);
        let elapsed = Duration::from_micros(u64::try_from(elapsed).unwrap_or_default());
        if self.typed.contains(&value) {
            return None;
        }
        let is_left = |of: &&Duration| value < **of && value + elapsed + printed.precision >= **of;
        match self.typed.iter().find(is_left) {
            _ if value <= elapsed => Some("{duration}".to_owned()),
            Some(of) => Some(format!("{{duration={}}}", duration::duration(*of))),
            None => None,
        }
    }

    /// The value of a member of JSON, or of a metric, whose name says that it is a number of seconds.
    fn seconds(&self, rest: &str, before: &str) -> Option<(usize, String)> {
        let is_part = |char: char| char.is_ascii_digit() || char == '.';
        let length = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
        let is_metric = before.contains("_seconds{") && before.ends_with("} ");
        let seconds: f64 = rest[..length].parse().ok()?;
        if !is_metric && !before.ends_with("_seconds\": ") {
            return None;
        }
        let of = |time: Timestamp| time.as_duration().as_secs_f64();
        let (began, now) = (of(self.moment.began), of(self.moment.now));
        let placeholder = match seconds {
            _ if seconds <= now - began => "{seconds}",
            _ if (began - 1.0..=now).contains(&seconds) => "{unix}",
            _ => return None,
        };
        Some((length, placeholder.to_owned()))
    }

    /// The lines of a page of examples: all times and tokens are moved.
    pub(crate) fn example(&self, screen: &[String]) -> Vec<String> {
        let moved = |line: &String| {
            let mut text = String::new();
            let mut at = 0;
            while let Some(char) = line[at..].chars().next() {
                let value = Value::leading(&line[at..]).filter(|_| is_boundary(&line[..at]));
                let (length, value) = value.unwrap_or((char.len_utf8(), Value::Duration));
                let shown = &line[at..at + length];
                text.push_str(&self.moved(shown, value));
                at += length;
            }
            text
        };
        screen.iter().map(moved).collect()
    }

    fn moved(&self, shown: &str, value: Value) -> String {
        let by = self.facts.moved;
        let moved = match value {
            Value::Time => shown.parse::<Timestamp>().ok().and_then(|time| {
                let time = Timestamp::from_microsecond(time.as_microsecond() + by).ok()?;
                Some(time.to_string())
            }),
            Value::Token => shown
                .parse()
                .ok()
                .map(|token: i64| (token + by).to_string()),
            _ => None,
        };
        moved.unwrap_or_else(|| shown.to_owned())
    }
}

fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// An owner whose end is cut, if it is known.
fn cut(session: &Session, shown: &str) -> Option<String> {
    let captured = session.captured();
    let mut owners = captured
        .iter()
        .filter(|(name, _)| name.starts_with("owner:"));
    let known = owners.find(|(_, value)| value.starts_with(shown));
    known.map(|(name, _)| format!("{{{name}}}"))
}
