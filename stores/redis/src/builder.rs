//! Settings of a provider.

use shedlock_core::{Error, LockDefaults};

use crate::RedisProvider;
use crate::connections::Connections;
use crate::key::Keys;

/// Sets how a provider names its keys; made by [`RedisProvider::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    connections: Connections,
    prefix: String,
    environment: String,
    defaults: LockDefaults,
}

impl Builder {
    pub(crate) fn new(connections: Connections) -> Self {
        Self {
            connections,
            prefix: "job-lock".to_owned(),
            environment: "default".to_owned(),
            defaults: LockDefaults::new(),
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

    /// Checks the settings; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an environment or a prefix that is empty, holds control characters, or
    /// would mix up the keys of locks with those beside them.
    pub fn build(self) -> Result<RedisProvider, Error> {
        let keys = Keys::new(&self.prefix, &self.environment)
            .map_err(|error| error.with_store("redis"))?;
        Ok(RedisProvider::from_parts(
            self.connections,
            keys,
            self.defaults,
        ))
    }
}
