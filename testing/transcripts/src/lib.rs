//! Replays transcripts: Markdown pages of what a user types and sees.
//!
//! `crates/cli/tests/transcripts/README.md` describes the format. A page has scenes (`page`), whose steps run in a
//! shell (`home`). What a step prints becomes a `screen`, which is compared with the page: its placeholders
//! (`placeholder`) each accept values of one kind, and the columns of its tables must be as straight as those of the
//! page (`columns`). The `recorder` writes what is printed into the page.

mod columns;
mod duration;
mod home;
mod page;
mod pattern;
mod placeholder;
mod recorder;
mod screen;
mod session;
mod shell;

pub use duration::{duration, parsed as parse_duration};
pub use home::{Home, Stage};
pub use page::{Page, Scene, Settings, Step};
pub use placeholder::{Facts, Moment};
pub use session::Session;

use std::fs;
use std::path::Path;

/// The variable that chooses the [`Mode`].
pub const VARIABLE: &str = "SHEDLOCK_TRANSCRIPTS";

/// What is done with a screen that differs from its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The test fails.
    Compare,
    /// The page is changed. Exit codes never are.
    Record,
}

impl Mode {
    /// What `SHEDLOCK_TRANSCRIPTS` and the argument `--record` ask for.
    ///
    /// # Errors
    /// Where `CI` is set, nothing is recorded; other words than `record` have no meaning.
    pub fn chosen(word: Option<&str>, is_ci: bool) -> Result<Self, String> {
        match word {
            None | Some("") => Ok(Self::Compare),
            Some("record") if is_ci => Err(format!(
                "{VARIABLE}=record is refused where CI is set: record on your machine, and read what changed"
            )),
            Some("record") => Ok(Self::Record),
            Some(word) => Err(format!("{VARIABLE} is \"{word}\": the only word is record")),
        }
    }

    /// The same from the environment of this process.
    ///
    /// # Errors
    /// As for [`Mode::chosen`].
    pub fn from_environment() -> Result<Self, String> {
        let word = std::env::var(VARIABLE).ok();
        Self::chosen(word.as_deref(), std::env::var_os("CI").is_some())
    }
}

/// Replays a page, each of its scenes on a stage of its own. In a build that lacks something, the first text of each
/// pair in `absent` is replaced by the second before the page is read, and nothing can be recorded.
///
/// # Errors
/// What differs, as a page with the expected and the actual lines.
pub fn replay<S: Stage>(
    path: &Path,
    mode: Mode,
    absent: &[(&str, &str)],
    mut stage: impl FnMut(&Settings) -> Result<S, String>,
) -> Result<(), String> {
    if mode == Mode::Record && !absent.is_empty() {
        return Err("only a build with all features records: add --all-features".to_owned());
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let without = |text: String, (present, absent): &(&str, &str)| text.replace(present, absent);
    let text = absent.iter().fold(text, without);
    let page = Page::read(&text).map_err(|error| format!("{}:{error}", path.display()))?;
    let mut played = Played::new(path, mode);
    for scene in &page.scenes {
        let stage = match stage(&scene.settings) {
            Ok(stage) => stage,
            Err(error) => return Err(format!("{}: {}: {error}", path.display(), scene.title)),
        };
        let mut session = Session::new(stage.facts());
        played.scene(&page, scene, &stage, &mut session);
    }
    played.end(&page)
}

/// Replays a page whose scenes continue each other on this stage: those that are not only for other stores.
///
/// # Errors
/// As for [`replay`].
pub fn replay_story(
    path: &Path,
    mode: Mode,
    stage: &impl Stage,
    is_played: impl Fn(&Settings) -> bool,
) -> Result<(), String> {
    one_after_the_other(path, mode, stage, Session::new(stage.facts()), is_played)
}

/// Replays a page whose scenes continue each other on this stage, and whose values are examples, not placeholders.
///
/// # Errors
/// As for [`replay`].
pub fn replay_examples(path: &Path, mode: Mode, stage: &impl Stage) -> Result<(), String> {
    let session = Session::of_examples(stage.facts());
    one_after_the_other(path, mode, stage, session, |_| true)
}

fn one_after_the_other(
    path: &Path,
    mode: Mode,
    stage: &impl Stage,
    mut session: Session,
    is_played: impl Fn(&Settings) -> bool,
) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let page = Page::read(&text).map_err(|error| format!("{}:{error}", path.display()))?;
    let mut played = Played::new(path, mode);
    for scene in page
        .scenes
        .iter()
        .filter(|scene| is_played(&scene.settings))
    {
        played.scene(&page, scene, stage, &mut session);
    }
    played.end(&page)
}

/// How a page went so far.
struct Played<'a> {
    path: &'a Path,
    mode: Mode,
    wrong: String,
    recorded: Vec<(usize, Vec<String>)>,
}

impl<'a> Played<'a> {
    fn new(path: &'a Path, mode: Mode) -> Self {
        Self {
            path,
            mode,
            wrong: String::new(),
            recorded: Vec::new(),
        }
    }

    /// Plays the steps of a scene up to the first that differs: those that follow depend on it.
    fn scene(&mut self, page: &Page, scene: &Scene, stage: &impl Stage, session: &mut Session) {
        for step in &scene.steps {
            let played = session.play(page, scene, step, stage, self.mode);
            match played {
                Ok(None) => {}
                Ok(Some(lines)) => self.recorded.push((step.index, lines)),
                Err(wrong) => {
                    let place = format!("{}:{}", self.path.display(), step.line + 1);
                    self.wrong
                        .push_str(&format!("{place}: {}\n{wrong}\n", scene.title));
                    return;
                }
            }
        }
    }

    fn end(self, page: &Page) -> Result<(), String> {
        if !self.recorded.is_empty() {
            let text = page.with(&self.recorded);
            fs::write(self.path, text).map_err(|error| error.to_string())?;
        }
        match self.wrong.is_empty() {
            true => Ok(()),
            false => Err(self.wrong),
        }
    }
}
