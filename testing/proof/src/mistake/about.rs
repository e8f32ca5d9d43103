//! What is known about a mistake.

use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, Capabilities, Error, ExtendRequest, Extension, Lease, ListRequest,
    LockName, LockRecord, MigrationStep, Unlock, UnlockRequest,
};

use super::duties::Opened;
use super::site::Site;

/// A known mistake: the facts, and what it does instead of passing each call on.
pub(crate) trait Known {
    const ABOUT: About;

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        site.inner.attempt(request).await
    }

    async fn withdraw(site: &Site, request: &AttemptRequest) -> Result<bool, Error> {
        site.inner.withdraw(request).await
    }

    async fn extend(
        site: &Site,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        site.inner.extend(lease, request).await
    }

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        site.inner.unlock(lease, request).await
    }

    async fn list(site: &Site, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        site.inner.list(request).await
    }

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        site.inner.look(name).await
    }

    async fn change(
        site: &Site,
        name: &LockName,
        seen: &Seen,
        change: &Change,
    ) -> Result<Changed, Error> {
        site.inner.change(name, seen, change).await
    }

    async fn remove(site: &Site, name: &LockName, seen: &Seen) -> Result<Changed, Error> {
        site.inner.remove(name, seen).await
    }

    async fn plan_migration(site: &Site) -> Result<Vec<MigrationStep>, Error> {
        site.inner.plan_migration().await
    }

    fn for_duties(site: &Site) -> Opened<'_> {
        site.inner.for_duties()
    }

    /// The name under which a record is stored.
    fn stored(name: &LockName) -> Result<LockName, Error> {
        Ok(name.clone())
    }
}

/// Where a mistake is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Between a client and a correct provider: by [`Mistaken`](super::Mistaken).
    Provider,
    /// There, and on the executor's clock.
    Clock,
    /// On the wire between a client and its store, by the kit's small store behind a socket.
    Wire,
    /// In a store that replaces records by their version, by the simulation.
    Versions,
    /// In how processes are started, by torture.
    Processes,
    /// In the model only.
    Model,
}

/// What a provider must declare for a mistake to be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Fencing,
    Slots,
    Completion,
    Pause,
    /// A connection that can be cut, which is no capability.
    Network,
}

impl Needs {
    /// The name of the capability, if it is not declared.
    pub(crate) fn is_lacking(self, capabilities: &Capabilities) -> Option<&'static str> {
        let (is_declared, name) = match self {
            Self::Fencing => (capabilities.fencing, "fencing"),
            Self::Slots => (capabilities.slots, "slots"),
            // A pause skips slots only where they can be kept open.
            Self::Completion | Self::Pause => (capabilities.completion, "completion"),
            Self::Network => return None,
        };
        (!is_declared).then_some(name)
    }
}

/// The facts about a mistake.
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) at: At,
    pub(crate) violates: &'static [&'static str],
    pub(crate) caught_by: &'static [&'static str],
    pub(crate) needs: &'static [Needs],
    pub(crate) is_tortured: bool,
    pub(crate) is_simulated: bool,
}

impl About {
    /// A mistake of a provider.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            at: At::Provider,
            violates: &[],
            caught_by: &[],
            needs: &[],
            is_tortured: false,
            is_simulated: false,
        }
    }

    /// It is made there.
    pub(crate) const fn at(mut self, at: At) -> Self {
        self.at = at;
        self
    }

    /// The judge may report these violations for it.
    pub(crate) const fn violates(mut self, violates: &'static [&'static str]) -> Self {
        self.violates = violates;
        self
    }

    /// Each of these cases of the kit must fail.
    pub(crate) const fn caught_by(mut self, cases: &'static [&'static str]) -> Self {
        self.caught_by = cases;
        self
    }

    /// Only providers that declare all of this can make it.
    pub(crate) const fn needs(mut self, needs: &'static [Needs]) -> Self {
        self.needs = needs;
        self
    }

    /// Torture must find it.
    pub(crate) const fn in_torture(mut self) -> Self {
        self.is_tortured = true;
        self
    }

    /// The simulation must find it.
    pub(crate) const fn in_simulation(mut self) -> Self {
        self.is_simulated = true;
        self
    }
}
