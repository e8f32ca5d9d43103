//! The terminal on stdout, for lists that are redrawn.

use std::io;

use rustix::termios::{isatty, tcgetwinsize};

use crate::output::cut;

/// The size of the terminal on stdout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    pub(super) columns: usize,
    rows: usize,
}

impl Screen {
    pub(super) fn of_stdout() -> Option<Self> {
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
    pub(super) fn frame(self, text: &str) -> String {
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
            // A line that wraps would take more than one row.
            frame.push_str(&cut(line, self.columns));
            frame.push_str(end_of_line);
        }
        if shown < lines.len() {
            let more = lines.len() - shown;
            frame.push_str(&format!("… {more} more{end_of_line}"));
        }
        frame + below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_as_many_rows_as_lines() {
        let screen = Screen {
            columns: 10,
            rows: 5,
        };
        let frame = screen.frame("a header of many words\nshort\n3\n4\n5\n6\n");
        let lines: Vec<&str> = frame.lines().collect();
        assert_eq!(lines[0], "\x1b[Ha header …\x1b[K");
        assert_eq!(lines[3], "… 3 more\x1b[K", "{frame:?}");
    }
}
