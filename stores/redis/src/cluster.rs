//! Commands to a cluster, sent to the server that has their keys.
//!
//! The client follows redirections by itself only if it also sends commands without a reply again, which an attempt must
//! not be. So they are followed here. Each of these replies proves that nothing was executed.

use std::time::Duration;

use redis::aio::ConnectionLike as _;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::SingleNodeRoutingInfo::{self, ByAddress, SpecificNode};
use redis::cluster_routing::{Route, SlotAddr};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use shedlock_core::{Clock as _, SystemClock};

/// How often a command is sent again for each of these reasons.
const AGAIN: usize = 3;

/// The first pause before a command is sent again. The client refreshes its map of the cluster meanwhile.
const PAUSE: Duration = Duration::from_millis(25);

/// Sends a command to the server that has its key.
pub(crate) async fn send(line: &ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    let (mut line, mut refused) = (line.clone(), Refused::default());
    loop {
        let sent = match refused.server() {
            None => line.req_packed_command(command).await,
            Some(server) => {
                let replies = line.route_pipeline(asking([command]), 1, 1, server).await;
                replies.map(|mut replies| replies.pop().unwrap_or(Value::Nil))
            }
        };
        match sent.and_then(Value::extract_error) {
            Err(error) if refused.goes_on(&error) => refused.pause().await,
            answer => return answer,
        }
    }
}

/// Sends two commands at once to the server that has this key.
pub(crate) async fn send_both(
    line: &ClusterConnection,
    key: &str,
    both: &Pipeline,
) -> RedisResult<Vec<Value>> {
    let (mut line, mut refused) = (line.clone(), Refused::default());
    loop {
        let sent = match refused.server() {
            None => {
                let server = SpecificNode(Route::with_key(key, SlotAddr::Master));
                line.route_pipeline(both.clone(), 0, 2, server).await
            }
            Some(server) => {
                let pipeline = asking(both.cmd_iter());
                line.route_pipeline(pipeline, 1, 2, server).await
            }
        };
        let first = |replies: Vec<Value>| match replies.first() {
            Some(Value::ServerError(error)) => Err(error.clone().into()),
            _ => Ok(replies),
        };
        match sent.and_then(first) {
            Err(error) if refused.goes_on(&error) => refused.pause().await,
            answer => return answer,
        }
    }
}

/// Whether the client had no connection to send the command on.
pub(crate) fn was_not_sent(error: &RedisError) -> bool {
    error.kind() == ErrorKind::ClusterConnectionNotFound
}

/// The refusals of one command so far.
#[derive(Default)]
struct Refused {
    kinds: Vec<ServerErrorKind>,
    /// The server that the last one named, if it was an `ASK`.
    ask: Option<SingleNodeRoutingInfo>,
}

impl Refused {
    /// Whether the command may be sent again after this error.
    fn goes_on(&mut self, error: &RedisError) -> bool {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain,
        };
        let ErrorKind::Server(kind) = error.kind() else {
            return false;
        };
        let times = self.kinds.iter().filter(|it| **it == kind).count();
        self.kinds.push(kind);
        self.ask = (kind == Ask).then(|| server(error)).flatten();
        let follows = [
            Moved,
            Ask,
            TryAgain,
            ClusterDown,
            BusyLoading,
            MasterDown,
            ReadOnly,
        ];
        follows.contains(&kind) && times < AGAIN
    }

    fn server(&self) -> Option<SingleNodeRoutingInfo> {
        self.ask.clone()
    }

    async fn pause(&self) {
        let times = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        let pause = PAUSE.saturating_mul(times);
        SystemClock.sleep_until(SystemClock.now() + pause).await;
    }
}

fn server(error: &RedisError) -> Option<SingleNodeRoutingInfo> {
    let (address, _) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let (host, port) = (host.to_owned(), port.parse().ok()?);
    Some(ByAddress { host, port })
}

fn asking<'a>(commands: impl IntoIterator<Item = &'a Cmd>) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.add_command(cmd("ASKING"));
    for command in commands {
        pipeline.add_command(command.clone());
    }
    pipeline
}
