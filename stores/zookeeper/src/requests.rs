//! Requests to the server.

use futures_util::future::{join, join_all, try_join_all};
use zookeeper_client::{
    Acl, Acls, Client, CreateMode, Error as ClientError, MultiReadResult, MultiReader,
    MultiWriteError, MultiWriteResult, MultiWriter,
};

use crate::codec::{Node, Version, Write};
use crate::path::Parent;

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Both nodes were written, by these writes.
    Done(Version),
    /// A node was not as expected.
    Raced,
    /// A parent of the nodes is missing.
    Parentless,
}

/// A node to write: its path, its data, and the last write that the node must still have.
pub(crate) type Change = (String, String, Option<Write>);

/// A client, and what is known about the server that it is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Whether the server is standalone, so that no other server can be ahead of it.
    pub(crate) is_alone: bool,
}

impl Session {
    /// Synchronizes the server with its leader, and reads whether it has one. Data written in an earlier session is
    /// then visible in this one.
    pub(crate) async fn begin(client: Client) -> Result<Self, ClientError> {
        let (synced, config) = join(client.sync("/"), client.get_config()).await;
        synced?;
        // A client that may not read the configuration does not count as connected to a standalone server.
        let is_alone = config.is_ok_and(|(config, _)| config.is_empty());
        Ok(Self { client, is_alone })
    }

    /// Reads data that includes everything written before this call. A server processes the requests of a session in
    /// order, so a transaction that changes nothing and the read are sent together. Like every transaction it goes
    /// through the quorum, and the server replies after it has applied all before it.
    ///
    /// A `sync` would not do: a leader replies to its own clients' at once, although it sends commits to the others
    /// before it applies them, and replies even after the others have elected another.
    async fn fresh(
        &self,
        mut reader: MultiReader<'_>,
    ) -> Result<Vec<MultiReadResult>, ClientError> {
        if self.is_alone {
            return reader.commit().await;
        }
        let mut barrier = self.client.new_multi_writer();
        barrier.add_check_version("/", -1)?;
        match join(barrier.commit(), reader.commit()).await {
            (Err(MultiWriteError::RequestFailed { source }), _) => Err(source),
            // A refused transaction goes through the quorum too.
            (Ok(_) | Err(MultiWriteError::OperationFailed { .. }), results) => results,
        }
    }

    /// Reads the nodes at these paths, as they are at one instant.
    pub(crate) async fn read(self, paths: &[String]) -> Result<Vec<Option<Node>>, ClientError> {
        let mut reader = self.client.new_multi_reader();
        for path in paths {
            reader.add_get_data(path)?;
        }
        let nodes = paths.iter().zip(self.fresh(reader).await?);
        let nodes = nodes.map(|(path, result)| match result {
            MultiReadResult::Data { data, stat } => Ok(Some(Node {
                path: path.clone(),
                data,
                stat,
            })),
            other => nothing(other).map(|()| None),
        });
        nodes.collect()
    }

    /// Returns the paths of the nodes below these parents.
    pub(crate) async fn children(self, parents: &[String]) -> Result<Vec<String>, ClientError> {
        let mut reader = self.client.new_multi_reader();
        for parent in parents {
            reader.add_get_children(parent)?;
        }
        let mut paths = Vec::new();
        for (parent, result) in parents.iter().zip(self.fresh(reader).await?) {
            match result {
                MultiReadResult::Children { children } => {
                    paths.extend(children.iter().map(|child| format!("{parent}/{child}")));
                }
                other => nothing(other)?,
            }
        }
        Ok(paths)
    }

