//! The test target started once more, as another process over the same namespace.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::harness::BoxError;
use crate::verdict::chain;
use crate::wait::{PATIENCE, bounded, now, sleep};
use crate::{Harness, Provider, Stop, TestContext, remote_client, worker};

/// Tells a process that it is a child, and which.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_CHILD";

/// What a child process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    harness: String,
    spec: String,
    role: Role,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Does what it is told on its standard input, call by call.
    RemoteClient,
    /// Takes and frees locks on its own until it is stopped, and writes a log.
    Worker(worker::WorkerSpec),
}

/// Plays a child's part, if this process was started as one by a case; `None` otherwise.
///
/// [`main`](crate::main) does so by itself. With a runner of your own, call it first thing in the
/// `main` of the same executable.
#[must_use]
pub fn play_child(harnesses: &[Arc<dyn Harness>]) -> Option<ExitCode> {
    let part = std::env::var(VARIABLE).ok()?;
    Some(match play(harnesses, &part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("child process: {}", chain(&*error))),
    })
}

fn play(harnesses: &[Arc<dyn Harness>], part: &str) -> Result<(), BoxError> {
    let part: Part = serde_json::from_str(part)?;
    let harness = harnesses
        .iter()
        .find(|harness| harness.name() == part.harness)
        .ok_or("the harness of this name is not in this executable")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let played = runtime.block_on(async {
        match part.role {
            Role::RemoteClient => remote_client::play(&open(harness, &part.spec).await?).await,
            Role::Worker(spec) => {
                let provider = open_while_it_may_be_down(harness, &part.spec).await?;
                worker::play(provider, spec).await
            }
        }
    });
    // Whoever reads the standard input may go on for ever, and an error has to be told now.
    runtime.shutdown_background();
    played
}

/// How long a worker waits for its connection before it begins anew: one that has fallen silent on
/// the way tells nobody.
const CONNECTING: Duration = Duration::from_secs(10);

/// A worker may be started while the store has crashed and is not back yet, or while the way there
/// is cut.
async fn open_while_it_may_be_down(
    harness: &Arc<dyn Harness>,
    spec: &str,
) -> Result<Provider, BoxError> {
    let started = now();
    loop {
        let opened = bounded(CONNECTING, open(harness, spec)).await;
        let may_wait = now().saturating_since(started) < PATIENCE;
        match opened {
            Some(Ok(provider)) => return Ok(provider),
            _ if may_wait => sleep(Duration::from_millis(100)).await,
            Some(refused) => return refused,
            None => return Err("the store could not be reached in time".into()),
        }
    }
}

async fn open(harness: &Arc<dyn Harness>, spec: &str) -> Result<Provider, BoxError> {
    harness
        .open_child(spec)
        .ok_or("Namespace::child_spec gives a description that Harness::open_child does not take")?
        .await
}

/// A command that starts this executable again in this role, over the context's namespace: through this
/// address, where one is given, and that other executable, which is of an earlier version, likewise.
pub(crate) fn command(
    context: &TestContext,
    role: Role,
    via: Option<SocketAddr>,
    old: Option<&Path>,
) -> Result<tokio::process::Command, Stop> {
    let namespace = context.namespace();
    let spec = match via {
        None => namespace.child_spec().ok_or("Namespace::child_spec"),
        Some(addr) => namespace
            .child_spec_via(addr)
            .ok_or("Namespace::child_spec_via, through a proxy"),
    };
    let spec = spec.map_err(|lacks| {
        Stop::not_applicable(format!(
            "the harness cannot open a namespace from another process ({lacks})"
        ))
    })?;
    let part = Part {
        harness: context.harness().name().to_owned(),
        spec,
        role,
    };
    let executable = match old {
        Some(old) => old.to_owned(),
        None => std::env::current_exe()?,
    };
    let mut command = tokio::process::Command::new(executable);
    command
        .env(VARIABLE, serde_json::to_string(&part)?)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}

#[expect(
    clippy::print_stderr,
    reason = "this is the main function of a child process"
)]
fn complain(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
