//! The ensemble as a store of versioned records.

use std::time::Duration;

use ErrorKind::{OutcomeUnknown, Unavailable};
use futures_util::future::try_join;
use shedlock_core::{
    Capabilities, ErrorKind, Failover, Finding, LockName, Migration, MigrationStep, Schema,
};
use shedlock_provider::{
    FromClient, Listed, NeedsNoSettings, Reading, Record, Result, StoreProvider, VALID, Versioned,
    VersionedSettings, VersionedStore, Written, invalid, quorum,
};
use zookeeper_client::{Acl, Client, Error as ClientError, Permission};

use crate::ZooKeeperProvider;
use crate::codec::{self, Nodes, Version};
use crate::path::{self, Parent, Paths, way_to};
use crate::requests::{Committed, Session};
use crate::sessions::{Origin, Sessions};

/// Locks in ZooKeeper: the store behind a [`ZooKeeperProvider`].
#[derive(Clone, Debug)]
pub struct ZooKeeperStore {
    pub(crate) sessions: Sessions,
    pub(crate) paths: Paths,
    pub(crate) acl: Vec<Acl>,
}

/// Configures the path of the locks and their ACL. `ZooKeeperProvider::builder` returns it.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    pub(crate) sessions: Sessions,
    path: String,
    acl: Vec<Acl>,
    pub(crate) common: VersionedSettings,
}

/// Locks are below the client's chroot.
///
/// The client reconnects by itself when it loses its connection. However, its session expires if the client is cut off
/// for longer than the session timeout. Every call then returns an error of kind `Unavailable`, and you have to create
/// a new client and a new provider. A provider from a URL creates new sessions by itself.
impl FromClient for ZooKeeperStore {
    type Client = Client;
    type Builder = Builder;

    fn builder(client: Client) -> Builder {
        Builder::over(Origin::Theirs(client))
    }
}

impl NeedsNoSettings for ZooKeeperStore {
    type Store = Versioned<Self>;

    fn with_defaults(client: Client) -> StoreProvider<Versioned<Self>> {
        Self::builder(client).build().expect(VALID)
    }
}

impl Builder {
    pub(crate) fn over(origin: Origin) -> Self {
        Self {
            sessions: Sessions::new(origin),
            path: "/shedlock".to_owned(),
            acl: vec![Acl::new_const(Permission::ALL, "world", "anyone")],
            common: VersionedSettings::default(),
        }
    }

    shedlock_provider::setters! { []
        /// Sets the path of the locks; `/shedlock` by default. The path of one provider must not be below the path of
        /// another.
        path(path: impl Into<String>) = path.into();

        /// Sets the ACL of the nodes that the provider creates. By default anyone may do anything, as with ShedLock.
        /// Every program that shares the locks needs permission to read, write and create. Existing nodes keep their
        /// ACL.
        acl(acl: Vec<Acl>) = acl;
    }

    shedlock_provider::setters! { [sessions]
        /// Sets how long a call waits for a connection; 5 s by default.
        connect_timeout(timeout: Duration) = timeout;

        /// Sets how long a call waits for a reply; 5 s by default.
        response_timeout(timeout: Duration) = timeout;
    }

    shedlock_provider::versioned_setters!(common);

    /// Checks the settings and creates the provider, without any I/O.
    ///
    /// # Errors
    /// `InvalidInput` for a path that is not absolute, for a path with a part that ends in `.owners`, and for an empty
    /// ACL.
    pub fn build(self) -> Result<ZooKeeperProvider> {
        if self.acl.is_empty() {
            return Err(invalid("the ACL is empty")
                .advise("add an entry")
                .with_store("zookeeper"));
        }
        let paths = Paths::new(&self.path).map_err(|error| error.with_store("zookeeper"))?;
        Ok(self.common.provider(ZooKeeperStore {
            sessions: self.sessions,
            paths,
            acl: self.acl,
        }))
    }
}

impl ZooKeeperStore {
    /// Reads the nodes at these paths. Every two consecutive paths belong to one lock.
    pub(crate) async fn nodes(&self, paths: Vec<String>) -> Result<Vec<Nodes>> {
        let ask = |session: Session| session.read(&paths);
        let mut nodes = self.sessions.ask(Unavailable, ask).await?.into_iter();
        let pairs = std::iter::from_fn(|| {
            let (lock, beside) = (nodes.next()?, nodes.next()?);
            Some(Nodes { lock, beside })
        });
        Ok(pairs.collect())
    }

    /// Removes the nodes above those of this name that lead to no other lock any more. A failure does no harm: such
    /// nodes only take up space.
    async fn tidy(&self, name: &LockName) {
        for paths in self.paths.leading_to(name) {
            let Ok(found) = self.nodes(paths.clone().into()).await else {
                return;
            };
            let Some(nodes) = found.first().filter(|nodes| nodes.are_unused()) else {
                return;
            };
            let version = nodes.version();
            if !matches!(self.clear(paths, version).await, Ok(true)) {
                return;
            }
        }
    }

    /// Removes both nodes if they still have this version.
    async fn clear(&self, [lock, beside]: [String; 2], version: Version) -> Result<bool> {
        let nodes = [
            (lock, path::FREE, version.lock),
            (beside, "", version.beside),
        ];
        let ask = |session: Session| session.clear(&nodes);
        self.sessions.ask(OutcomeUnknown, ask).await
    }

