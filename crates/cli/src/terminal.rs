//! The only module that prints: results to stdout, everything else to stderr, no passwords, and no
//! characters that a terminal obeys.

use std::io::{self, Write};
use std::process::ExitCode;

use rustix::termios::{isatty, tcgetwinsize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use crate::exit::{Failure, INTERNAL, USAGE};
use crate::output::{visible, visible_lines};
use crate::redact::redact;

/// This program's output to its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    is_quiet: bool,
}

impl Terminal {
    pub(crate) const fn new(is_quiet: bool) -> Self {
        Self { is_quiet }
    }

    /// Whether notices are left out.
    pub(crate) const fn is_quiet(self) -> bool {
        self.is_quiet
    }

    /// The requested result. A reader that has gone away (`| head`) is not an error.
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
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
            self.error(text);
        }
    }

    /// Something that went wrong.
    pub(crate) fn error(self, text: &str) {
        say(text);
    }

    /// Help, the version, or an error in the command line.
    pub(crate) fn usage(self, error: &clap::Error) -> ExitCode {
        if !error.use_stderr() {
            // With the colours that the terminal supports. It contains no secrets.
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
        let text = error.render().to_string();
        let _ = io::stderr()
            .lock()
            .write_all(visible_lines(&redact(&text)).as_bytes());
        ExitCode::from(USAGE)
    }

    /// Sends the libraries' log to stderr too: warnings, or more with each `-v`.
    pub(crate) fn listen_to_logs(self, verbosity: u8) {
        // Why a lock is waited for or skipped. This program prints that itself.
        const SKIPS: &str = "shedlock_core::runtime::wait";
        // How the lease ended. The same.
        const LOSSES: &str = "shedlock_core::runtime::lost";
        const RELEASES: &str = "shedlock_core::runtime::release";
        let levels = match (self.is_quiet, verbosity) {
            (true, _) => Targets::new()
                .with_default(LevelFilter::ERROR)
                .with_targets([SKIPS, LOSSES, RELEASES].map(|it| (it, LevelFilter::OFF))),
            (false, 0) => Targets::new()
                .with_default(LevelFilter::WARN)
                .with_targets([SKIPS, LOSSES, RELEASES].map(|it| (it, LevelFilter::OFF))),
            // Events of the lock, but not every statement that is sent for it.
            (false, 1) => Targets::new()
                .with_default(LevelFilter::INFO)
                .with_target("shedlock_core", LevelFilter::DEBUG)
                .with_target(SKIPS, LevelFilter::OFF),
            (false, 2) => Targets::new().with_default(LevelFilter::DEBUG),
            (false, _) => Targets::new().with_default(LevelFilter::TRACE),
        };
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Log)
            .with_ansi(false)
            .with_target(verbosity > 1);
        let subscriber = tracing_subscriber::registry().with(lines).with(levels);
        // Set once, at the start of the program, so no other subscriber exists.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}

/// The size of the terminal on stdout.
#[derive(Clone, Copy, Debug)]
struct Screen {
    columns: usize,
    rows: usize,
}

impl Screen {
    fn of_stdout() -> Option<Self> {
        let stdout = io::stdout();
        if !isatty(&stdout) {
            return None;
        }
        let (columns, rows) =
            tcgetwinsize(&stdout).map_or((0, 0), |size| (size.ws_col, size.ws_row));
        // Some terminals do not report their size.
        let or = |size: u16, usual| if size == 0 { usual } else { usize::from(size) };
        Some(Self {
            columns: or(columns, 80),
            rows: or(rows, 24),
        })
    }

    /// The text as a picture that replaces the last one, without flicker. What is too much for the
    /// screen is counted.
    fn frame(self, text: &str) -> String {
        let (home, end_of_line, below) = ("\x1b[H", "\x1b[K\n", "\x1b[J");
        let lines: Vec<&str> = text.lines().collect();
        let mut frame = home.to_owned();
        // The cursor needs the last row, and the count of the rest another one.
        let fitting = self.rows.saturating_sub(1).max(3);
        let shown = if lines.len() > fitting {
            fitting - 1
        } else {
            lines.len()
        };
        for line in &lines[..shown] {
            frame.push_str(line);
            frame.push_str(end_of_line);
        }
        if shown < lines.len() {
            let more = lines.len() - shown;
            frame.push_str(&format!("… {more} more{end_of_line}"));
        }
        frame + below
    }
}

fn say(text: &str) {
    // In one write, so that lines of several processes do not mix. If stderr is closed, there is
    // nowhere to report it.
    let line = format!("shedlock: {}\n", visible(&redact(text)));
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Log lines on their way to stderr.
#[derive(Debug)]
struct Log;

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self::Writer {
        Self
    }
}

impl Write for Log {
    /// Called with whole lines.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = format!("{}\n", visible(&redact(line)));
        io::stderr().lock().write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
