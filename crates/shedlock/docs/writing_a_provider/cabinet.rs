use shedlock::{Error, ErrorKind, LockName};
use shedlock_provider::{Found, Listed, Reading, Record, VersionedStore, Written};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The client: string values, each with the number of the write that stored it. Clones share all data.
#[derive(Clone, Debug, Default)]
struct Cabinet(Arc<Mutex<Drawer>>);

#[derive(Debug, Default)]
struct Drawer {
    writes: u64,
    papers: BTreeMap<String, (u64, String)>,
}

impl Cabinet {
    fn get(&self, key: &str) -> Option<(u64, String)> {
        self.0.lock().unwrap().papers.get(key).cloned()
    }

    /// Stores a text if the current one has this number; 0 means that there must be none.
    fn put(&self, key: &str, expected: u64, text: String) -> Option<u64> {
        let mut drawer = self.0.lock().unwrap();
        if drawer.papers.get(key).map_or(0, |paper| paper.0) != expected {
            return None;
        }
        drawer.writes += 1;
        let number = drawer.writes;
        drawer.papers.insert(key.to_owned(), (number, text));
        Some(number)
    }

    /// Removes the text that has this number.
    fn take(&self, key: &str, expected: u64) -> bool {
        let mut drawer = self.0.lock().unwrap();
        let is_same = drawer.papers.get(key).is_some_and(|paper| paper.0 == expected);
        is_same && drawer.papers.remove(key).is_some()
    }
}

/// Decodes the client's numbers and texts.
fn reading((number, text): &(u64, String)) -> Result<Reading<u64>, Error> {
    Ok(Reading::found(Found::new(Record::from_text(text)?, *number)))
}

impl VersionedStore for Cabinet {
    type Version = u64;

    fn store(&self) -> &str {
        "cabinet"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>, Error> {
        self.get(name.as_str())
            .map_or(Ok(Reading::nothing()), |paper| reading(&paper))
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&u64>,
        record: &Record,
    ) -> Result<Written<u64>, Error> {
        let number = before.copied().unwrap_or(0);
        let put = self.put(name.as_str(), number, record.to_text());
        Ok(put.map_or(Written::Raced, Written::Done))
    }

    async fn remove(&self, name: &LockName, before: &u64) -> Result<bool, Error> {
        Ok(self.take(name.as_str(), *before))
    }

    /// A record that cannot be read is returned as an error with its name, and hides no other record.
    async fn list(&self, after: Option<&LockName>, limit: usize) -> Result<Listed<u64>, Error> {
        let drawer = self.0.lock().unwrap();
        let papers = drawer.papers.iter();
        let behind = papers.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after.as_str()));
        let found = behind.filter_map(|(key, paper)| Some((LockName::new(key).ok()?, reading(paper))));
        Ok(found.take(limit).collect())
    }

    /// Runs before any I/O.
    fn check_name(&self, name: &LockName) -> Result<(), Error> {
        if name.as_str().len() <= 1_024 {
            return Ok(());
        }
        let what = "the lock's name has more than 1024 bytes, the longest key of this store";
        Err(Error::new(ErrorKind::InvalidInput, what).advise("shorten it"))
    }

    fn capabilities(&self, engine: shedlock::Capabilities) -> shedlock::Capabilities {
        let mut capabilities = engine;
        capabilities.longest_name = 1_024;
        capabilities.durable = false;
        capabilities
    }

    /// The number of a write grows with every write to any key, so it is the fencing token.
    fn has_revisions(&self) -> bool {
        true
    }

    fn revision(&self, version: &u64) -> Option<u64> {
        Some(*version)
    }
}
