//! The scripts. Each implements one call of the store's contract.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use redis::{Cmd, ErrorKind, ServerErrorKind, Value, cmd};
use shedlock_provider::Result;

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

script!(READ, false, "journal/common", "journal/read");
script!(WRITE, true, "journal/common", "journal/write");
script!(JOBS, false, "journal/common", "journal/jobs");
script!(PAGE, false, "journal/common", "journal/page");
script!(PRUNE, true, "journal/common", "journal/prune");
script!(FORGET, true, "journal/common", "journal/forget");

impl Script {
    /// Runs the script on the keys of one lock. Then waits for the required replicas, even if the script has changed
    /// nothing.
    pub(crate) async fn run(
        &self,
        connections: &Connections,
        pair: &Pair,
        arguments: &[impl AsRef<[u8]> + Sync],
        wanted: Option<Confirmation>,
    ) -> Result<(Found, Option<Shortfall>)> {
        let keys = [&*pair.lock, &*pair.companion];
        let answer = self.answer(connections, &keys, arguments, wanted);
        let (reply, shortfall) = answer.await?;
        Ok((Found::parse(reply)?, shortfall))
    }

    /// Runs the script on these keys, which are in one hash slot.
    pub(crate) async fn run_on(
        &self,
        connections: &Connections,
        keys: &[String],
        arguments: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Value> {
        let (reply, _) = self.answer(connections, keys, arguments, None).await?;
        Ok(reply)
    }

    /// A script that only reads is sent by the other command if the user may not run the first one: one who may not
    /// write keys may not run `EVALSHA`, and Redis before 7 has no other. What succeeded is used from then on.
    async fn answer(
        &self,
        connections: &Connections,
        keys: &[impl AsRef<str> + Sync],
        arguments: &[impl AsRef<[u8]> + Sync],
        wanted: Option<Confirmation>,
    ) -> Result<(Value, Option<Shortfall>)> {
        let sent = |only_reads| self.sent(connections, only_reads, keys, arguments, wanted);
        let only_reads = !self.writes && connections.only_reads.load(Ordering::Relaxed);
        let answer = match sent(only_reads).await {
            Err(failure) if !self.writes && is_forbidden(&failure) => {
                match sent(!only_reads).await {
                    Ok(reply) => {
                        connections.only_reads.store(!only_reads, Ordering::Relaxed);
                        Ok(reply)
                    }
                    Err(_) => Err(failure),
                }
            }
            answer => answer,
        };
        answer.map_err(|failure| explain(failure, self.writes))
    }

    /// Sends the script by its hash. If the server does not have it, it is sent as a whole, once.
    async fn sent(
        &self,
        connections: &Connections,
        only_reads: bool,
        keys: &[impl AsRef<str> + Sync],
        arguments: &[impl AsRef<[u8]> + Sync],
        wanted: Option<Confirmation>,
    ) -> Sent {
        let (by_hash, whole) = match only_reads {
            true => ("EVALSHA_RO", "EVAL_RO"),
            false => ("EVALSHA", "EVAL"),
        };
        let send = |command, script| {
            let call = call(command, script, keys, arguments);
            send(connections, call, keys, wanted)
        };
        match send(by_hash, &self.hash).await {
            Err(failure) if is_unknown_script(&failure) => send(whole, self.text).await,
            answer => answer,
        }
    }
}

type Sent = std::result::Result<(Value, Option<Shortfall>), Failure>;

async fn send(
    connections: &Connections,
    call: Cmd,
    keys: &[impl AsRef<str> + Sync],
    wanted: Option<Confirmation>,
) -> Sent {
    let (Some(wanted), Some(key)) = (wanted, keys.first()) else {
        return Ok((connections.send(&call, None).await?, None));
    };
    let both = [call, wanted.command()];
    let (answer, waited) = connections.send_both(key.as_ref(), both).await?;
    Ok((answer, wanted.shortfall(waited)))
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

fn is_forbidden(failure: &Failure) -> bool {
    failure.error.code() == Some("NOPERM")
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
