//! The provider toolkit: what every store would otherwise write again.
//!
//! A store implements [`Store`]; [`StoreProvider`] makes a [`LockProvider`](shedlock_core::LockProvider) of it, to be
//! proved by the conformance kit (`shedlock-conformance`). Three families of stores differ in how they judge an
//! attempt:
//!
//! - **compare-and-swap** stores replace a record if its version still stands: NATS, ZooKeeper, object stores,
//!   a Kubernetes Lease. They implement the smaller [`VersionedStore`]: three calls and a codec, as below;
//! - **conditional** stores evaluate the condition themselves: SQL, MongoDB;
//! - **presence** stores hold a lock as a key that vanishes: Redis, etcd.
//!
//! Around that the toolkit has what a record holds ([`Record`]), the rules of slots ([`refusal`], [`check_slot`]),
//! limits ([`check_duration`], [`check_name_length`]), the choice of a clock ([`TimeMode`]), the reader of URLs and
//! their options ([`StoreUrl`]) and of certificates ([`TlsOptions`]), a connection that calls share ([`Shared`]), and what
//! ShedLock writes into stores of keys ([`Added`]).
//!
//! # A store in one screen
//!
//! ```
//! use shedlock_store::{Found, Listed, Reading, Record, Versioned, VersionedStore, Written};
//! use shedlock_core::{Error, Executor, LockConfig, LockName};
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! /// The client of the store: texts with a version each.
//! #[derive(Debug, Default)]
//! struct Shelf(Mutex<BTreeMap<String, (u64, String)>>);
//!
//! impl VersionedStore for Shelf {
//!     type Version = u64;
//!
//!     fn store(&self) -> &str {
//!         "shelf"
//!     }
//!
//!     async fn read(&self, name: &LockName) -> Result<Reading<u64>, Error> {
//!         let texts = self.0.lock().unwrap();
//!         let Some((version, text)) = texts.get(name.as_str()) else {
//!             return Ok(Reading::nothing());
//!         };
//!         Ok(Reading::found(Found::new(Record::from_text(text)?, *version)))
//!     }
//!
//!     async fn write(
//!         &self,
//!         name: &LockName,
//!         before: Option<&u64>,
//!         record: &Record,
//!     ) -> Result<Written<u64>, Error> {
//!         let mut texts = self.0.lock().unwrap();
//!         if texts.get(name.as_str()).map(|(version, _)| version) != before {
//!             return Ok(Written::Raced);
//!         }
//!         let version = before.map_or(1, |version| version + 1);
//!         texts.insert(name.to_string(), (version, record.to_text()));
//!         Ok(Written::Done(version))
//!     }
//!
//!     async fn list(&self, _: Option<&LockName>, _: usize) -> Result<Listed<u64>, Error> {
//!         let texts = self.0.lock().unwrap();
//!         texts
//!             .iter()
//!             .map(|(name, (version, text))| {
//!                 let record = Record::from_text(text);
//!                 let found = record.map(|record| Reading::found(Found::new(record, *version)));
//!                 Ok((LockName::new(name)?, found))
//!             })
//!             .collect()
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let executor = Executor::new(Arc::new(Versioned::new(Shelf::default()).provider()));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! assert!(executor.execute(&config, async { 42 }).await?.is_executed());
//! # Ok::<(), Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to go from here
//!
//! The rules are in [`VersionedStore`]. Of the calls with default bodies, look at these: `check_name`,
//! where the store cannot hold every text as a key; `migrate`, where something must be made first;
//! `capabilities`, for the longest name; `has_revisions`, where the store numbers all its writes;
//! `versions_start_anew`, where a deleted key begins again.
//!
//! Then give the kit (`shedlock-conformance`) a harness over a real server: its requests are those of
//! `Cost::COMPARE_AND_SWAP` where each call here is one. It takes your provider to pieces by a proxy,
//! kills processes of it, and asks for names that no sane person gives a lock.

pub mod cas;
mod connection;
mod construct;
mod errors;
mod limits;
mod operator;
mod provider;
mod shedlock;
mod slots;
mod store;
mod time;
mod tls;
mod url;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;

pub use cas::{
    DEFAULT_TOLERATED_SKEW, Found, Listed, Reading, Record, Versioned, VersionedSettings,
    VersionedStore, Written, whole_millis,
};
pub use connection::{Call, Connect, Shared};
pub use construct::{FromClient, FromUrl, maybe};
pub use errors::{
    Result, configuration, conflict, in_doubt, internal, invalid, overtaken, unanswered,
    unavailable, unknown, unread, untrusted,
};
pub use limits::{HUNDRED_YEARS, check_duration, check_name_length};
pub use operator::{ROUNDS, contended};
pub use provider::StoreProvider;
pub use shedlock::{Added, COMPANION, start_of_keys};
pub use slots::{check_slot, refusal, slot_ahead};
pub use store::{Changed, End, Ended, Seen, Store};
pub use time::TimeMode;
#[cfg(feature = "crypto-choice")]
pub use tls::check_crypto_choice;
pub use tls::{TlsFiles, TlsOptions, read_file, unusable_file};
pub use url::{Host, StoreUrl, UrlOptions};
