//! A walk over the nodes of all locks.

use ErrorKind::Unavailable;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use shedlock_core::ErrorKind;
use shedlock_provider::{Found, Listed, Reading, Record, Result};

use crate::codec::{self, Nodes, Version};
use crate::path;
use crate::requests::Session;
use crate::store::ZooKeeperStore;

const BATCH: usize = 100;

impl ZooKeeperStore {
    /// Reads all locks after this name. Locks may be nested below other nodes, so they are found in any order.
    pub(crate) async fn walk(&self, after: &str) -> Result<Listed<Version>> {
        // Names below a node sort like the node's own name, unless `after` begins with that name.
        let may_be_wanted = |node: &String| {
            path::name(node).is_none_or(|name| name.as_str() > after || after.starts_with(&**node))
        };
        let mut listed = Vec::new();
        let mut parents = vec![String::new()];
        while !parents.is_empty() {
            let mut below = Vec::new();
            for parents in parents.chunks(BATCH) {
                below.extend(self.children(parents).await?);
            }
            below.retain(may_be_wanted);
            let both = |nodes: &[String]| nodes.iter().flat_map(|it| self.paths.both(it)).collect();
            let batches: Vec<Vec<String>> = below.chunks(BATCH).map(both).collect();
            let read = stream::iter(batches).map(|paths| self.nodes(paths));
            let read = read.buffered(8).try_concat().await?;
            parents.clear();
            for (node, nodes) in below.into_iter().zip(read) {
                let is_lock = nodes.lock.is_some() && !only_leads_on(&nodes);
                if let Some(name) = path::name(&node).filter(|_| is_lock) {
                    listed.push((name, Ok(reading(&nodes))));
                }
                if leads_on(&nodes) {
                    parents.push(format!("/{node}"));
                }
            }
        }
        Ok(listed)
    }

    /// Returns the paths of all nodes below these parents, relative to the path of the locks. Each parent begins with
    /// `/`.
    pub(crate) async fn children(&self, parents: &[String]) -> Result<Vec<String>> {
        let locks = &self.paths.locks;
        let parents: Vec<_> = parents.iter().map(|it| format!("{locks}{it}")).collect();
        let ask = |session: Session| session.children(&parents);
        let children = self.sessions.ask(Unavailable, ask).await?;
        let below = children.iter().map(|it| it[locks.len() + 1..].to_owned());
        Ok(below.collect())
    }
}

/// Whether the node exists only because locks with longer names are below it.
fn only_leads_on(nodes: &Nodes) -> bool {
    leads_on(nodes) && nodes.say_nothing()
}

fn leads_on(nodes: &Nodes) -> bool {
    let lock = nodes.lock.as_ref();
    lock.is_some_and(|node| node.stat.num_children > 0)
}

/// Reads a lock's nodes. A node that cannot be parsed counts as held for ever, as with ShedLock: one such node must not
/// hide all the others.
fn reading(nodes: &Nodes) -> Reading<Version> {
    nodes.reading().unwrap_or_else(|_| {
        let until = nodes.lock.as_ref().and_then(|lock| lock.until().ok());
        let record = Record::until(until.unwrap_or_else(codec::end_of_time));
        Reading::found(Found::new(record, nodes.version()))
    })
}
