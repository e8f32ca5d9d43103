//! All locks, page by page.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use redis::cmd;
use shedlock_core::{Error, ListRequest, LockName, LockRecord, LockState, listed};

use crate::connections::{Connections, Node};
use crate::key::Keys;
use crate::script;
use crate::send::{ask, nodes, run};

/// How many keys one `SCAN` looks at, and how many locks are read at a time.
const SCAN: usize = 1_000;
const READ: usize = 100;

/// The page that this request asks for. Every key of the database is looked at.
pub(crate) async fn list(
    connections: &Connections,
    keys: &Keys,
    request: &ListRequest,
) -> Result<Vec<LockRecord>, Error> {
    let names = names(connections, keys).await?;
    let rest: Vec<_> = names
        .into_iter()
        .filter(|name| request.after_name().is_none_or(|after| name > after))
        .collect();
    let size = request.page_size();
    let mut page = Vec::new();
    for some in rest.chunks(size.min(READ)) {
        let read = some.iter().map(async |name| {
            let found = record(connections, keys, name).await;
            listed("redis", name.as_str(), found)
        });
        for record in try_join_all(read).await?.into_iter().flatten().flatten() {
            if page.len() < size && (!request.is_held_only() || record.state != LockState::Free) {
                page.push(record);
            }
        }
        if page.len() == size {
            break;
        }
    }
    Ok(page)
}

/// The record of one lock, if there is anything of it.
pub(crate) async fn record(
    connections: &Connections,
    keys: &Keys,
    name: &LockName,
) -> Result<Option<LockRecord>, Error> {
    let pair = keys.of(name)?;
    let found = run(connections, &script::INSPECT, &pair, &[])
        .await
        .map_err(|error| error.with_lock(name.as_str()))?;
    Ok(found.is_some().then(|| found.record(name)))
}

/// The names of all locks, in their byte order, each once.
async fn names(connections: &Connections, keys: &Keys) -> Result<BTreeSet<LockName>, Error> {
    let mut names = BTreeSet::new();
    for node in nodes(connections).await? {
        names_at(&mut names, connections, &node, keys).await?;
    }
    Ok(names)
}

async fn names_at(
    names: &mut BTreeSet<LockName>,
    connections: &Connections,
    node: &Node,
    keys: &Keys,
) -> Result<(), Error> {
    let pattern = keys.pattern();
    let mut cursor = 0_u64;
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg(&pattern)
            .arg("COUNT")
            .arg(SCAN);
        let (next, found): (u64, Vec<Vec<u8>>) = ask(connections, node, &scan).await?;
        names.extend(found.iter().filter_map(|key| {
            let key = std::str::from_utf8(key).ok()?;
            keys.name_of(key)
        }));
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}
