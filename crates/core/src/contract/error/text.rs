//! The text of an error.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{Effect, Error, Inner};
use crate::contract::advice::{Advice, write_steps};
use crate::contract::error_text;

/// Recognizes the failure of something that is tried again, so that it is reported once.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct LastFailure(Option<u64>);

impl LastFailure {
    /// Returns whether the last failure was another one, or there was none. The address does not count as one: the servers
    /// of a store take turns.
    pub fn is_news(&mut self, error: &Error) -> bool {
        let mut hasher = DefaultHasher::new();
        (error.kind(), format!("{:#}", error.reason())).hash(&mut hasher);
        let hash = hasher.finish();
        self.0.replace(hash) != Some(hash)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_failure(f, self.lock())?;
        self.write_advice(f, "; ", |_| true)
    }
}

/// A part of an error, in words.
struct Part<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Part<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0(f)
    }
}

impl Error {
    /// Prints all but the advice, with `{:#}` as the error does.
    #[doc(hidden)]
    pub fn failure(&self) -> impl fmt::Display {
        Part(|f: &mut fmt::Formatter<'_>| self.write_failure(f, self.lock()))
    }

    /// Prints what failed, and with `{:#}` why.
    #[doc(hidden)]
    pub fn reason(&self) -> impl fmt::Display {
        Part(|f: &mut fmt::Formatter<'_>| self.write_reason(f))
    }

    /// Prints the advice: its steps in one sentence.
    #[doc(hidden)]
    pub fn steps(&self) -> impl fmt::Display {
        Part(|f: &mut fmt::Formatter<'_>| self.write_advice(f, "", |_| true))
    }

    /// Prints the error for a text that names this lock already, and whose reader has nothing to retry.
    #[doc(hidden)]
    pub fn cause<'a>(&'a self, of: &'a str) -> impl fmt::Display {
        Part(move |f: &mut fmt::Formatter<'_>| {
            self.write_failure(f, self.lock().filter(|lock| *lock != of))?;
            self.write_advice(f, "; ", |step| {
                !matches!(step, Advice::Retry | Advice::RetryLater)
            })
        })
    }

    /// Writes where it happened, what failed, with `{:#}` why, and its effect.
    fn write_failure(&self, f: &mut fmt::Formatter<'_>, lock: Option<&str>) -> fmt::Result {
        let Inner {
            effect,
            store,
            address,
            ..
        } = &*self.0;
        if let Some(lock) = lock {
            write!(f, "lock {lock:?}")?;
        }
        if let Some(store) = store {
            let before = if lock.is_some() { " in " } else { "" };
            write!(f, "{before}{store}")?;
            if let Some(address) = address {
                write!(f, " at {address}")?;
            }
        }
        if lock.is_some() || store.is_some() {
            f.write_str(": ")?;
        }
        self.write_reason(f)?;
        f.write_str(match effect {
            Some(Effect::NothingWritten) => "; nothing was written",
            Some(Effect::MayHaveTakenEffect) => "; the call may have taken effect",
            None => "",
        })
    }

    fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        if f.alternate() {
            self.write_sources(f)?;
        }
        Ok(())
    }

    fn write_advice(
        &self,
        f: &mut fmt::Formatter<'_>,
        before: &'static str,
        is_wanted: impl Fn(&Advice) -> bool,
    ) -> fmt::Result {
        let steps = self.0.advice.iter().filter(|step| is_wanted(step));
        write_steps(f, before, steps)
    }

    /// Writes the sources, on one line. Many clients repeat the text of a source in the error around
    /// it: what was `written` is not written again.
    fn write_sources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = self.0.what.clone().into_owned();
        let mut write = |text: &str| {
            let text = one_line(text);
            let text = text.trim_end_matches('.');
            if written.contains(text) {
                return Ok(());
            }
            written.push_str(text);
            write!(f, ": {text}")
        };
        if let Some(reason) = &self.0.reason {
            return write(reason);
        }
        let mut next = self.source();
        while let Some(source) = next {
            next = source.source();
            // What to do about it is for the caller of its own call.
            let Some(ours) = source.downcast_ref::<Self>() else {
                write(&error_text(&format_args!("{source}")))?;
                continue;
            };
            write(&ours.0.what)?;
            if let Some(reason) = &ours.0.reason {
                return write(reason);
            }
        }
        Ok(())
    }
}

/// The text with a blank in place of each run of line breaks and other control characters, which may
/// come from a server.
fn one_line(text: &str) -> String {
    let lines = text.split(char::is_control).map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug
            .field("kind", &self.0.kind)
            .field("what", &self.0.what);
        if let Some(effect) = &self.0.effect {
            debug.field("effect", effect);
        }
        if !self.0.advice.is_empty() {
            debug.field("advice", &self.0.advice);
        }
        if let Some(lock) = &self.0.lock {
            debug.field("lock", lock);
        }
        if let Some(store) = &self.0.store {
            debug.field("store", store);
        }
        if let Some(address) = &self.0.address {
            debug.field("address", address);
        }
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}
