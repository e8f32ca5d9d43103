//! The scripts. Each implements one call of the store's contract.

use std::sync::LazyLock;

use redis::{Cmd, ErrorKind, ServerErrorKind, Value, cmd};
use shedlock_store::Result;

use crate::codec::Found;
use crate::confirm::{Confirmation, Shortfall};
use crate::connections::{Connections, Failure};
use crate::explain::explain;
use crate::key::Pair;

pub(crate) struct Script {
    text: &'static str,
    hash: String,
    /// Whether the script may have changed something if its reply is lost.
    writes: bool,
}

/// Each script is assembled from these parts only as needed, because unused parts would cost time.
macro_rules! script {
    ($name:ident, $writes:literal, $($part:literal),+) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            const TEXT: &str = concat!($(include_str!(concat!("scripts/", $part, ".lua"))),+);
            let hash = redis::Script::new(TEXT).get_hash().to_owned();
            Script { text: TEXT, hash, writes: $writes }
        });
    };
}

script!(
    ATTEMPT, true, "common", "less", "answer", "attempt", "take", "won"
);
script!(EXTEND, true, "common", "extend");
script!(FINISH, true, "common", "finish");
script!(FORCE, true, "common", "force");
script!(INSPECT, false, "common", "answer", "inspect");
script!(PAUSE, true, "common", "less", "pause", "take", "done");
script!(REMOVE, true, "remove");
script!(FORBIDDEN, false, "forbidden");
script!(RESET, true, "reset");
script!(UNDO, true, "common", "undo");

script!(RECORD, true, "journal/common", "less", "journal/record");
script!(JOBS, false, "journal/common", "journal/jobs");
script!(PAGE, false, "journal/common", "journal/page");
script!(PRUNE, true, "journal/common", "journal/prune");
script!(FORGET, true, "journal/common", "journal/forget");

impl Script {
    /// Runs the script on the keys of one lock, by its hash. If the server does not have the script, it is sent as a
    /// whole, once. Then waits for the required replicas, even if the script has changed nothing.
    pub(crate) async fn run(
        &self,
        connections: &Connections,
        pair: &Pair,
        arguments: &[impl AsRef<[u8]>],
        wanted: Option<Confirmation>,
    ) -> Result<(Found, Option<Shortfall>)> {
        let keys = [&*pair.lock, &*pair.companion];
        let send = async |command, script| {
            let call = call(command, script, &keys, arguments);
            let Some(wanted) = wanted else {
                return Ok((connections.send(&call, None).await?, None));
            };
            let both = [call, wanted.command()];
            let (answer, waited) = connections.send_both(&pair.lock, both).await?;
            Ok((answer, wanted.shortfall(waited)))
        };
        let answer = match send("EVALSHA", &self.hash).await {
            Err(failure) if is_unknown_script(&failure) => send("EVAL", self.text).await,
            answer => answer,
        };
        let (reply, shortfall) = answer.map_err(|failure| explain(failure, self.writes))?;
        Ok((Found::parse(reply)?, shortfall))
    }

    /// Runs the script on these keys, which are in one hash slot.
    pub(crate) async fn run_on(
        &self,
        connections: &Connections,
        keys: &[String],
        arguments: &[impl AsRef<[u8]>],
    ) -> Result<Value> {
        let send = async |command, script| {
            let call = call(command, script, keys, arguments);
            connections.send(&call, None).await
        };
        let answer = match send("EVALSHA", &self.hash).await {
            Err(failure) if is_unknown_script(&failure) => send("EVAL", self.text).await,
            answer => answer,
        };
        answer.map_err(|failure| explain(failure, self.writes))
    }
}

fn call(
    command: &str,
    script: &str,
    keys: &[impl AsRef<str>],
    arguments: &[impl AsRef<[u8]>],
) -> Cmd {
    let mut call = cmd(command);
    call.arg(script).arg(keys.len());
    for key in keys {
        call.arg(key.as_ref());
    }
    for argument in arguments {
        call.arg(argument.as_ref());
    }
    call
}

fn is_unknown_script(failure: &Failure) -> bool {
    failure.error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::Owner;

    /// The scripts contain the mark as a literal.
    #[test]
    fn the_mark_of_an_unlock_is_the_cores() {
        let mark = format!("'{}'", Owner::released_text(""));
        assert!(FINISH.text.contains(&mark) && UNDO.text.contains(&mark[1..]));
    }
}
