//! Plays the steps of scenes, and compares what they print with the page.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::home::Stage;
use crate::page::{Exit, Page, Scene, Step, is_misread};
use crate::pattern::Pattern;
use crate::placeholder::{Context, Facts, Moment, Placeholder};
use crate::recorder::Recorder;
use crate::screen::{Printed, difference};
use crate::shell::{self, Group};
use crate::{Mode, columns, duration};

/// The password of the URLs in pages. Nothing prints it.
const SECRET: &str = "geheim";

/// Steps that share a home: what they have captured, and the processes that they left running.
#[derive(Debug)]
pub struct Session {
    facts: Facts,
    began: Timestamp,
    captured: BTreeMap<String, String>,
    is_example: bool,
    typed: Vec<Duration>,
    groups: Vec<Group>,
}

impl Session {
    /// A session on a stage with these facts.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            began: Timestamp::now(),
            captured: BTreeMap::new(),
            is_example: false,
            typed: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// A session whose pages show values, not placeholders.
    #[must_use]
    pub fn of_examples(facts: Facts) -> Self {
        let mut session = Self::new(facts);
        session.is_example = true;
        session
    }

    /// Plays a step. Returns the lines to write below its command, if they change.
    pub(crate) fn play(
        &mut self,
        page: &Page,
        scene: &Scene,
        step: &Step,
        stage: &impl Stage,
        mode: Mode,
    ) -> Result<Option<Vec<String>>, String> {
        let line = self.substituted(&step.command)?;
        let words = line.split(|char: char| !char.is_ascii_alphanumeric() && char != '.');
        self.typed.extend(words.filter_map(duration::parsed));
        let columns = scene.settings.columns().or_else(|| stage.columns());
        let command = stage.command(&line, columns);
        let (printed, group) = shell::run(command, stage.outputs())?;
        self.groups.push(group);
        let screen = match columns {
            Some(_) => printed.terminal(),
            None => printed.screen(),
        };
        if screen.iter().any(|line| line.contains(SECRET)) {
            return Err(format!(
                "the password is on the screen:\n{}",
                screen.join("\n")
            ));
        }
        self.judge(page, step, &printed, &screen, mode)
    }

    fn judge(
        &mut self,
        page: &Page,
        step: &Step,
        printed: &Printed,
        screen: &[String],
        mode: Mode,
    ) -> Result<Option<Vec<String>>, String> {
        let expected = page.output(step);
        let compared = self.compare(expected, screen);
        let is_recorded = mode == Mode::Record;
        match step.exit {
            Exit::Unknown if is_recorded => {}
            Exit::Unknown => return Err("[exit ?] is for the recorder".to_owned()),
            Exit::Code(code) if code == printed.code => {}
            // A code is a promise: who changes it, writes it.
            Exit::Code(code) => {
                let screen = screen.join("\n  + ");
                let code = format!(
                    "exit {}, not {code}; it printed:\n  + {screen}",
                    printed.code
                );
                return Err(code);
            }
        }
        match compared {
            Ok(()) if step.exit != Exit::Unknown => Ok(None),
            Err(wrong) if !is_recorded => Err(wrong),
            _ => self.record(expected, printed, screen).map(Some),
        }
    }

    /// Replaces the placeholders of a command by what they stand for.
    fn substituted(&self, command: &str) -> Result<String, String> {
        let mut line = String::new();
        let mut rest = command;
        while let Some(at) = rest.find('{') {
            line.push_str(&rest[..at]);
            let Some((length, _)) = Placeholder::leading(&rest[at..]) else {
                line.push('{');
                rest = &rest[at + 1..];
                continue;
            };
            let name = &rest[at + 1..at + length - 1];
            let known = match name {
                "dir" => Some(self.facts.folder.as_str()),
                "host" => Some(self.facts.host.as_str()),
                _ => self
                    .facts
                    .named(name)
                    .or_else(|| self.captured.get(name).map(String::as_str)),
            };
            line.push_str(known.ok_or_else(|| format!("{{{name}}} has no value yet"))?);
            rest = &rest[at + length..];
        }
        Ok(line + rest)
    }

