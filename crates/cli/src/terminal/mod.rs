//! The only module that prints: results to stdout, everything else to stderr, no passwords, and no
//! characters that a terminal obeys.

mod line;
mod logs;
mod panics;
mod said;
mod screen;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing::Level;

use crate::exit::{Failure, INTERNAL};
use crate::output::{self, visible_lines};
use line::Line;
pub(crate) use panics::report_panics;
pub(crate) use said::warnings_are_about;
use screen::Screen;
use shedlock_support::redact;

/// The format of the lines on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people: `shedlock: …`
    #[default]
    Text,
    /// For programs: one JSON object per line, with time, level, message, target and fields
    Json,
}

/// How this process writes its lines. Set once, because libraries and panics print lines too.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    format: LogFormat,
    /// How many `-v` there are: with one, lines have a time; with two, those of libraries have their
    /// origin.
    verbosity: u8,
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Sets the style of all further lines of this process.
pub(crate) fn set_style(format: LogFormat, verbosity: u8) {
    // Set only once, at the start.
    let _ = STYLE.set(Style { format, verbosity });
}

/// The format of this process's lines, for its watchdog.
pub(crate) fn log_format() -> LogFormat {
    style().format
}

fn style() -> Style {
    STYLE.get().copied().unwrap_or_default()
}

/// This program's output to its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    is_quiet: bool,
}

impl Terminal {
    pub(crate) const fn new(is_quiet: bool) -> Self {
        Self { is_quiet }
    }

    /// Whether what goes to stderr is on a terminal.
    pub(crate) fn is_read_by_a_person(self) -> bool {
        io::stderr().is_terminal()
    }

    /// Whether notices are left out.
    pub(crate) const fn is_quiet(self) -> bool {
        self.is_quiet
    }

    /// The requested result. A reader that has gone away (`| head`) is not an error.
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
        // Tables have none. Programs get names in JSON and metrics as they are.
        if io::stdout().is_terminal() {
            return self.result(&visible_lines(text)).map(drop);
        }
        self.result(text).map(drop)
    }

    /// The requested result once more: in place of the last one on a terminal, otherwise after it.
    /// Returns false if no one reads it any more.
    pub(crate) fn redraw(self, text: &str) -> Result<bool, Failure> {
        match Screen::of_stdout() {
            Some(screen) => self.result(&screen.frame(text)),
            None => self.result(text),
        }
    }

    /// The width of the terminal. `None` if the results go elsewhere.
    pub(crate) fn width(self) -> Option<usize> {
        Some(Screen::of_stdout()?.columns)
    }

    fn result(self, text: &str) -> Result<bool, Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::new(
                INTERNAL,
                format!("cannot write to stdout: {error}"),
            )),
        }
    }

    /// A message that is printed unless the user wants quiet.
    pub(crate) fn notice(self, text: &str) {
        if !self.is_quiet {
            Line::own(Level::INFO, text).write();
        }
    }

    /// Something that went wrong and is repeated by this program, unless the user wants quiet.
    pub(crate) fn warning(self, text: &str) {
        if !self.is_quiet {
            Line::own(Level::WARN, text).write();
        }
    }

    /// Something that went wrong.
    pub(crate) fn error(self, text: &str) {
        Line::own(Level::ERROR, text).write();
    }

    /// The end without success. If a program reads the results, it gets an object in their place.
    pub(crate) fn failure(self, failure: &Failure, has_json_results: bool) -> ExitCode {
        self.error(&failure.message());
        if has_json_results {
            // If stdout is closed, the line on stderr and the exit code remain.
            let _ = self.result(&output::failure(failure));
        }
        failure.code()
    }

    /// Help, the version, or an error in the command line.
    pub(crate) fn usage(self, error: &clap::Error, has_json_results: bool) -> ExitCode {
        if !error.use_stderr() {
            // With the colours that the terminal supports. It contains no secrets.
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                // The reader has what it wanted.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
                Err(error) => {
                    let why = format!("cannot write to stdout: {error}");
                    self.failure(&Failure::new(INTERNAL, why), false)
                }
            };
        }
        let text = error.render().to_string();
        // Help that was printed because nothing was asked for is no error message.
        let (prefix, text) = match text.strip_prefix("error: ") {
            Some(text) => ("shedlock: ", text),
            None => ("", &*text),
        };
        let failure = Failure::of_usage(error);
        if log_format() == LogFormat::Json {
            return self.failure(&failure, has_json_results);
        }
        let text = format!("{prefix}{text}");
        let text = visible_lines(&redact(&text)).into_owned();
        let _ = io::stderr().lock().write_all(text.as_bytes());
        if has_json_results {
            let _ = self.result(&output::failure(&failure));
        }
        failure.code()
    }

    /// Sends the libraries' log to stderr too: warnings, or more with each `-v`. If the result has
    /// the stores' warnings as findings, they are not repeated. If `repeats_warnings` is false, what was said about a
    /// store lately is not said again.
    pub(crate) fn listen_to_logs(self, has_findings: bool, repeats_warnings: bool) {
        let verbosity = style().verbosity;
        let remembers = !repeats_warnings && verbosity == 0;
        logs::listen(self.is_quiet, verbosity, has_findings, remembers);
    }
}
