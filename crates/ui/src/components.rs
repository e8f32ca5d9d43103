//! The parts of pages: times, untrusted text, badges, bars.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use askama::Template;
use askama::filters::HtmlSafe;
use form_urlencoded::Serializer;
use jiff::Timestamp;
use shedlock_core::{LockRecord, LockState};
use shedlock_journal::view::{self, about, instant, visible, visible_lines};

use shedlock_support::redact;

use crate::pages::ROWS;

/// An instant in UTC, which the script completes with the reader's own time.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = r#"<time datetime="{{ exact }}">{{ text }}</time>{% if let Some(local) = local %} <span class="zone">{{ local }}</span>{% endif %}{% if let Some(distance) = distance %} <span class="ago">{{ distance }}</span>{% endif %}"#
)]
pub(crate) struct When {
    exact: String,
    text: String,
    /// In the zone of the job.
    local: Option<String>,
    /// From now.
    distance: Option<String>,
}

impl HtmlSafe for When {}

impl When {
    pub(crate) fn of(at: SystemTime) -> Self {
        let exact = instant(at);
        let text = Timestamp::try_from(at).ok();
        let text = text.map(|at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        Self {
            exact: exact.unwrap_or_default(),
            text: text.unwrap_or_else(|| "out of range".to_owned()),
            local: None,
            distance: None,
        }
    }

    /// Adds how far it is from now.
    pub(crate) fn from_now(at: SystemTime, now: SystemTime) -> Self {
        let distance = match now.duration_since(at) {
            Ok(ago) => format!("{} ago", about(ago)),
            Err(ahead) => format!("in {}", about(ahead.duration())),
        };
        Self {
            distance: Some(distance),
            ..Self::of(at)
        }
    }

    /// Adds the time in the zone of a job.
    pub(crate) fn in_zone(mut self, at: SystemTime, zone: Option<&str>) -> Self {
        let local = zone.filter(|zone| *zone != "UTC").and_then(|name| {
            let zone = shedlock_support::zone::get(name)?;
            let local = Timestamp::try_from(at).ok()?.to_zoned(zone);
            Some(format!("{} {name}", local.strftime("%H:%M:%S")))
        });
        self.local = local;
        self
    }
}

/// Untrusted text: hidden characters are shown as escapes, its direction is isolated, and it is cut.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = r#"<bdi>{{ text }}</bdi>{% if left_out > 0 %}<span class="cut">… ({{ left_out }} bytes more)</span>{% endif %}"#
)]
pub(crate) struct Text {
    text: String,
    left_out: usize,
}

impl HtmlSafe for Text {}

impl Text {
    /// A name or an owner.
    pub(crate) fn of(text: &str) -> Self {
        Self::cut(text, 300, visible)
    }

    /// An error or another text of several lines.
    pub(crate) fn long(text: &str) -> Self {
        Self::cut(&redact(text), 4_000, visible_lines)
    }

    /// The text where no element is possible.
    pub(crate) fn plain(self) -> String {
        self.text
    }

    fn cut(text: &str, most: usize, visible: fn(&str) -> Cow<'_, str>) -> Self {
        let end = text.floor_char_boundary(most);
        Self {
            text: visible(&text[..end]).into_owned(),
            left_out: text.len() - end,
        }
    }
}

/// A state: a word with a colour of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = r#"<span class="badge {{ class }}">{{ word }}</span>"#
)]
pub(crate) struct Badge {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
}

impl HtmlSafe for Badge {}

impl Badge {
    pub(crate) fn of_lock(state: LockState) -> Self {
        let class = match state {
            LockState::Held => "run",
            LockState::Taken => "taken",
            LockState::Paused => "pause",
            _ => "idle",
        };
        let word = state.as_str();
        Self { class, word }
    }

    pub(crate) fn of_run(state: shedlock_core::RunState) -> Self {
        use shedlock_core::{RunOutcome, RunState};
        let (class, word) = match state {
            RunState::Ended(RunOutcome::Cancelled) => ("idle", "cancelled"),
            RunState::Ended(RunOutcome::Elsewhere) => ("taken", "elsewhere"),
            RunState::Ended(outcome @ RunOutcome::MaybeOverlapped) => ("warn", outcome.as_str()),
            RunState::Ended(outcome) if outcome.is_failure() => ("bad", outcome.as_str()),
            RunState::Ended(outcome) => ("ok", outcome.as_str()),
            RunState::Running => ("run", "running"),
            _ => ("warn", state.as_str()),
        };
        Self { class, word }
    }
}

/// A bar of [`Bars`].
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) class: &'static str,
    /// From 0 to 1.
    pub(crate) size: f64,
    pub(crate) title: String,
}