    fn moment(&self) -> Moment {
        Moment {
            began: self.began,
            now: Timestamp::now(),
        }
    }

    /// Whether this line of the page is that line of the screen. What it captures is kept if it is.
    pub(crate) fn matches(
        &mut self,
        pattern: &Pattern,
        line: &str,
        is_exact: bool,
    ) -> Result<Vec<(usize, usize)>, String> {
        let moment = self.moment();
        let mut captured = self.captured.clone();
        let mut context = Context {
            facts: &self.facts,
            moment,
            captured: &mut captured,
        };
        let cells = pattern.matches(line, is_exact, &mut context)?;
        self.captured = captured;
        Ok(cells)
    }

    pub(crate) fn pattern(&self, line: &str) -> Pattern {
        match self.is_example {
            true => Pattern::example(line),
            false => Pattern::read(line),
        }
    }

    fn compare(&mut self, expected: &[String], actual: &[String]) -> Result<(), String> {
        let patterns: Vec<Pattern> = expected.iter().map(|line| self.pattern(line)).collect();
        let is_exact = !patterns.iter().any(Pattern::is_open);
        let before = self.captured.clone();
        let mut cells = Vec::new();
        let mut why = String::new();
        for (pattern, line) in patterns.iter().zip(actual) {
            match self.matches(pattern, line, is_exact) {
                Ok(found) => cells.push(found),
                Err(wrong) => {
                    why = wrong;
                    break;
                }
            }
        }
        let start = cells.len();
        if start == expected.len() && start == actual.len() {
            return columns::check(&cells).map_err(|wrong| {
                self.captured.clone_from(&before);
                format!("{wrong}\n{}", difference(expected, actual, (0, 0)))
            });
        }
        let most = expected.len().min(actual.len()) - start;
        let is_same = |at: &usize| {
            let (pattern, line) = (
                &patterns[expected.len() - 1 - at],
                &actual[actual.len() - 1 - at],
            );
            self.matches(pattern, line, is_exact).is_ok()
        };
        let end = (0..most).take_while(is_same).count();
        self.captured = before;
        let shown = difference(expected, actual, (start, end));
        Err(format!("{why}\n{shown}"))
    }

    fn record(
        &mut self,
        old: &[String],
        printed: &Printed,
        screen: &[String],
    ) -> Result<Vec<String>, String> {
        if let Some(line) = screen.iter().find(|line| is_misread(line)) {
            return Err(format!("a page cannot show this line: {line}"));
        }
        let recorder = Recorder {
            facts: &self.facts.clone(),
            typed: &self.typed.clone(),
            moment: self.moment(),
        };
        let mut lines = match self.is_example {
            true => recorder.example(screen),
            false => recorder.lines(self, old, screen),
        };
        self.compare(&lines, screen)
            .map_err(|wrong| format!("what was recorded does not match itself: {wrong}"))?;
        if printed.code != 0 {
            lines.push(format!("[exit {}]", printed.code));
        }
        Ok(lines)
    }

    /// The name of this value, if it was captured.
    pub(crate) fn known(&self, kind: &str, value: &str) -> Option<String> {
        let mut captured = self.captured.iter();
        let found = captured.find(|(name, known)| name.starts_with(kind) && *known == value);
        found.map(|(name, _)| format!("{{{name}}}"))
    }

    /// A label that has no value yet, and which this value gets.
    pub(crate) fn label(&mut self, kind: &str, value: &str) -> String {
        let labels = ('a'..='z').map(|label| format!("{kind}:{label}"));
        let mut free = labels.filter(|name| !self.captured.contains_key(name));
        let name = free.next().unwrap_or_else(|| format!("{kind}:z"));
        self.captured.insert(name.clone(), value.to_owned());
        format!("{{{name}}}")
    }

    pub(crate) fn captured(&self) -> BTreeMap<String, String> {
        self.captured.clone()
    }

    pub(crate) fn restore(&mut self, captured: BTreeMap<String, String>) {
        self.captured = captured;
    }
}
