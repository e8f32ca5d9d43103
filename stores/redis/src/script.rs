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

/// Each begins with the common part.
macro_rules! script {
    ($name:ident, $file:literal, $writes:literal) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            const TEXT: &str = concat!(
                include_str!("script/common.lua"),
                include_str!(concat!("script/", $file))
            );
            Script::new(TEXT, $writes)
        });
    };
}

script!(ATTEMPT, "attempt.lua", true);
script!(EXTEND, "extend.lua", true);
script!(FINISH, "finish.lua", true);
script!(FORCE, "force.lua", true);
script!(INSPECT, "inspect.lua", false);
script!(RESET, "reset.lua", true);
script!(UNDO, "undo.lua", true);