/// The last slots of a job, the latest on the right.
#[derive(Clone, Debug, Template)]
#[template(path = "bars.html")]
pub(crate) struct Bars {
    bars: Vec<Rect>,
    label: String,
    width: usize,
}

#[derive(Clone, Debug)]
struct Rect {
    class: &'static str,
    x: usize,
    y: usize,
    height: usize,
    title: String,
}

impl HtmlSafe for Bars {}

impl Bars {
    const HEIGHT: usize = 24;
    const STEP: usize = 6;

    pub(crate) fn of(bars: Vec<Bar>, label: String) -> Self {
        let rects = bars.into_iter().enumerate().map(|(at, bar)| {
            let share = bar.size.clamp(0.0, 1.0) * 19.0;
            // It is at most 24.
            let height = 5 + share.round() as usize;
            Rect {
                class: bar.class,
                x: at * Self::STEP,
                y: Self::HEIGHT - height,
                height,
                title: bar.title,
            }
        });
        let bars: Vec<_> = rects.collect();
        Self {
            width: (bars.len() * Self::STEP).max(1),
            bars,
            label,
        }
    }
}

/// A lease: how much of it has passed.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = r#"<svg class="lease" viewBox="0 0 300 8" role="img" aria-label="{{ label }}"><title>{{ label }}</title><rect class="whole" width="300" height="8"/><rect class="{{ class }}" width="{{ passed }}" height="8"/></svg> <span>{{ label }}</span>"#
)]
pub(crate) struct LeaseBar {
    class: &'static str,
    passed: u64,
    label: String,
}

impl HtmlSafe for LeaseBar {}

impl LeaseBar {
    /// `None` for a lock that can be taken, or whose store does not report its times.
    pub(crate) fn of(lock: &LockRecord) -> Option<Self> {
        let left = view::left(lock)?;
        let passed = view::age(lock)?;
        // The times of a store have fractions of a second.
        let whole = Duration::from_secs_f64((passed + left).as_secs_f64().round());
        let share =
            |part: Duration| part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
        let class = match lock.state {
            LockState::Paused => "pause",
            _ => "run",
        };
        Some(Self {
            class,
            passed: (share(passed).clamp(0.0, 1.0) * 300.0).round() as u64,
            label: format!(
                "{} of {} passed, {} left",
                about(passed),
                about(whole),
                about(left)
            ),
        })
    }
}

/// The links below a list that is shown in pages.
#[derive(Clone, Debug, Template)]
#[template(path = "pager.html")]
pub(crate) struct Pager {
    first: Option<String>,
    next: Option<String>,
}

impl HtmlSafe for Pager {}

impl Pager {
    /// Of a page that begins after this row, if it is not the first, and has these rows. `key` names a
    /// row, and `url` is the page after the row of a key; of an empty key, the first page.
    pub(crate) fn of<T>(
        after: Option<&str>,
        rows: &[T],
        key: impl Fn(&T) -> &str,
        url: impl Fn(&str) -> String,
    ) -> Self {
        let last = rows.last().filter(|_| rows.len() == ROWS);
        Self {
            first: after.map(|_| url("")),
            next: last.map(|row| url(key(row))),
        }
    }
}

/// The relative URL of a page with these parameters.
pub(crate) fn link(page: &str, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let query = Serializer::new(String::new()).extend_pairs(given).finish();
    match query.is_empty() {
        true => page.to_owned(),
        false => format!("{page}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped_isolated_and_cut() {
        let text = Text::of("<b>\u{202e}x").to_string();
        assert_eq!(text, r"<bdi>&#60;b&#62;\u{202e}x</bdi>");
        let text = Text::long(&"é".repeat(50_000)).to_string();
        assert!(text.len() < 4_100, "{}", text.len());
        assert!(text.ends_with("(96000 bytes more)</span>"), "{text}");
        let text = Text::long("at postgres://u:geheim@h/d").to_string();
        assert!(!text.contains("geheim"), "{text}");
    }

    #[test]
    fn a_link_carries_any_name() {
        assert_eq!(link("jobs", &[("store", "")]), "jobs");
        assert_eq!(link("job", &[("name", "a/b&c d")]), "job?name=a%2Fb%26c+d");
    }

    #[test]
    fn a_time_has_the_zone_of_its_job() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let text = When::of(at).in_zone(at, Some("Europe/Berlin")).to_string();
        assert_eq!(
            text,
            "<time datetime=\"2027-01-15T08:00:00Z\">2027-01-15 08:00:00 UTC</time> \
             <span class=\"zone\">09:00:00 Europe/Berlin</span>"
        );
    }
}
