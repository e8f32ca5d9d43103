//! Whether this client may read and write the nodes of locks.
//!
//! Each node has an ACL of its own. Writes are tried in transactions that always fail, so they change nothing.

use ErrorKind::Unavailable;
use shedlock_core::{ErrorKind, Finding};
use shedlock_provider::Result;

use crate::requests::Session;
use crate::store::ZooKeeperStore;

const CHECK: &str = "privileges";
/// How many nodes are looked at: those of the first locks.
const LOOKED_AT: usize = 2_000;
/// How many of them one request is about.
const BATCH: usize = 100;
/// How many of them the finding names.
const NAMED: usize = 5;
/// No name of a lock becomes this node.
const NO_LOCK: &str = "shedlock-rs:";

impl ZooKeeperStore {
    /// Finds the nodes on which this client lacks a permission.
    pub(crate) async fn privileges(&self) -> Finding {
        let missing = match self.missing_permissions().await {
            Ok(missing) => missing,
            Err(error) => return Finding::from_error(CHECK, &error),
        };
        if missing.is_empty() {
            return Finding::ok(CHECK, "this user may read, create and write lock nodes");
        }
        let mut named = missing[..missing.len().min(NAMED)].join(", ");
        if missing.len() > NAMED {
            named.push_str(", and more");
        }
        Finding::error(
            CHECK,
            format!("this user lacks a permission: {named}"),
            "grant it in the ACL of the node, for example with `setAcl` in zkCli.sh, or put a user \
             and password that have it into the URL",
        )
    }

    async fn missing_permissions(&self) -> Result<Vec<String>> {
        let roots = self.paths.roots();
        let ask = async |session: Session| session.missing(&roots).await;
        let mut new = self.sessions.ask(Unavailable, ask).await?;
        new.extend(self.paths.both(NO_LOCK));
        let ask = |session: Session| session.denied_creation(&new, &self.acl);
        let denied = self.sessions.ask(Unavailable, ask).await?;
        let parent = |node: String| match node.rfind('/') {
            Some(end @ 1..) => node[..end].to_owned(),
            _ => "/".to_owned(),
        };
        let mut missing: Vec<_> = denied
            .map(|node| format!("CREATE on {:?}", parent(node)))
            .into_iter()
            .collect();

        let root = std::slice::from_ref(&self.paths.locks);
        let ask = |session: Session| session.denied_reads(root);
        if !self.sessions.ask(Unavailable, ask).await?.is_empty() {
            missing.push(format!("READ on {:?}", self.paths.locks));
            return Ok(missing);
        }
        let locks = self.children(&[String::new()]).await?;
        let nodes = locks.iter().flat_map(|lock| self.paths.both(lock));
        let nodes: Vec<_> = nodes.take(LOOKED_AT).collect();
        for nodes in nodes.chunks(BATCH) {
            let ask = |session: Session| session.denied_reads(nodes);
            let unreadable = self.sessions.ask(Unavailable, ask).await?;
            let ask = |session: Session| session.denied_writes(nodes, NAMED);
            let unwritable = self.sessions.ask(Unavailable, ask).await?;
            let unreadable = unreadable.iter().map(|node| format!("READ on {node:?}"));
            let unwritable = unwritable.iter().map(|node| format!("WRITE on {node:?}"));
            missing.extend(unreadable.chain(unwritable));
            if missing.len() > NAMED {
                break;
            }
        }
        Ok(missing)
    }
}
