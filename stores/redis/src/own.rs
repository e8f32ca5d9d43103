//! One connection that is made when it is needed, and left when it is broken.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value};

use shedlock_core::{SystemClock, within};

use crate::connections::{Failure, is_read_only};

pub(crate) struct Own {
    config: AsyncConnectionConfig,
    /// How long a connection may take to be made, all addresses that lead to it together.
    connect: Duration,
    current: Mutex<Current>,
    /// Held while a connection is made, so that one is.
    source: tokio::sync::Mutex<Source>,
}

/// Who knows where the server is.
pub(crate) enum Source {
    Server(Client),
    /// Asked anew for each connection, so that it leads to the primary of that time.
    Sentinels(SentinelClient),
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// How many there were before.
    generation: u64,
}

impl Own {
    /// With these limits of time for a connection to be made, and for an answer.
    pub(crate) fn new(source: Source, connect: Duration, response: Duration) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(response));
        Self {
            config,
            connect,
            current: Mutex::default(),
            source: tokio::sync::Mutex::new(source),
        }
    }

    /// As many addresses may be silent before one answers.
    pub(crate) fn asking(mut self, addresses: usize) -> Self {
        let addresses = u32::try_from(addresses).unwrap_or(u32::MAX);
        self.connect = self.connect.saturating_mul(addresses);
        self
    }

    pub(crate) fn longest_connect(&self) -> Duration {
        self.connect
    }

    /// Sends a command. A connection is left behind where the answer did not come, also since the
    /// future was dropped: it may have fallen silent.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let (mut connection, mut doubt) = self.connection().await?;
        let sent = connection.send_packed_command(command).await;
        doubt.settle(sent.and_then(Value::extract_error))
    }

    /// Sends commands at once, on one connection.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let (mut connection, mut doubt) = self.connection().await?;
        let count = commands.len();
        let sent = connection.send_packed_commands(commands, 0, count).await;
        doubt.settle(sent)
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, Doubt<'_>), Failure> {
        let (connection, generation) = self.current().await?;
        let doubt = Doubt {
            own: self,
            generation,
            is_over: false,
        };
        Ok((connection, doubt))
    }

    /// What waits for another caller's connection waits no longer than for one of its own.
    async fn current(&self) -> Result<(MultiplexedConnection, u64), Failure> {
        if let Some(found) = self.lock().found() {
            return Ok(found);
        }
        let connected = within(&SystemClock, self.connect, self.connected());
        let silent = || Err(Failure::Connecting(crate::connections::silence()));
        connected.await.unwrap_or_else(silent)
    }

    async fn connected(&self) -> Result<(MultiplexedConnection, u64), Failure> {
        let mut source = self.source.lock().await;
        if let Some(found) = self.lock().found() {
            return Ok(found);
        }
        let made = source.connect(&self.config).await;
        let made = made.map_err(Failure::Connecting)?;
        let mut current = self.lock();
        current.generation += 1;
        current.connection = Some(made.clone());
        Ok((made, current.generation))
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source {
    async fn connect(
        &mut self,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        match self {
            Self::Server(client) => {
                client
                    .get_multiplexed_async_connection_with_config(config)
                    .await
            }
            Self::Sentinels(client) => client.get_async_connection_with_config(config).await,
        }
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

impl Doubt<'_> {
    fn settle<T>(&mut self, answer: Result<T, RedisError>) -> Result<T, Failure> {
        self.is_over = match &answer {
            Ok(_) => true,
            // A replica is not written to: there may be another primary by now.
            Err(error) => error.code().is_some() && !is_read_only(error),
        };
        answer.map_err(Failure::Running)
    }
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
