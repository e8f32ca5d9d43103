//! Bare writes on ZooKeeper. Each names the version that it replaces.

use std::collections::HashMap;

use shedlock_zookeeper::zookeeper_client::{Acls, Client as Session, CreateMode, Error};

use super::{Client, Values, Written};

/// One session.
pub(crate) struct ZooKeeper {
    session: Session,
    /// The last version of each node.
    versions: HashMap<String, i32>,
}

impl ZooKeeper {
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        let servers = server.trim_start_matches("zookeeper://");
        Ok(Self {
            session: Session::connect(servers).await?,
            versions: HashMap::new(),
        })
    }

    async fn set(&mut self, name: &str, last: i32, value: i64) -> anyhow::Result<bool> {
        let data = value.to_string();
        let node = format!("/{name}");
        match self
            .session
            .set_data(&node, data.as_bytes(), Some(last))
            .await
        {
            Ok(stat) => {
                self.versions.insert(name.to_owned(), stat.version);
                Ok(true)
            }
            Err(Error::BadVersion) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn last(&self, name: &str) -> i32 {
        self.versions.get(name).copied().unwrap_or_default()
    }
}

impl Client for ZooKeeper {
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(async {
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            let node = format!("/{}", values.name);
            let data = values.millis().to_string();
            self.session
                .create(&node, data.as_bytes(), &options)
                .await?;
            Ok(true)
        })
    }

    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.set(values.name, last, values.end_millis()))
    }

    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.set(values.name, last, values.millis()))
    }

    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.set(values.name, 0, values.end_millis()))
    }
}
