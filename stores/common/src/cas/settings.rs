//! The settings of every compare-and-swap store.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, LockDefaults, SystemClock};

use super::{DEFAULT_TOLERATED_SKEW, Versioned, VersionedStore};
use crate::errors::Result;
use crate::{StoreProvider, UrlOptions};

/// The settings that the builders and URLs of all compare-and-swap stores share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VersionedSettings {
    /// See [`Versioned::with_tolerated_skew`].
    pub tolerated_skew: Duration,
    /// Durations for locks that set none, and the prefix of owners.
    pub defaults: LockDefaults,
    /// The client's clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for VersionedSettings {
    fn default() -> Self {
        Self {
            tolerated_skew: DEFAULT_TOLERATED_SKEW,
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl VersionedSettings {
    /// Takes `tolerated_skew`, `lock_at_most_for`, `lock_at_least_for` and `owner_prefix` from a URL.
    pub fn take(options: &mut UrlOptions) -> Result<Self> {
        let mut settings = Self::default();
        if let Some(skew) = options.duration("tolerated_skew")? {
            settings.tolerated_skew = skew;
        }
        settings.defaults = options.defaults()?;
        Ok(settings)
    }

    /// Creates a provider over this store.
    pub fn provider<S: VersionedStore>(self, store: S) -> StoreProvider<Versioned<S>> {
        Versioned::new(store)
            .with_tolerated_skew(self.tolerated_skew)
            .with_clock(self.clock)
            .provider()
            .with_defaults(self.defaults)
    }
}

/// Defines the setters of [`VersionedSettings`], for a builder that keeps the settings in this field.
#[doc(hidden)]
#[macro_export]
macro_rules! versioned_setters {
    ($($at:ident).*) => {
        $crate::setters! { [$($at).*]
            /// Sets the largest tolerated difference between the clocks of all programs that share the locks, including
            /// ShedLock's; 1 s by default. All these programs must use the same value.
            tolerated_skew(skew: ::std::time::Duration) = skew;
        }

        $crate::common_setters!($($at).*);
    };
}
