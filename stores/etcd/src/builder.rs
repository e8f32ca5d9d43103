//! Settings of a provider.

use std::sync::Arc;

use shedlock_core::{Clock, Error, LockDefaults, SystemClock};

use crate::EtcdProvider;
use crate::connections::Connections;
use crate::key::Keys;

/// Sets how a provider names its keys; made by [`EtcdProvider::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    connections: Connections,
    prefix: String,
    environment: String,
    defaults: LockDefaults,
    clock: Arc<dyn Clock>,
}

impl Builder {
    pub(crate) fn new(connections: Connections) -> Self {
        Self {
            connections,
            prefix: "shedlock".to_owned(),
            environment: "default".to_owned(),
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The environment in the keys: `default` unless set, as in ShedLock. Locks of two environments
    /// are two.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = environment.into();
        self
    }

    /// What the keys of locks begin with: `shedlock` unless set, as in ShedLock. ShedLock over a
    /// client with a namespace has that before it.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Durations for locks that set none, and what owners start with.
    pub fn defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// This host's clock, by which slots that lie too far ahead are refused, at-least is counted,
    /// and times are told; for tests. Leases are judged by the store.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the settings; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an environment or a prefix that is empty, holds control characters, or
    /// would mix up the keys of locks with those beside them.
    pub fn build(self) -> Result<EtcdProvider, Error> {
        let keys =
            Keys::new(&self.prefix, &self.environment).map_err(|error| error.with_store("etcd"))?;
        Ok(EtcdProvider::from_parts(
            self.connections,
            keys,
            self.defaults,
            self.clock,
        ))
    }
}
