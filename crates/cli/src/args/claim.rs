//! The lock that a command line asks for.

use std::time::Duration;

use shedlock::{LockConfig, LockDefaults, LockName};
use shedlock_core::HUNDRED_YEARS;

use super::{AT_LEAST, AT_MOST, StoreArgs, origin};
use crate::exit::Failure;
use crate::output;
use crate::store::sets_at_most;

/// A lock, and how to take it. Unset values use the store's defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a str,
    pub(crate) store: &'a StoreArgs,
    pub(crate) at_most: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_alive: bool,
    pub(crate) owner_prefix: Option<&'a str>,
}

impl Claim<'_> {
    /// The settings for the library.
    pub(crate) fn config(&self) -> LockConfig {
        let mut config = LockConfig::new(self.name);
        if let Some(duration) = self.at_most {
            config = config.lock_at_most_for(duration);
        }
        if let Some(duration) = self.at_least {
            config = config.lock_at_least_for(duration);
        }
        if let Some(duration) = self.wait {
            config = config.lock_wait(duration);
        }
        if self.keep_alive {
            config = config.keep_alive();
        }
        config
    }

    /// The defaults for every lock of this process.
    pub(crate) fn defaults(&self) -> LockDefaults {
        match self.owner_prefix {
            Some(prefix) => LockDefaults::new().owner_prefix(prefix),
            None => LockDefaults::new(),
        }
    }

    /// Checks everything that can be checked before the store is opened. `option` is the option that sets the name, and
    /// `at_most` the advice for a missing --lock-at-most-for.
    pub(crate) fn check(&self, option: &str, at_most: &str) -> Result<(), Failure> {
        LockName::new(self.name).map_err(|error| Failure::from(error.about(option)))?;
        self.check_durations(&LockDefaults::new())?;
        if self.at_most.is_none() && !sets_at_most(self.store)? {
            return Err(Failure::usage(format!(
                "{}: --lock-at-most-for is not set: {at_most}",
                self.name
            )));
        }
        self.config().validate()?;
        self.defaults().validate()?;
        Ok(())
    }

    /// Checks that the lock can stay taken for --lock-at-least-for, with the durations that the store's URL sets and this
    /// command line does not.
    pub(crate) fn check_durations(&self, in_url: &LockDefaults) -> Result<(), Failure> {
        // Longer than any that is set.
        let anything = LockDefaults::new().lock_at_most_for(HUNDRED_YEARS);
        let least = LockConfig::new("-").lock_at_most_for(HUNDRED_YEARS);
        let least = least.resolve(&[in_url])?.lock_at_least_for;
        let most = LockConfig::new("-").lock_at_least_for(Duration::ZERO);
        let most = most.resolve(&[in_url, &anything])?;
        let arguments: Vec<_> = std::env::args_os().collect();
        let (least, least_from) = match self.at_least {
            Some(least) => (least, origin(AT_LEAST, &arguments)),
            None => (least, "lock_at_least_for in the store's URL".to_owned()),
        };
        let (most, most_from) = match self.at_most {
            Some(most) => (most, origin(AT_MOST, &arguments)),
            None => (
                most.lock_at_most_for,
                "lock_at_most_for in the store's URL".to_owned(),
            ),
        };
        if least <= most {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{}: {least_from} ({}) is longer than {most_from} ({}); lower the first or raise the \
             second",
            self.name,
            output::duration(least),
            output::duration(most),
        )))
    }
}
