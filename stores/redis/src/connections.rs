//! How the server is reached: by the user's own connection, or by one that we keep.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value};

/// How long a connection may take to be made, and an answer to come, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// What a provider talks through; made from what the user has.
///
/// | from | what happens when the connection breaks |
/// |---|---|
/// | [`redis::Client`] | the next call makes a new one; also after a call whose answer did not come |
/// | [`ConnectionManager`] | the manager makes a new one; it stays with one that has only fallen silent until the operating system gives it up |
/// | [`MultiplexedConnection`] | nothing: every later call fails |
#[derive(Clone)]
pub struct Connections(Kind);

#[derive(Clone)]
enum Kind {
    Own(Arc<Own>),
    Manager(ConnectionManager),
    Multiplexed(MultiplexedConnection),
}

/// One connection that is made when it is needed, and left when it is broken.
struct Own {
    client: Client,
    config: AsyncConnectionConfig,
    current: Mutex<Current>,
    /// Held while a connection is made, so that one is.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// How many there were before.
    generation: u64,
}

/// A failed command, by how far it came.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no connection to send it by.
    Connecting(RedisError),
    /// It was sent, or may have been.
    Running(RedisError),
}

impl Failure {
    pub(crate) fn error(&self) -> &RedisError {
        match self {
            Self::Connecting(error) | Self::Running(error) => error,
        }
    }
}

impl Connections {
    /// One of our own to this client's server, with these limits of time.
    pub(crate) fn own(client: Client, connect: Duration, response: Duration) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(response));
        Self(Kind::Own(Arc::new(Own {
            client,
            config,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })))
    }

    /// Sends a command. Dropping the future is the same as a lost answer; a connection of our own
    /// is then left behind, since it may have fallen silent.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        match &self.0 {
            Kind::Own(own) => own.send(command).await,
            Kind::Manager(manager) => {
                let mut manager = manager.clone();
                let sent = manager.send_packed_command(command).await;
                sent.and_then(Value::extract_error).map_err(running)
            }
            Kind::Multiplexed(connection) => {
                let mut connection = connection.clone();
                let sent = connection.send_packed_command(command).await;
                sent.and_then(Value::extract_error).map_err(running)
            }
        }
    }
}

/// A manager that could not connect again says so by the refusal itself.
fn running(error: RedisError) -> Failure {
    if error.is_connection_refusal() {
        Failure::Connecting(error)
    } else {
        Failure::Running(error)
    }
}

impl Own {
    async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let (mut connection, generation) = self.connection().await?;
        let mut doubt = Doubt {
            own: self,
            generation,
            is_over: false,
        };
        let sent = connection.send_packed_command(command).await;
        let answer = sent.and_then(Value::extract_error);
        doubt.is_over = match &answer {
            Ok(_) => true,
            // A replica is not written to: the name may lead to the new primary by now.
            Err(error) => error.code().is_some() && !is_read_only(error),
        };
        answer.map_err(Failure::Running)
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), Failure> {
        if let Some(found) = self.lock().found() {
            return Ok(found);
        }
        let _only_one = self.connecting.lock().await;
        if let Some(found) = self.lock().found() {
            return Ok(found);
        }
        let made = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await
            .map_err(Failure::Connecting)?;
        let mut current = self.lock();
        current.generation += 1;
        current.connection = Some(made.clone());
        Ok((made, current.generation))
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn found(&self) -> Option<(MultiplexedConnection, u64)> {
        let connection = self.connection.clone()?;
        Some((connection, self.generation))
    }
}

/// Leaves the connection behind, unless the answer came.
struct Doubt<'a> {
    own: &'a Own,
    generation: u64,
    is_over: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut current = self.own.lock();
        if current.generation == self.generation {
            current.connection = None;
        }
    }
}

/// Whether the server refused a write since it is a replica.
pub(crate) fn is_read_only(error: &RedisError) -> bool {
    error.to_string().contains("READONLY")
}

impl From<Client> for Connections {
    fn from(client: Client) -> Self {
        Self::own(client, TIMEOUT, TIMEOUT)
    }
}

impl From<ConnectionManager> for Connections {
    fn from(manager: ConnectionManager) -> Self {
        Self(Kind::Manager(manager))
    }
}

impl From<MultiplexedConnection> for Connections {
    fn from(connection: MultiplexedConnection) -> Self {
        Self(Kind::Multiplexed(connection))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may come with passwords.
        f.write_str(match &self.0 {
            Kind::Own(_) => "Connections(own)",
            Kind::Manager(_) => "Connections(manager)",
            Kind::Multiplexed(_) => "Connections(multiplexed)",
        })
    }
}