    /// Writes both nodes in one transaction, if both are as expected.
    pub(crate) async fn commit(
        self,
        nodes: &[Change; 2],
        acl: &[Acl],
    ) -> Result<Committed, ClientError> {
        let options = CreateMode::Persistent.with_acls(Acls::new(acl));
        let mut writer = self.client.new_multi_writer();
        for (path, data, before) in nodes {
            match before {
                None => writer.add_create(path, data.as_bytes(), &options)?,
                Some(write) => writer.add_set_data(path, data.as_bytes(), Some(write.version))?,
            }
        }
        let is_new = |(.., before): &Change| before.is_none();
        if nodes.iter().all(is_new) {
            // Some server versions return the number of a transaction only for operations that set data.
            let (beside, data, _) = &nodes[1];
            writer.add_set_data(beside, data.as_bytes(), Some(0))?;
        }
        match writer.commit().await {
            Ok(results) => written(&results),
            Err(MultiWriteError::OperationFailed { index, source }) => {
                let is_parentless = nodes.get(index).is_some_and(is_new);
                match source {
                    ClientError::NoNode if is_parentless => Ok(Committed::Parentless),
                    ClientError::NoNode | ClientError::NodeExists | ClientError::BadVersion => {
                        Ok(Committed::Raced)
                    }
                    source => Err(source),
                }
            }
            Err(MultiWriteError::RequestFailed { source }) => Err(source),
        }
    }

    /// Deletes both nodes in one transaction, if both are as expected; returns false otherwise. A node that has others
    /// below it stays, and gets this data instead.
    pub(crate) async fn clear(
        self,
        nodes: &[(String, &str, Option<Write>); 2],
    ) -> Result<bool, ClientError> {
        let nodes = nodes.iter().filter_map(|(path, data, before)| {
            let before = before.as_ref()?;
            Some((path, data, before.version, false))
        });
        let mut nodes: Vec<_> = nodes.collect();
        loop {
            let mut writer = self.client.new_multi_writer();
            for (path, data, version, leads_on) in &nodes {
                if *leads_on {
                    writer.add_set_data(path, data.as_bytes(), Some(*version))?;
                } else {
                    writer.add_delete(path, Some(*version))?;
                }
            }
            let (index, source) = match writer.commit().await {
                Ok(_) => return Ok(true),
                Err(MultiWriteError::OperationFailed { index, source }) => (index, source),
                Err(MultiWriteError::RequestFailed { source }) => return Err(source),
            };
            match (source, nodes.get_mut(index)) {
                (ClientError::NoNode | ClientError::BadVersion, _) => return Ok(false),
                (ClientError::NotEmpty, Some((.., leads_on))) if !*leads_on => *leads_on = true,
                (source, _) => return Err(source),
            }
        }
    }

    /// Returns those of these nodes that do not exist.
    pub(crate) async fn missing(&self, parents: &[Parent]) -> Result<Vec<String>, ClientError> {
        let found = parents.iter().map(|(path, _)| self.client.check_stat(path));
        let found = try_join_all(found.collect::<Vec<_>>()).await?;
        let nodes = parents.iter().zip(found);
        let missing = nodes.filter(|(_, found)| found.is_none());
        Ok(missing.map(|((path, _), _)| path.clone()).collect())
    }

