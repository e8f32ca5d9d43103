//! Other processes over the namespace of a case: the test target's own executable, started again in
//! a role.
//!
//! The kit's built-in role is a client that executes the calls that a case sends to it. A crate
//! with its own cases adds roles to its [`Runner`](crate::Runner::child) and starts them with
//! [`command`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shedlock_core::BoxFuture;
use tokio::process::Command;

use crate::harness::BoxError;
pub use crate::signal::{go_on, stop};
use crate::verdict::chain;
use crate::{Harness, Provider, Stop, TestContext, remote_client};

/// The environment variable that marks a process as a child and contains its role.
const VARIABLE: &str = "SHEDLOCK_CONFORMANCE_CHILD";

/// What a child process has to do.
#[derive(Debug, Deserialize)]
struct Part {
    harness: String,
    spec: String,
    /// A single entry: the role and its argument.
    role: BTreeMap<String, Value>,
}

/// Opens providers over the namespace of the case that started this process.
#[derive(Clone)]
pub struct Opener {
    harness: Arc<dyn Harness>,
    spec: String,
}

impl Opener {
    /// Opens a provider over the namespace.
    ///
    /// # Errors
    /// If the store is unreachable.
    pub async fn open(&self) -> Result<Provider, BoxError> {
        self.harness
            .open_child(&self.spec)
            .ok_or(
                "Harness::open_child does not accept the description that Namespace::child_spec \
                 returned",
            )?
            .await
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({}, {})", self.harness.name(), self.spec)
    }
}

type Play = Box<dyn Fn(Opener, Value) -> BoxFuture<'static, Result<(), BoxError>>>;

/// The roles that this executable can run, by name.
pub(crate) struct Roles(BTreeMap<&'static str, Play>);

impl Default for Roles {
    fn default() -> Self {
        let mut roles = Self(BTreeMap::new());
        roles.add(remote_client::ROLE, |opener, _| remote_client::play(opener));
        roles
    }
}

impl Roles {
    pub(crate) fn add<F>(&mut self, role: &'static str, play: impl Fn(Opener, Value) -> F + 'static)
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let play: Play = Box::new(move |opener, work| Box::pin(play(opener, work)));
        self.0.insert(role, play);
    }

    /// Runs a role if this process was started as a child; otherwise returns `None`.
    pub(crate) fn play_part(&self, harnesses: &[Arc<dyn Harness>]) -> Option<ExitCode> {
        let part = std::env::var(VARIABLE).ok()?;
        Some(match self.try_to_play(harnesses, &part) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&format!("child process: {}", chain(&*error))),
        })
    }

    fn try_to_play(&self, harnesses: &[Arc<dyn Harness>], part: &str) -> Result<(), BoxError> {
        let part: Part = serde_json::from_str(part)?;
        let harness = harnesses
            .iter()
            .find(|harness| harness.name() == part.harness)
            .ok_or("this executable has no harness of this name")?;
        let (role, work) = part.role.into_iter().next().ok_or("no role")?;
        let play = self.0.get(&*role);
        let play = play.ok_or_else(|| format!("this executable cannot play the role {role:?}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let opener = Opener {
            harness: Arc::clone(harness),
            spec: part.spec,
        };
        let played = runtime.block_on(play(opener, work));
        // A blocking read of standard input may never end, and an error must be reported now.
        runtime.shutdown_background();
        played
    }
}

/// Runs the child's role if a case started this process as a child; otherwise returns `None`.
///
/// [`main`](crate::main) calls it. With your own test runner, call it first in the `main` of the
/// same executable.
#[must_use]
pub fn play(harnesses: &[Arc<dyn Harness>]) -> Option<ExitCode> {
    Roles::default().play_part(harnesses)
}

/// Creates a command that starts this executable again in this role, with this work, over the
/// namespace that [this `spec`](crate::Namespace::child_spec) describes. Dropping the child kills
/// the process.
///
/// # Errors
/// If the work cannot be serialized as JSON.
pub fn command(
    context: &TestContext,
    spec: &str,
    role: &str,
    work: &impl Serialize,
) -> Result<Command, Stop> {
    command_of(&std::env::current_exe()?, context, spec, role, work)
}

/// Like [`command`] with another executable: this test target built from an earlier version.
///
/// # Errors
/// As for [`command`].
pub fn command_of(
    executable: &Path,
    context: &TestContext,
    spec: &str,
    role: &str,
    work: &impl Serialize,
) -> Result<Command, Stop> {
    let part = json!({
        "harness": context.harness().name(),
        "spec": spec,
        "role": { role: serde_json::to_value(work)? },
    });
    let mut command = Command::new(executable);
    command
        .env(VARIABLE, part.to_string())
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
