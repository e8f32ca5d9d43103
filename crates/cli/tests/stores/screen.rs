//! The command in a terminal of a given width, and snapshots of what its user sees there.
//!
//! A snapshot holds what all stores have in common: parts that differ from run to run are replaced by
//! words. With `SHEDLOCK_SNAPSHOTS=write` in the environment, the snapshots are written.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthStr as _;

use crate::common::{Done, Sandbox, done};
use crate::differences::variant;
use crate::places::{Locks, Place};

/// Times that are the same in every run.
pub(crate) const FIXED: [&str; 2] = ["2020-01-01T00:00:00Z", "2037-01-01T00:00:00Z"];

/// The one who types the commands.
const USER: &str = "alice";

/// No cut cell is shown with less than this.
const SHORTEST: usize = 8;

/// A terminal, and what was typed and printed there: for each snapshot, its text.
pub(crate) struct Screen<'a> {
    place: &'a Place,
    sandbox: &'a Sandbox,
    locks: &'a Locks,
    columns: usize,
    host: String,
    pages: BTreeMap<&'static str, String>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(
        place: &'a Place,
        sandbox: &'a Sandbox,
        locks: &'a Locks,
        columns: usize,
    ) -> Self {
        let host = rustix::system::uname();
        Self {
            place,
            sandbox,
            locks,
            columns,
            host: host.nodename().to_string_lossy().into_owned(),
            pages: BTreeMap::new(),
        }
    }

    /// Types this command, and adds it to a snapshot with what it prints.
    pub(crate) fn types(&mut self, page: &'static str, arguments: &[&str]) {
        let words: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
        let typed = format!("shedlock {}", words.join(" "));
        let seen = self.seen(&words);
        let shown = self.clean(&seen);
        let page = self.pages.entry(page).or_default();
        page.push_str(&format!("$ {typed}\n{shown}"));
        if seen.code != 0 {
            page.push_str(&format!("[exit code {}]\n", seen.code));
        }
        page.push('\n');
    }

    fn seen(&self, words: &[String]) -> Done {
        let (exe, columns) = (env!("CARGO_BIN_EXE_shedlock"), self.columns);
        let line = format!(
            "stty cols {columns} rows 50; exec {exe} {}",
            words.join(" ")
        );
        let mut terminal = Command::new("script");
        terminal
            .args(["-qec", &line, "/dev/null"])
            .current_dir(self.sandbox.path(""))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("SHELL", "/bin/sh")
            .env("HOME", self.sandbox.path(""))
            .env("TZ", "UTC")
            .env("USER", USER)
            .env("SHEDLOCK_STORE", &self.locks.url)
            .stdin(Stdio::null());
        let mut seen = done(&mut terminal);
        seen.stdout = seen.stdout.replace('\r', "");
        seen
    }

    /// The text without what differs from run to run, and from store to store.
    fn clean(&self, seen: &Done) -> String {
        let lines: Vec<_> = seen.stdout.lines().collect();
        let mut text = String::new();
        let mut rest = &lines[..];
        while let Some(first) = rest.first() {
            let height = rest
                .iter()
                .take_while(|line| !line.starts_with("shedlock: "))
                .count();
            if !is_header(first) || height == 0 {
                text.push_str(&self.line(first));
                text.push('\n');
                rest = &rest[1..];
                continue;
            }
            text.push_str(&self.table(&rest[..height]));
            rest = &rest[height..];
        }
        text
    }

    fn line(&self, line: &str) -> String {
        let place = self.locks.url.split('?').next().unwrap();
        let folder = self.sandbox.path("");
        let kind = format!("{}: ", self.place.kind());
        if line == self.locks.url {
            return "URL".to_owned();
        }
        let mut line = line.replace(place, "PLACE");
        if let Some(rest) = line.strip_prefix(&kind) {
            line = format!("STORE: {rest}");
        }
        let said = format!("shedlock: {kind}");
        let line = line
            .replacen(&said, "shedlock: STORE: ", 1)
            .replace(
                &format!("{} cannot keep", self.place.kind()),
                "STORE cannot keep",
            )
            .replace(&*folder.to_string_lossy(), "FOLDER/")
            .replace(&self.locks.name, "NAMESPACE")
            .replace(&format!("@{}", self.host), "@HOST");
        let line = without_owners(&line, &format!("{}/", self.host));
        let line = without_measures(&without_times(&line));
        match line.strip_prefix("fencing token") {
            Some(token) if token.trim() != "-" => "fencing token   TOKEN".to_owned(),
            _ => line,
        }
    }

    /// A table with other contents has other widths, so it is set again. Its own must be right.
    fn table(&self, lines: &[&str]) -> String {
        let header = cells(lines[0]);
        let mut rows = Vec::new();
        for line in lines {
            // Settings are never cut.
            let fits = line.width() <= self.columns || header[0].1 == "SETTING";
            assert!(fits, "too wide: {}", lines.join("\n"));
            let row = cells(line);
            assert_eq!(row.len(), header.len(), "{}", lines.join("\n"));
            let aligned = row
                .iter()
                .zip(&header)
                .all(|((at, _), (column, _))| at == column);
            assert!(aligned, "not aligned: {}", lines.join("\n"));
            let row = row.into_iter().zip(&header);
            let row = row.map(|((_, cell), (_, title))| self.cell(cell, title));
            rows.push(row.collect::<Vec<_>>());
        }
        let mut text = String::new();
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let widths = rows.iter().map(|row| row[column].width());
                let blanks = widths.max().unwrap_or_default() + 2 - cell.width();
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', blanks));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn cell(&self, cell: &str, title: &str) -> String {
        if cell == title || cell == "-" {
            return cell.to_owned();
        }
        if title == "TOKEN" || title == "AGE" {
            return title.to_owned();
        }
        for start in [format!("{USER}@"), format!("paused by {USER}@")] {
            // How much of the host is shown depends on its name.
            if cell.starts_with(&start) {
                return format!("{start}…");
            }
        }
        if cell.ends_with('…') {
            let shortest: String = cell.chars().take(SHORTEST).collect();
            return format!("{}…", shortest.trim_end_matches('…'));
        }
        self.line(cell)
    }

    /// Compares the snapshots with those of the repository, or writes them.
    pub(crate) fn compare(&self) -> Result<(), String> {
        let mut wrong = String::new();
        for (page, text) in &self.pages {
            let name = match variant(page, self.columns, self.place.name) {
                Some(variant) => format!("{page}.{variant}"),
                None => (*page).to_owned(),
            };
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stores/snapshots");
            let path = folder
                .join(self.columns.to_string())
                .join(format!("{name}.txt"));
            if std::env::var("SHEDLOCK_SNAPSHOTS").as_deref() == Ok("write") {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            if expected != *text {
                wrong.push_str(&format!(
                    "{} is not what {} shows:\n{}\n",
                    path.display(),
                    self.place.name,
                    difference(&expected, text)
                ));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// The lines that only one of the texts has, with the line before each.
fn difference(expected: &str, text: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), text.lines().collect());
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let old_end = old.len().min(same + 12);
    let new_end = new.len().min(same + 12);
    let show = |sign: &str, lines: &[&str]| {
        let lines = lines.iter().map(|line| format!("{sign}{line}\n"));
        lines.collect::<String>()
    };
    let before = show("  ", &old[same.saturating_sub(3)..same]);
    format!(
        "{before}{}{}",
        show("- ", &old[same..old_end]),
        show("+ ", &new[same..new_end])
    )
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:=".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{word}'"),
    }
}

