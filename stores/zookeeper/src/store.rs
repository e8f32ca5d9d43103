//! The ensemble as a store of versioned records.

use std::time::Duration;

use futures_util::future::try_join;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use shedlock_core::{Capabilities, Error, ErrorKind, Failover, LockName, Migration};
use shedlock_store::{
    Found, Listed, Reading, Record, StoreProvider, Versioned, VersionedStore, Written,
};
use zookeeper_client::{Acl, Client, Error as ClientError, Permission};

use crate::explain::Effect;
use crate::path::{self, Parent, Paths, ancestors};
use crate::requests::{self, Before, Committed, Session};
use crate::sessions::Sessions;
use crate::wire::{self, Node};

/// ShedLock's path.
pub(crate) const DEFAULT_PATH: &str = "/shedlock";

/// How many locks one request of a list reads.
const BATCH: usize = 100;

/// Locks in ZooKeeper: what a [`ZooKeeperProvider`](crate::ZooKeeperProvider) is made of.
#[derive(Clone, Debug)]
pub struct ZooKeeperStore {
    sessions: Sessions,
    paths: Paths,
    acl: Vec<Acl>,
}

/// Which writes of the two nodes a record was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub(crate) lock: Before,
    pub(crate) beside: Before,
}

impl ZooKeeperStore {
    /// The path `/shedlock`, as ShedLock calls it, through this client and below its chroot.
    ///
    /// The client connects again by itself when its connection is lost. Its session can expire,
    /// though, when it is cut off for longer than that lasts; then every call is an error of kind
    /// `Unavailable`, and a new client and provider have to be made. [`connect`](crate::connect) makes
    /// a provider that does so by itself.
    pub fn new(client: Client) -> Self {
        Self::over(Sessions::theirs(client))
    }

    pub(crate) fn over(sessions: Sessions) -> Self {
        Self {
            sessions,
            paths: Paths {
                locks: DEFAULT_PATH.to_owned(),
                beside: format!("{DEFAULT_PATH}{}", path::BESIDE),
            },
            acl: vec![Acl::new_const(Permission::ALL, "world", "anyone")],
        }
    }

    /// Sets the path below which the locks are. Two providers must not lie below each other.
    ///
    /// # Errors
    /// `InvalidInput` for what is no absolute path, and for one with a part that ends in `.owners`.
    pub fn with_path(mut self, path: &str) -> Result<Self, Error> {
        self.paths = Paths::new(path)?;
        Ok(self)
    }

    /// Sets the ACL of the nodes that are made: anybody may do anything unless set, as with ShedLock.
    /// Whoever shares the locks needs to read, write and create. That of nodes that are there stays.
    ///
    /// # Errors
    /// `InvalidInput` for an empty one.
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Result<Self, Error> {
        if acl.is_empty() {
            let message = "an ACL that lets nobody in: name somebody in it";
            return Err(Error::new(ErrorKind::InvalidInput, message).with_store("zookeeper"));
        }
        self.acl = acl;
        Ok(self)
    }

    /// Sets how long a connection and an answer are waited for, each; 5 s unless set.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.sessions.timeout = timeout;
        self
    }

    /// The provider over it.
    pub fn provider(self) -> StoreProvider<Versioned<Self>> {
        Versioned::new(self).provider()
    }

    /// Makes a session, where the store does that by itself.
    pub(crate) async fn reach(&self) -> Result<(), Error> {
        self.sessions.session().await.map(drop)
    }

    async fn nodes(&self, paths: &[String]) -> Result<Vec<Option<Node>>, Error> {
        let ask = |session| async move { requests::read(&session, paths).await };
        self.sessions.ask(Effect::Harmless, ask).await
    }

    async fn children(&self, parents: &[String]) -> Result<Vec<String>, Error> {
        let ask = |session| async move { requests::children(&session, parents).await };
        self.sessions.ask(Effect::Harmless, ask).await
    }

    /// Makes those that are missing, from the top, and tells which.
    async fn make(&self, parents: &[Parent]) -> Result<Vec<String>, Error> {
        let ask = |session: Session| async move {
            requests::make(&session.client, parents, &self.acl).await
        };
        self.sessions.ask(Effect::Harmless, ask).await
    }

    async fn write(
        &self,
        name: &LockName,
        before: Version,
        record: &Record,
    ) -> Result<Written<Version>, Error> {
        let (lock, beside) = self.paths.of(name);
        let nodes = [
            (lock, wire::until(record), before.lock),
            (beside, wire::beside(record), before.beside),
        ];
        let nodes = &nodes;
        let ask = |session: Session| async move {
            requests::commit(&session.client, nodes, &self.acl).await
        };
        let mut committed = self.sessions.ask(Effect::Writes, ask).await?;
        if committed == Committed::Parentless {
            self.make(&self.paths.above(name)).await?;
            committed = self.sessions.ask(Effect::Writes, ask).await?;
        }
        Ok(match committed {
            Committed::Done([lock, beside]) => Written::Done(Version { lock, beside }),
            Committed::Raced | Committed::Parentless => Written::Raced,
        })
    }

    /// These locks, by their paths below the parent; without those that are gone by now.
    async fn batch(&self, below: &[String]) -> Result<Vec<Seen>, Error> {
        let Paths { locks, beside } = &self.paths;
        let both = below
            .iter()
            .flat_map(|node| [format!("{locks}/{node}"), format!("{beside}/{node}")]);
        let mut nodes = self.nodes(&both.collect::<Vec<_>>()).await?.into_iter();
        let mut seen = Vec::with_capacity(below.len());
        for node in below {
            let (lock, beside) = (nodes.next().flatten(), nodes.next().flatten());
            if let Some(lock) = lock {
                seen.push(Seen {
                    node: node.clone(),
                    lock,
                    beside,
                });
            }
        }
        Ok(seen)
    }
}

