//! One input, and the verdict of a target on it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// How many times the minimizer tries to make an input smaller.
const TRIES: usize = 20_000;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Case;

impl Case {
    /// Whether all promises hold for this input; otherwise the message of the first broken one.
    pub(crate) fn of(target: fn(&[u8]), bytes: &[u8]) -> Result<(), String> {
        be_quiet();
        IS_QUIET.set(true);
        let done = panic::catch_unwind(AssertUnwindSafe(|| target(bytes)));
        IS_QUIET.set(false);
        done.map_err(|said| message(&*said))
    }

    /// Returns the smallest input found that breaks a promise, and the message.
    pub(crate) fn smallest(
        target: fn(&[u8]),
        mut bytes: Vec<u8>,
        begins: impl Fn(&[u8]),
    ) -> (Vec<u8>, String) {
        let mut tries = 0;
        let mut size = bytes.len().div_ceil(2);
        while size > 0 && tries < TRIES {
            let mut at = 0;
            while at < bytes.len() && tries < TRIES {
                tries += 1;
                let mut less = bytes.clone();
                less.drain(at..(at + size).min(bytes.len()));
                begins(&less);
                if Self::of(target, &less).is_err() {
                    bytes = less;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        let said = Self::of(target, &bytes).err().unwrap_or_default();
        (bytes, said)
    }
}

/// Prints a broken promise once, at the end, and not each panic on the way.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                others(info);
            }
        }));
    });
}

fn message(said: &(dyn Any + Send)) -> String {
    let text = said.downcast_ref::<String>().cloned();
    let text = text.or_else(|| said.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
