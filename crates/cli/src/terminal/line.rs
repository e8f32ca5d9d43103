//! One line on stderr.

use std::io::{self, Write as _};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use shedlock::{Clock, SystemClock};
use tracing::Level;

use super::{LogFormat, Style, style};
use crate::output::visible;
use shedlock_support::redact;

/// The target of this program's own lines.
pub(super) const OWN: &str = "shedlock";

/// The field with the error that a message is about.
const ERROR: &str = "error";

/// A message of this program or of a library.
#[derive(Debug)]
pub(super) struct Line<'a> {
    level: Level,
    target: &'a str,
    message: &'a str,
    fields: Map<String, Value>,
}

/// A line of the JSON log. `docs/json.md` describes it.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    level: String,
    message: &'a str,
    target: &'a str,
    fields: Map<String, Value>,
}

impl<'a> Line<'a> {
    pub(super) fn own(level: Level, message: &'a str) -> Self {
        Self::with_fields(level, OWN, message, Map::new())
    }

    pub(super) const fn with_fields(
        level: Level,
        target: &'a str,
        message: &'a str,
        fields: Map<String, Value>,
    ) -> Self {
        Self {
            level,
            target,
            message,
            fields,
        }
    }

    /// In one write, so that lines of several processes do not mix. If stderr is closed, there is
    /// nowhere to report it.
    pub(super) fn write(self) {
        let now = Timestamp::try_from(SystemClock.system_time()).unwrap_or_default();
        let line = self.render(style(), &format!("{now:.3}"));
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn render(self, style: Style, time: &str) -> String {
        match style.format {
            LogFormat::Text => self.text(style.verbosity, time),
            LogFormat::Json => self.json(time),
        }
    }

    fn text(&self, verbosity: u8, time: &str) -> String {
        let mut text = String::new();
        if verbosity > 0 {
            text.push_str(time);
            text.push(' ');
        }
        // With one -v, the events of the lock are what was asked for, whatever their level.
        let is_event =
            verbosity == 1 && self.target.starts_with("shedlock_") && self.level > Level::WARN;
        if self.target != OWN && !is_event {
            text.push_str(match self.level {
                Level::ERROR => "error",
                Level::WARN => "warning",
                Level::INFO => "info",
                Level::DEBUG => "debug",
                Level::TRACE => "trace",
            });
            if verbosity > 1 {
                text.push_str(&format!(": {}", self.target));
            } else if let Some(origin) = self.origin() {
                text.push_str(&format!(" from {origin}"));
            }
            text.push_str(": ");
        }
        text.push_str(self.message);
        let mut text = text.trim_end().to_owned();
        // Why something failed belongs to the sentence.
        if let Some(Value::String(error)) = self.fields.get(ERROR) {
            text.push_str(&format!(": {}", error.trim_end()));
        }
        let others = self.fields.iter().filter(|(name, _)| *name != ERROR);
        let mut fields: Vec<_> = others.map(field).collect();
        // Their own order depends on a feature of `serde_json` that any dependency can enable.
        fields.sort_unstable();
        if !fields.is_empty() {
            // In brackets, so that they do not read as the end of the sentence.
            text.push_str(&format!(" [{}]", fields.join(" ")));
        }
        format!("shedlock: {}\n", visible(&redact(&text)))
    }

    /// Who says it, unless it is this project: a server, or the library that talks to it.
    fn origin(&self) -> Option<&str> {
        match self.target.split("::").next() {
            _ if self.target == "sqlx::postgres::notice" => Some("the PostgreSQL server"),
            Some(library) if !library.starts_with("shedlock") => Some(library),
            _ => None,
        }
    }

    fn json(self, time: &str) -> String {
        let clean = |(name, value)| match value {
            Value::String(text) => (name, Value::from(redact(&text))),
            other => (name, other),
        };
        let object = Object {
            time: time.to_owned(),
            level: self.level.as_str().to_ascii_lowercase(),
            message: &redact(self.message),
            target: self.target,
            fields: self.fields.into_iter().map(clean).collect(),
        };
        let line = serde_json::to_string(&object).expect("strings and numbers are valid JSON");
        line + "\n"
    }
}

fn field((name, value): (&String, &Value)) -> String {
    match value {
        Value::String(word) if is_word(word) => format!("{name}={word}"),
        Value::String(words) => format!("{name}={words:?}"),
        other => format!("{name}={other}"),
    }
}

/// Whether a value needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '"', '=', '[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2027-01-15T08:00:00.250Z";

    fn of_library<'a>() -> Line<'a> {
        let fields = [
            ("lock", "a b"),
            ("error", "refused (\"x y\")"),
            ("token", "7"),
            ("url", "redis://u:geheim@h"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let target = "shedlock_core::runtime";
        let message = "cannot reach nats://geheim@h\n";
        Line::with_fields(Level::WARN, target, message, fields.into_iter().collect())
    }

    fn style(format: LogFormat, verbosity: u8) -> Style {
        Style { format, verbosity }
    }

    #[test]
    fn a_line_for_people_has_a_time_and_an_origin_only_if_it_is_asked_for() {
        let rest = "cannot reach nats://***@h: refused (\"x y\") [lock=\"a b\" token=7 url=redis://u:***@h]\n";
        for (verbosity, start) in [
            (0, "shedlock: warning: "),
            (1, "shedlock: 2027-01-15T08:00:00.250Z warning: "),
            (
                2,
                "shedlock: 2027-01-15T08:00:00.250Z warning: shedlock_core::runtime: ",
            ),
        ] {
            let line = of_library().render(style(LogFormat::Text, verbosity), TIME);
            assert_eq!(line, format!("{start}{rest}"));
        }
        let line = Line::own(Level::ERROR, "a: lost").render(style(LogFormat::Text, 0), TIME);
        assert_eq!(line, "shedlock: a: lost\n");
    }

    #[test]
    fn a_line_that_is_not_of_this_project_says_whose_it_is() {
        let text = |target| {
            let line = Line::with_fields(Level::WARN, target, "closing", Map::new());
            line.render(style(LogFormat::Text, 1), TIME)
        };
        let said = format!("shedlock: {TIME} warning from the PostgreSQL server: closing\n");
        assert_eq!(text("sqlx::postgres::notice"), said);
        let said = format!("shedlock: {TIME} warning from async_nats: closing\n");
        assert_eq!(text("async_nats::connector"), said);
    }

    #[test]
    fn the_json_log_is_frozen() {
        assert_eq!(
            of_library().render(style(LogFormat::Json, 3), TIME),
            "{\"time\":\"2027-01-15T08:00:00.250Z\",\"level\":\"warn\",\"message\":\"cannot reach \
             nats://***@h\\n\",\"target\":\"shedlock_core::runtime\",\"fields\":{\"lock\":\"a b\",\
             \"error\":\"refused (\\\"x y\\\")\",\"token\":\"7\",\"url\":\"redis://u:***@h\"}}\n"
        );
        let line = Line::own(Level::INFO, "a: \u{202e}").render(style(LogFormat::Json, 0), TIME);
        assert!(line.contains("\"message\":\"a: \u{202e}\""), "{line}");
        assert!(
            line.contains("\"target\":\"shedlock\",\"fields\":{}"),
            "{line}"
        );
    }
}