/// Titles of columns are in capitals.
fn is_header(line: &str) -> bool {
    let mut letters = line.chars().filter(|char| !char.is_whitespace());
    line.contains("  ") && letters.all(|char| char.is_ascii_uppercase())
}

/// The cells of a line, which two blanks separate, and the columns in which they start.
fn cells(line: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let end = line[at..].find("  ").map_or(line.len(), |end| at + end);
        cells.push((line[..at].width(), &line[at..end]));
        let blanks = line[end..].len() - line[end..].trim_start().len();
        at = end + blanks;
    }
    cells
}

/// Owners that this host has made.
fn without_owners(line: &str, start: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(start) {
        let (head, tail) = rest.split_at(at);
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '/';
        let end = tail[start.len()..].find(|char| !is_part(char));
        let end = end.map_or(tail.len(), |end| start.len() + end);
        clean.push_str(head);
        clean.push_str(if tail[..end].matches('/').count() == 2 {
            "HOST/PID/RANDOM"
        } else {
            &tail[..end]
        });
        rest = &tail[end..];
    }
    clean + rest
}

/// What `doctor` measures, and the times and durations in seconds of `metrics`.
fn without_measures(line: &str) -> String {
    let mut words = line.split_whitespace();
    let (start, end) = match (words.next(), words.next()) {
        (Some("ok"), Some("reachable")) => ("the store replies within ", " (the fastest"),
        (Some("ok"), Some("clock")) => ("the clock of this host ", "\n"),
        (Some("ok"), Some("version")) => ("version ", "\n"),
        (Some(metric), Some(_)) if metric.starts_with("shedlock_") => ("_seconds", "\n"),
        _ => return line.to_owned(),
    };
    let Some((before, measured)) = line.split_once(start) else {
        return line.to_owned();
    };
    let rest = measured.find(end).map_or("", |at| &measured[at..]);
    let blanks = &measured[..measured.len() - measured.trim_start().len()];
    match measured.rsplit_once("} ") {
        Some((labels, _)) => format!("{before}{start}{labels}}} SECONDS"),
        None => format!("{before}{start}{blanks}…{rest}"),
    }
}

/// RFC 3339 in UTC, except [`FIXED`].
fn without_times(line: &str) -> String {
    const FORM: &str = "0000-00-00T00:00:00";
    let mut clean = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let form = rest.chars().take(FORM.len());
        let form: String = form
            .map(|char| if char.is_ascii_digit() { '0' } else { char })
            .collect();
        let end = rest.find('Z').map(|end| end + 1);
        match end.filter(|_| form == FORM) {
            Some(end) => {
                let time = &rest[..end];
                clean.push_str(if FIXED.contains(&time) { time } else { "TIME" });
                rest = &rest[end..];
            }
            None => {
                let next = rest.chars().next().map_or(0, char::len_utf8);
                clean.push_str(&rest[..next]);
                rest = &rest[next..];
            }
        }
    }
    clean
}
