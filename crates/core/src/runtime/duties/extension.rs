//! An extension that is sent from the thread of the duties.

use std::sync::Arc;
use std::time::Duration;

use super::super::bounded::bounded;
use super::second::Second;
use crate::clock::SystemClock;
use crate::contract::{Error, ExtendRequest, Lease};

/// An extension over a second connection. It refers to nothing that belongs to the user.
#[derive(Debug)]
pub(super) struct Extension {
    second: Arc<Second>,
    lease: Lease,
    request: ExtendRequest,
    limit: Duration,
}

impl Extension {
    pub(super) fn new(
        second: Arc<Second>,
        lease: Lease,
        request: ExtendRequest,
        limit: Duration,
    ) -> Self {
        Self {
            second,
            lease,
            request,
            limit,
        }
    }

    /// Opens the connection if it is not open, and extends the lease over it.
    pub(super) async fn send(self) -> Result<crate::Extension, Error> {
        let call = async {
            let provider = self.second.open().await?;
            provider.extend(&self.lease, &self.request).await
        };
        bounded(&SystemClock, self.limit, call).await
    }
}
