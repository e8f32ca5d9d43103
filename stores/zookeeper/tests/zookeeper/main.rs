//! What the laws do not say, over ZooKeeper: records byte for byte, ShedLock's own steps beside ours,
//! sessions that are lost, servers that refuse.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod late;
mod names;
mod records;
mod room;
mod sessions;
#[cfg(feature = "tls")]
mod tls;
