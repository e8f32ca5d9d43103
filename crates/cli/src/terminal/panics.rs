//! Panics: faults of this program, reported like any other error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use serde_json::{Map, Value};
use tracing::Level;

use super::line::Line;

/// Reports every panic of this process on one line.
pub(crate) fn report_panics() {
    panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    let why = info.payload_as_str().unwrap_or("no reason was given");
    let place = info
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let message = format!(
        "internal error: {why}{place}; this is a bug, please report it at {}/issues",
        env!("CARGO_PKG_REPOSITORY")
    );
    // With RUST_BACKTRACE.
    let backtrace = Backtrace::capture();
    let mut fields = Map::new();
    if backtrace.status() == BacktraceStatus::Captured {
        fields.insert("backtrace".to_owned(), Value::from(backtrace.to_string()));
    }
    Line::with_fields(Level::ERROR, super::line::OWN, &message, fields).write();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::{LogFormat, set_style};
    use super::*;

    /// Starts itself once more, because the hook is that of the whole process.
    #[test]
    fn a_panic_is_one_line_in_the_log_format() {
        const FORMAT: &str = "SHEDLOCK_TEST_PANIC_FORMAT";
        if let Ok(format) = std::env::var(FORMAT) {
            let format = match &*format {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            };
            set_style(format, 0);
            report_panics();
            panic!("went wrong");
        }
        let this = "terminal::panics::tests::a_panic_is_one_line_in_the_log_format";
        let run = |format: &str| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", this, "--nocapture", "--test-threads=1"]);
            command.env(FORMAT, format).env("RUST_BACKTRACE", "0");
            let stderr = command.output().unwrap().stderr;
            String::from_utf8(stderr).unwrap()
        };
        let text = run("text");
        let first = text.lines().find(|line| line.starts_with("shedlock: "));
        let said = "shedlock: internal error: went wrong at crates/cli/src/terminal/panics.rs:";
        assert!(first.unwrap().starts_with(said), "{text}");
        assert!(!text.contains("panicked"), "{text}");
        let json = run("json");
        let first = json.lines().find(|line| line.starts_with('{')).unwrap();
        let first: Value = serde_json::from_str(first).unwrap();
        assert_eq!(first["level"], "error");
        let message = first["message"].as_str().unwrap();
        assert!(
            message.starts_with("internal error: went wrong at "),
            "{message}"
        );
    }
}
