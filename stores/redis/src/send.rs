//! Scripts and commands on their way.

use redis::{Cmd, FromRedisValue, ServerErrorKind};
use shedlock_core::Error;

use crate::confirm::{Confirmation, Shortfall};
use crate::connections::{Connections, Node};
use crate::explain::{explain, malformed};
use crate::found::Found;
use crate::key::Pair;
use crate::script::Script;

/// Runs a script on the keys of one lock, by its hash; a server that does not know it is sent it
/// whole, once.
pub(crate) async fn run(
    connections: &Connections,
    script: &Script,
    pair: &Pair,
    arguments: &[&str],
) -> Result<Found, Error> {
    let by_hash = call("EVALSHA", &script.hash, pair, arguments);
    let answer = match connections.send(&by_hash).await {
        Err(failure) if is_unknown_script(failure.error()) => {
            let whole = call("EVAL", script.text, pair, arguments);
            connections.send(&whole).await
        }
        answer => answer,
    };
    let value = answer.map_err(|failure| explain(failure, script.writes))?;
    Found::parse(value)
}

/// The same, and then waits for replicas; also where the script has changed nothing.
pub(crate) async fn run_confirmed(
    connections: &Connections,
    script: &Script,
    pair: &Pair,
    arguments: &[&str],
    wanted: Confirmation,
) -> Result<(Found, Option<Shortfall>), Error> {
    let by_hash = call("EVALSHA", &script.hash, pair, arguments);
    let send = |call| connections.send_both(&pair.lock, [call, wanted.command()]);
    let answer = match send(by_hash).await {
        Err(failure) if is_unknown_script(failure.error()) => {
            send(call("EVAL", script.text, pair, arguments)).await
        }
        answer => answer,
    };
    let (value, waited) = answer.map_err(|failure| explain(failure, script.writes))?;
    Ok((Found::parse(value)?, wanted.shortfall(waited)))
}

/// Asks one server what names no key, and changes nothing.
pub(crate) async fn ask<T: FromRedisValue>(
    connections: &Connections,
    node: &Node,
    command: &Cmd,
) -> Result<T, Error> {
    let answer = connections.send_to(node, command).await;
    let value = answer.map_err(|failure| explain(failure, false))?;
    T::from_redis_value(value).map_err(malformed)
}

/// The servers that can be asked.
pub(crate) async fn nodes(connections: &Connections) -> Result<Vec<Node>, Error> {
    let nodes = connections.nodes().await;
    nodes.map_err(|failure| explain(failure, false))
}

fn call(command: &str, script: &str, pair: &Pair, arguments: &[&str]) -> Cmd {
    let words = [command, script, &pair.lock, &pair.companion];
    let length: usize = words.iter().chain(arguments).map(|word| word.len()).sum();
    let mut call = Cmd::with_capacity(words.len() + 1 + arguments.len(), length + 1);
    call.arg(command)
        .arg(script)
        .arg(2)
        .arg(&pair.lock)
        .arg(&pair.companion)
        .arg(arguments);
    call
}

fn is_unknown_script(error: &redis::RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
}