    /// Creates the missing nodes, from the top, and returns the created ones.
    async fn make(&self, parents: &[Parent]) -> Result<Vec<String>> {
        let ask = |session: Session| session.make(parents, &self.acl);
        self.sessions.ask(Unavailable, ask).await
    }
}

fn creation(node: &str) -> MigrationStep {
    MigrationStep::new(format!("create node {node:?}"))
}

impl VersionedStore for ZooKeeperStore {
    type Version = Version;

    fn store(&self) -> &str {
        "zookeeper"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<Version>> {
        let nodes = self.nodes(self.paths.of(name).into()).await?;
        nodes.first().map_or(Ok(Reading::nothing()), Nodes::reading)
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&Version>,
        record: &Record,
    ) -> Result<Written<Version>> {
        let before = before.copied().unwrap_or_default();
        let [lock, beside] = self.paths.of(name);
        let nodes = &[
            (lock, codec::until(record), before.lock),
            (beside, record.to_text(), before.beside),
        ];
        let ask = |session: Session| session.commit(nodes, &self.acl);
        let mut committed = self.sessions.ask(OutcomeUnknown, ask).await?;
        if committed == Committed::Parentless {
            self.make(&self.paths.above(name)).await?;
            committed = self.sessions.ask(OutcomeUnknown, ask).await?;
        }
        Ok(match committed {
            Committed::Done(version) => Written::Done(version),
            Committed::Raced | Committed::Parentless => Written::Raced,
        })
    }

    async fn remove(&self, name: &LockName, before: &Version) -> Result<bool> {
        let is_done = self.clear(self.paths.of(name), *before).await?;
        if is_done {
            self.tidy(name).await;
        }
        Ok(is_done)
    }

    async fn list(&self, after: Option<&LockName>, _: usize) -> Result<Listed<Version>> {
        let listed = self.walk(after.map_or("", LockName::as_str)).await?;
        // Without a lock yet, the chroot may be missing.
        if listed.is_empty() {
            self.check().await?;
        }
        Ok(listed)
    }

    async fn check(&self) -> Result<()> {
        let locks = std::slice::from_ref(&self.paths.locks);
        let ask = |session: Session| async move {
            let client = session.client.clone();
            let found = try_join(client.check_stat("/"), session.read(locks));
            let (root, _) = found.await?;
            root.map(drop).ok_or(ClientError::NoNode)
        };
        self.sessions.ask(Unavailable, ask).await
    }

    /// The node with the configuration exists since ZooKeeper 3.5, and a server may hide it.
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let ask = |session: Session| async move {
            let client = session.client.chroot("/").unwrap_or_else(|client| client);
            match client.get_data("/zookeeper/config").await {
                Ok((config, _)) => Ok(String::from_utf8_lossy(&config).into_owned()),
                Err(ClientError::NoNode | ClientError::NoAuth) => Ok(String::new()),
                Err(error) => Err(error),
            }
        };
        let config = self.sessions.ask(Unavailable, ask).await?;
        let servers = config.lines().filter(|line| line.starts_with("server."));
        let voters = servers.filter(|line| !line.contains(":observer")).count();
        Ok(vec![self.privileges().await, quorum(voters)])
    }

    async fn migrate(&self) -> Result<Migration> {
        let ask = |mut session: Session| async move {
            let chroot = session.client.path().to_owned();
            if chroot == "/" {
                return Ok(Vec::new());
            }
            session.client = session.client.chroot("/").unwrap_or_else(|client| client);
            session.make(&way_to(&chroot), &self.acl).await
        };
        let mut made = self.sessions.ask(Unavailable, ask).await?;
        made.extend(self.make(&self.paths.roots()).await?);
        let changes = made.iter().map(|node| format!("created node {node:?}"));
        Ok(Migration::with_changes(changes.collect()))
    }

    async fn plan_migration(&self) -> Result<Vec<MigrationStep>> {
        let roots = self.paths.roots();
        let ask = async |session: Session| {
            let chroot = session.client.path().to_owned();
            let mut missing = Vec::new();
            if chroot != "/" {
                let mut outside = session.clone();
                outside.client = outside.client.chroot("/").unwrap_or_else(|client| client);
                missing = outside.missing(&way_to(&chroot)).await?;
            }
            missing.extend(session.missing(&roots).await?);
            Ok(missing)
        };
        let missing = self.sessions.ask(Unavailable, ask).await?;
        Ok(missing.iter().map(|node| creation(node)).collect())
    }

    fn schema(&self) -> Schema {
        let roots = self.paths.roots();
        Schema::with_create(roots.iter().map(|(node, _)| creation(node)).collect()).note(
            "the nodes are below the chroot of the URL, which `migrate` creates too; the first \
             attempt on a lock creates what is missing, if its user may",
        )
    }

    /// Covers a request whose reply was lost and the read that follows, possibly over a new session.
    fn longest_call(&self) -> Duration {
        let response = self.sessions.response_timeout;
        response.saturating_add(response.max(self.sessions.connect_timeout))
    }

    /// A read with what goes before it; and a transaction, after the parents were made if they are missing.
    fn most_requests_per_round(&self) -> u32 {
        4
    }

    fn capabilities(&self, mut capabilities: Capabilities) -> Capabilities {
        capabilities.longest_name = path::LONGEST;
        capabilities.failover = Failover::Majority;
        capabilities
    }

    fn versions_can_repeat(&self) -> bool {
        true
    }

    fn has_revisions(&self) -> bool {
        true
    }

    fn revision(&self, version: &Version) -> Option<u64> {
        u64::try_from(version.lock?.zxid).ok()
    }
}
