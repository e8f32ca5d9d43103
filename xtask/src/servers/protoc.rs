//! `protoc`, which the client of etcd is built with.
//!
//! It is no server, but comes from where they come from, in one go.

use super::debian;
use crate::host;
use anyhow::ensure;
use std::env;

/// What `apt-get` knows it by.
pub(super) const PACKAGE: &str = "protobuf-compiler";

/// Whether a build will find it.
pub(super) fn is_there() -> bool {
    env::var_os("PROTOC").is_some_and(|named| !named.is_empty())
        || host::find_program("protoc").is_some()
}

/// Fails, and says what to do, where a build would not find it.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(
        is_there(),
        "no `protoc`, which the client of etcd is built with: on Debian `{}`, elsewhere install the \
         protobuf compiler or name it in PROTOC",
        debian::by_hand(&[PACKAGE])
    );
    Ok(())
}