    /// Creates the missing nodes, from the top, and returns the created ones.
    pub(crate) async fn make(
        self,
        parents: &[Parent],
        acl: &[Acl],
    ) -> Result<Vec<String>, ClientError> {
        let options = CreateMode::Persistent.with_acls(Acls::new(acl));
        // The requests are sent in order, and none waits for the reply to the one before.
        let asked = parents.iter();
        let asked = asked.map(|(path, data)| self.client.create(path, data.as_bytes(), &options));
        let answers = join_all(asked.collect::<Vec<_>>()).await;
        let mut made = Vec::new();
        for ((path, _), answer) in parents.iter().zip(answers) {
            match answer {
                Ok(_) => made.push(path.clone()),
                Err(ClientError::NodeExists) => {}
                // Without permission to create a node there, the server does not report that this one exists.
                Err(ClientError::NoAuth) if self.client.check_stat(path).await?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }
}

/// Which requests the server denies, found out without any effect.
impl Session {
    /// Returns those of these nodes whose data or children this client may not read.
    pub(crate) async fn denied_reads(self, nodes: &[String]) -> Result<Vec<String>, ClientError> {
        let mut reader = self.client.new_multi_reader();
        for node in nodes {
            reader.add_get_data(node)?;
        }
        let results = nodes.iter().zip(reader.commit().await?);
        let is_denied = |result: &MultiReadResult| {
            let no_auth = ClientError::NoAuth;
            matches!(result, MultiReadResult::Error { err } if *err == no_auth)
        };
        let denied = results.filter(|(_, result)| is_denied(result));
        Ok(denied.map(|(node, _)| node.clone()).collect())
    }

    /// Returns the first of these new nodes that this client may not create.
    pub(crate) async fn denied_creation(
        self,
        nodes: &[String],
        acl: &[Acl],
    ) -> Result<Option<String>, ClientError> {
        let options = CreateMode::Persistent.with_acls(Acls::new(acl));
        let mut writer = self.client.new_multi_writer();
        for node in nodes {
            writer.add_create(node, b"", &options)?;
        }
        let failed = Self::without_effect(writer).await?;
        Ok(failed.and_then(|(index, error)| {
            let is_denied = error == ClientError::NoAuth;
            nodes.get(index).filter(|_| is_denied).cloned()
        }))
    }

    /// Returns those of these nodes that this client may not write: this many, if there are more.
    pub(crate) async fn denied_writes(
        self,
        nodes: &[String],
        at_most: usize,
    ) -> Result<Vec<String>, ClientError> {
        let (mut denied, mut rest) = (Vec::new(), nodes);
        while denied.len() < at_most && !rest.is_empty() {
            let mut writer = self.client.new_multi_writer();
            for node in rest {
                writer.add_set_data(node, b"", None)?;
            }
            let Some((index, error)) = Self::without_effect(writer).await? else {
                break;
            };
            if error == ClientError::NoAuth {
                denied.extend(rest.get(index).cloned());
            }
            // A node may have been removed since.
            rest = rest.get(index + 1..).unwrap_or_default();
        }
        Ok(denied)
    }

    /// Sends this transaction with one more operation, which fails. Returns the operation that failed before it.
    async fn without_effect(
        mut writer: MultiWriter<'_>,
    ) -> Result<Option<(usize, ClientError)>, ClientError> {
        writer.add_check_version("/", i32::MAX)?;
        match writer.commit().await {
            Err(MultiWriteError::OperationFailed { index, source }) => Ok(Some((index, source))),
            Err(MultiWriteError::RequestFailed { source }) => Err(source),
            Ok(_) => Err(unexpected("a version that no node has".to_owned())),
        }
    }
}

/// Checks a result without the requested data: the node may not exist.
fn nothing(result: MultiReadResult) -> Result<(), ClientError> {
    match result {
        MultiReadResult::Error {
            err: ClientError::NoNode,
        } => Ok(()),
        MultiReadResult::Error { err } => Err(err),
        other => Err(unexpected(format!("{other:?}, which was not requested"))),
    }
}

/// Returns the writes of a transaction, which all have the same number.
fn written(results: &[MultiWriteResult]) -> Result<Committed, ClientError> {
    let set = results.iter().find_map(|result| match result {
        MultiWriteResult::SetData { stat } => Some(stat.mzxid),
        _ => None,
    });
    let (Some(zxid), [lock, others @ ..]) = (set, results) else {
        return Err(unexpected("a transaction without its zxid".to_owned()));
    };
    let write = |result: Option<&MultiWriteResult>| match result {
        Some(MultiWriteResult::SetData { stat }) => Some(Write::of(stat)),
        _ => Some(Write { zxid, version: 0 }),
    };
    Ok(Committed::Done(Version {
        lock: write(Some(lock)),
        beside: write(others.last()),
    }))
}

fn unexpected(what: String) -> ClientError {
    ClientError::UnexpectedError(what)
}
