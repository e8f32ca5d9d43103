//! A page: its scenes, and where their steps are in its text.

use std::collections::BTreeMap;
use std::ops::Range;

/// The exit code that a step shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    /// `[exit ?]`: to be recorded.
    Unknown,
}

/// What a scene says about its stage, like `store: none`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    const KEYS: [&str; 3] = ["columns", "store", "stores"];

    /// The value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The columns of the terminal, if the scene has one.
    #[must_use]
    pub fn columns(&self) -> Option<u16> {
        self.get("columns").and_then(|columns| columns.parse().ok())
    }
}

/// A heading and the steps below it.
#[derive(Debug)]
pub struct Scene {
    /// The heading.
    pub title: String,
    /// What was set above its first step.
    pub settings: Settings,
    /// In the order of the page.
    pub steps: Vec<Step>,
}

/// A command line and what it prints.
#[derive(Debug)]
pub struct Step {
    pub(crate) index: usize,
    /// The line of the page that has the prompt.
    pub(crate) line: usize,
    /// What is typed, several lines if the first one is continued.
    pub command: String,
    /// The lines of the page with the output, the exit code excluded.
    pub(crate) output: Range<usize>,
    /// Up to the next step or the end of the block.
    pub(crate) end: usize,
    pub(crate) exit: Exit,
}

/// A page of scenes.
#[derive(Debug)]
pub struct Page {
    lines: Vec<String>,
    /// In the order of the page.
    pub scenes: Vec<Scene>,
}

const PROMPT: &str = "$ ";
const CONTINUED: &str = "> ";
const FENCE: &str = "```";

impl Page {
    /// Finds the scenes in this text.
    ///
    /// # Errors
    /// The line and what is wrong in it.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut reader = Reader::new(&lines);
        let mut at = 0;
        while at < lines.len() {
            at = reader
                .line(at)
                .map_err(|error| format!("{}: {error}", at + 1))?;
        }
        let mut scenes = reader.scenes;
        scenes.retain(|scene| !scene.steps.is_empty());
        Ok(Self { lines, scenes })
    }

    pub(crate) fn output(&self, step: &Step) -> &[String] {
        &self.lines[step.output.clone()]
    }

    /// The text with these lines below the commands of these steps.
    pub(crate) fn with(&self, recorded: &[(usize, Vec<String>)]) -> String {
        let steps = self.scenes.iter().flat_map(|scene| &scene.steps);
        let mut text = String::new();
        let mut at = 0;
        let mut push = |lines: &[String]| {
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
        };
        for step in steps {
            let Some((_, lines)) = recorded.iter().find(|(index, _)| *index == step.index) else {
                continue;
            };
            push(&self.lines[at..step.output.start]);
            push(lines);
            at = step.end;
        }
        push(&self.lines[at..]);
        text
    }
}

struct Reader<'a> {
    lines: &'a [String],
    of_page: Settings,
    scenes: Vec<Scene>,
    steps: usize,
}

impl<'a> Reader<'a> {
    fn new(lines: &'a [String]) -> Self {
        Self {
            lines,
            of_page: Settings::default(),
            scenes: Vec::new(),
            steps: 0,
        }
    }

    /// Reads what begins in this line. Returns the line after it.
    fn line(&mut self, at: usize) -> Result<usize, String> {
        let line = self.lines[at].as_str();
        if let Some(title) = line.strip_prefix("## ") {
            self.scenes.push(Scene {
                title: title.to_owned(),
                settings: self.of_page.clone(),
                steps: Vec::new(),
            });
        } else if let Some(kind) = line.strip_prefix(FENCE) {
            let end = self.lines[at + 1..]
                .iter()
                .position(|line| line.starts_with(FENCE));
            let end = at + 1 + end.ok_or("the block is not closed")?;
            if kind == "console" {
                self.block(at + 1..end)?;
            }
            return Ok(end + 1);
        } else if let Some((key, value)) = setting(line) {
            self.set(key, value)?;
        }
        Ok(at + 1)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if !Settings::KEYS.contains(&key) {
            return Err(format!("\"{key}\" is no setting: {:?}", Settings::KEYS));
        }
        let settings = match self.scenes.last_mut() {
            Some(scene) if !scene.steps.is_empty() => {
                return Err("a setting stands above the first step of its scene".to_owned());
            }
            Some(scene) => &mut scene.settings,
            None => &mut self.of_page,
        };
        settings.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn block(&mut self, block: Range<usize>) -> Result<(), String> {
        let scene = self.scenes.last_mut().ok_or("a block without a heading")?;
        let mut at = block.start;
        while at < block.end {
            let first = self.lines[at].strip_prefix(PROMPT);
            let mut command = first
                .ok_or("a block begins with \"$ \" and a command")?
                .to_owned();
            let line = at;
            at += 1;
            while at < block.end && is_continued(&self.lines[at]) {
                command.push('\n');
                command.push_str(self.lines[at].strip_prefix(CONTINUED).unwrap_or_default());
                at += 1;
            }
            let start = at;
            while at < block.end && !self.lines[at].starts_with(PROMPT) {
                at += 1;
            }
            let exit = self.lines[start..at].last().and_then(|line| exit(line));
            scene.steps.push(Step {
                index: self.steps,
                line,
                command,
                output: start..at - usize::from(exit.is_some()),
                end: at,
                exit: exit.unwrap_or(Exit::Code(0)),
            });
            self.steps += 1;
        }
        Ok(())
    }
}

fn is_continued(line: &str) -> bool {
    line.starts_with(CONTINUED) || line == CONTINUED.trim_end()
}

/// A paragraph that is nothing but `key: value` in code font.
fn setting(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('`')?.strip_suffix('`')?.split_once(": ")
}

fn exit(line: &str) -> Option<Exit> {
    match line.strip_prefix("[exit ")?.strip_suffix(']')? {
        "?" => Some(Exit::Unknown),
        code => code.parse().ok().map(Exit::Code),
    }
}

/// Whether a page cannot show this line of an output: it would be read as something else.
pub(crate) fn is_misread(line: &str) -> bool {
    line.starts_with(PROMPT)
        || line.starts_with(FENCE)
        || is_continued(line)
        || exit(line).is_some()
}
