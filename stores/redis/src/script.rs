//! The scripts: each is one call of the contract.

use std::sync::LazyLock;

/// A script, and what the server calls it.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: String,
    /// Whether it may have changed something when its answer is lost.
    pub(crate) writes: bool,
}

impl Script {
    fn new(text: &'static str, writes: bool) -> Self {
        let hash = redis::Script::new(text).get_hash().to_owned();
        Self { text, hash, writes }
    }
}

/// Each is put together of these parts: what it does not need would cost it time.
macro_rules! script {
    ($name:ident, $writes:literal, $($part:literal),+) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            const TEXT: &str = concat!($(include_str!(concat!("script/", $part, ".lua"))),+);
            Script::new(TEXT, $writes)
        });
    };
}

script!(ATTEMPT, true, "common", "answer", "attempt");
script!(EXTEND, true, "common", "extend");
script!(FINISH, true, "common", "finish");
script!(FORCE, true, "common", "answer", "force");
script!(INSPECT, false, "common", "answer", "inspect");
script!(RESET, true, "common", "answer", "reset");
script!(UNDO, true, "common", "undo");

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::Owner;

    /// The scripts write it by themselves.
    #[test]
    fn the_mark_of_an_unlock_is_the_cores() {
        let mark = format!("'{}'", Owner::released_text(""));
        assert!(FINISH.text.contains(&mark) && UNDO.text.contains(&mark[1..]));
    }
}