/// A lock in a list.
struct Seen {
    node: String,
    lock: Node,
    beside: Option<Node>,
}

impl Seen {
    /// Whether it only leads to locks whose names go on.
    fn only_leads_on(&self) -> bool {
        let says_nothing = self.lock.data.is_empty() || self.lock.data == path::FREE.as_bytes();
        let is_alone = self.beside.as_ref().is_none_or(|node| node.data.is_empty());
        self.leads_on() && says_nothing && is_alone
    }

    fn leads_on(&self) -> bool {
        self.lock.stat.num_children > 0
    }

    /// What cannot be read is held for ever, as ShedLock has it: one such node must not hide all
    /// others.
    fn reading(&self) -> Reading<Version> {
        let until = || self.lock.until().unwrap_or_else(|_| wire::end_of_time());
        let record = wire::record(Some(&self.lock), self.beside.as_ref())
            .unwrap_or_else(|_| Record::until(until()));
        let version = version(Some(&self.lock), self.beside.as_ref());
        Reading::found(Found::new(record, version))
    }
}

fn version(lock: Option<&Node>, beside: Option<&Node>) -> Version {
    Version {
        lock: Before::of(lock),
        beside: Before::of(beside),
    }
}

impl VersionedStore for ZooKeeperStore {
    type Version = Version;

    fn store(&self) -> &str {
        "zookeeper"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<Version>, Error> {
        let (lock, beside) = self.paths.of(name);
        let mut nodes = self.nodes(&[lock, beside]).await?.into_iter();
        let (lock, beside) = (nodes.next().flatten(), nodes.next().flatten());
        if lock.is_none() && beside.is_none() {
            return Ok(Reading::nothing());
        }
        let record = wire::record(lock.as_ref(), beside.as_ref())?;
        let version = version(lock.as_ref(), beside.as_ref());
        Ok(Reading::found(Found::new(record, version)))
    }

    async fn create(&self, name: &LockName, record: &Record) -> Result<Written<Version>, Error> {
        self.write(name, version(None, None), record).await
    }

    async fn replace(
        &self,
        name: &LockName,
        version: &Version,
        record: &Record,
    ) -> Result<Written<Version>, Error> {
        self.write(name, *version, record).await
    }

    /// All behind `after`: locks stand in folders of others, in any order.
    async fn list(&self, after: Option<&LockName>, _: usize) -> Result<Listed<Version>, Error> {
        let after = after.map_or("", LockName::as_str);
        let mut listed = Vec::new();
        let mut parents = vec![String::new()];
        while !parents.is_empty() {
            let mut nodes = Vec::new();
            for parents in parents.chunks(BATCH) {
                let Paths { locks, .. } = &self.paths;
                let paths: Vec<_> = parents.iter().map(|it| format!("{locks}{it}")).collect();
                let below = self.children(&paths).await?;
                let below = below.iter().map(|path| path[locks.len() + 1..].to_owned());
                // What is below a name sorts as the name does, unless `after` begins with it.
                let may_be_wanted = |node: &String| {
                    path::name(node)
                        .is_none_or(|name| name.as_str() > after || after.starts_with(&**node))
                };
                nodes.extend(below.filter(may_be_wanted));
            }
            let batches: Vec<Vec<String>> = nodes.chunks(BATCH).map(<[String]>::to_vec).collect();
            let batches: Vec<Vec<Seen>> = stream::iter(batches)
                .map(|below| async move { self.batch(&below).await })
                .buffered(8)
                .try_collect()
                .await?;
            parents.clear();
            for seen in batches.into_iter().flatten() {
                if seen.leads_on() {
                    parents.push(format!("/{}", seen.node));
                }
                if let Some(name) = path::name(&seen.node)
                    && !seen.only_leads_on()
                {
                    listed.push((name, Ok(seen.reading())));
                }
            }
        }
        Ok(listed)
    }

    fn check_name(&self, name: &LockName) -> Result<(), Error> {
        path::check(name)
    }

    async fn check(&self) -> Result<(), Error> {
        let locks = std::slice::from_ref(&self.paths.locks);
        let ask = |session: Session| async move {
            let root = session.client.check_stat("/");
            let found = try_join(root, requests::read(&session, locks));
            let (root, _) = found.await?;
            root.map(drop).ok_or(ClientError::NoNode)
        };
        self.sessions.ask(Effect::Harmless, ask).await
    }

    async fn migrate(&self) -> Result<Migration, Error> {
        let ask = |Session { client, .. }| async move {
            let chroot = client.path().to_owned();
            if chroot == "/" {
                return Ok(Vec::new());
            }
            let mut parents = ancestors(&chroot);
            parents.push((chroot, ""));
            let root = client.chroot("/").unwrap_or_else(|client| client);
            requests::make(&root, &parents, &self.acl).await
        };
        let mut made = self.sessions.ask(Effect::Harmless, ask).await?;
        made.extend(self.make(&self.paths.roots()).await?);
        let changes = made.iter().map(|node| format!("made the node {node:?}"));
        Ok(Migration::with_changes(changes.collect()))
    }

    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        let mut capabilities = engine;
        capabilities.longest_call = 2 * self.sessions.timeout;
        capabilities.longest_name = path::LONGEST;
        capabilities.failover = Failover::Majority;
        capabilities
    }

    fn versions_start_anew(&self) -> bool {
        true
    }

    fn has_revisions(&self) -> bool {
        true
    }

    fn revision(&self, version: &Version) -> Option<u64> {
        version.lock.zxid()
    }
}
