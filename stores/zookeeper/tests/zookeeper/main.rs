//! Behaviour beyond the laws, over ZooKeeper: records byte for byte, ShedLock's own operations alongside ours, lost
//! sessions, and servers that refuse requests.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod late;
mod names;
mod records;
mod room;
mod sessions;
#[cfg(feature = "tls-aws-lc")]
mod tls;
