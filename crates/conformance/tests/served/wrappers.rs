//! Harnesses over the small store behind a socket: once directly, and once behind each wrapper.

use std::sync::Arc;

use shedlock_conformance::{Harness, Tag, prefixed};

use crate::harness::Served;

/// What a wrapper may do to a call on its way to the store and back. `tests/memory` covers the
/// rest without a socket.
const BEHIND: &[Tag] = &[Tag::Cost, Tag::Processes, Tag::Names];

pub(crate) fn harnesses() -> impl Iterator<Item = Arc<dyn Harness>> {
    let straight: Arc<dyn Harness> = Arc::new(Served::RIGHT);
    let prefixed = Arc::new(prefixed(&straight).about(BEHIND));
    [straight, prefixed].into_iter()
}
