//! What the tests over real servers share.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses a part of it"
)]

pub(crate) mod own;
pub(crate) mod watched;

pub(crate) use shedlock_conformance::support::{server, server_if_any};
