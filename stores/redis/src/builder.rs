//! Settings of a provider.

use std::time::Duration;

use shedlock_core::{Error, ErrorKind, LockDefaults};

use crate::RedisProvider;
use crate::confirm::Confirmation;
use crate::connections::Connections;
use crate::key::Keys;

/// No call waits longer. To `WAIT`, no time is all time.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Sets how a provider names its keys; made by [`RedisProvider::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    connections: Connections,
    prefix: String,
    environment: String,
    defaults: LockDefaults,
    confirmation: Option<Confirmation>,
    server_skew: Duration,
}

impl Builder {
    pub(crate) fn new(connections: Connections) -> Self {
        Self {
            connections,
            prefix: "job-lock".to_owned(),
            environment: "default".to_owned(),
            defaults: LockDefaults::new(),
            confirmation: None,
            server_skew: Duration::ZERO,
        }
    }

    /// The environment in the keys: `default` unless set, as in ShedLock. Locks of two environments
    /// are two.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = environment.into();
        self
    }

    /// What the keys of locks begin with: `job-lock` unless set, as in ShedLock.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Durations for locks that set none, and what owners start with.
    pub fn defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Grants a lock, extends it and calls a slot done only when so many replicas have confirmed it
    /// (`WAIT`), so that a failover to one of them knows it. A lock that is not confirmed in this time
    /// is given back, and the attempt is an error of the kind unavailable; an extension or an unlock
    /// that is not confirmed is an error of the kind unknown.
    ///
    /// A replica that takes over judges leases by its own clock: keep the clocks of all servers
    /// synchronized, and set [`server_skew`](Self::server_skew) to what is left.
    ///
    /// Calls share a connection, and each waits behind those before it: keep the time well below that
    /// for an answer.
    pub fn wait_for_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        self.confirmation = Some(Confirmation { replicas, timeout });
        let longest = self.connections.longest_call().saturating_add(timeout);
        self.connections = self.connections.with_longest_call(longest);
        self
    }

    /// How far apart the clocks may be of servers that judge leases in turn: zero unless set. A server that
    /// takes over judges by its own clock, so the runtime stops counting on a lease this much before its
    /// end, and lock_at_most_for must be longer.
    pub fn server_skew(mut self, skew: Duration) -> Self {
        self.server_skew = skew;
        self
    }

    /// Checks the settings; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for replicas without a time to wait for them, and for an environment or a prefix that is empty, holds control characters, or
    /// would mix up the keys of locks with those beside them.
    pub fn build(self) -> Result<RedisProvider, Error> {
        let keys = Keys::new(&self.prefix, &self.environment)
            .map_err(|error| error.with_store("redis"))?;
        if let Some(Confirmation { replicas, timeout }) = self.confirmation
            && (replicas == 0 || timeout.is_zero() || timeout > LONGEST_WAIT)
        {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "waiting {timeout:?} for {replicas} replicas confirms nothing: wait for one or \
                     more, and up to an hour"
                ),
            )
            .with_store("redis"));
        }
        Ok(RedisProvider::from_parts(
            self.connections,
            keys,
            self.defaults,
            self.confirmation,
            self.server_skew,
        ))
    }
}
