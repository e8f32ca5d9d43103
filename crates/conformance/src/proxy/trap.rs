//! A strike that waits for its request.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use super::{Matcher, Strike};
use crate::wait::{PATIENCE, bounded, sleep};

/// A strike that waits for its request. It stays armed when this is dropped, but dropping it also
/// drops a request that it withholds.
#[derive(Clone)]
pub struct Trap(Arc<Waiting>);

struct Waiting {
    matcher: Matcher,
    strike: Strike,
    /// How many more requests have to match before it strikes.
    left: AtomicUsize,
    struck: AtomicBool,
    /// Makes the connection that withholds the request deliver it.
    order: Mutex<Option<oneshot::Sender<Order>>>,
}

/// The outcome of delivering a request that was withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The store received it and replied.
    Answered,
    /// The connection was closed before a reply arrived. The store may have received the request.
    Closed,
    /// There is no request to deliver: none was withheld, or it was delivered before.
    Nothing,
}

/// Orders the delivery of a withheld request; the outcome is sent to this channel.
pub(super) type Order = oneshot::Sender<Delivery>;

/// What happens to a request.
pub(super) struct Met {
    pub(super) strike: Strike,
    /// The order to deliver a request that is withheld.
    pub(super) order: oneshot::Receiver<Order>,
    pub(super) trap: Trap,
}

impl Trap {
    pub(super) fn new(matcher: Matcher, nth: usize, strike: Strike) -> Self {
        Self(Arc::new(Waiting {
            matcher,
            strike,
            left: AtomicUsize::new(nth.max(1)),
            struck: AtomicBool::new(false),
            order: Mutex::new(None),
        }))
    }

    /// Returns whether the request has arrived and the strike has happened. A request that is withheld has arrived with
    /// all its packets, unless its client was stopped between them.
    pub fn has_struck(&self) -> bool {
        self.0.struck.load(Ordering::SeqCst)
    }

    /// Returns once the trap has struck.
    pub async fn struck(&self) {
        while !self.has_struck() {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the result of the call, or `None` if it was given up this long after the trap struck.
    pub async fn give_up<T>(&self, after: Duration, call: impl Future<Output = T>) -> Option<T> {
        let given_up = async {
            self.struck().await;
            sleep(after).await;
        };
        let (call, given_up) = (pin!(call), pin!(given_up));
        match bounded(PATIENCE, select(call, given_up)).await {
            Some(Either::Left((answer, _))) => Some(answer),
            _ => None,
        }
    }

    /// Sends the request withheld by [`Strike::WithholdRequest`] or
    /// [`Strike::CutAndWithholdRequest`] to the store, and waits until the store has replied or
    /// closed the connection. The connection then continues if the client is still there.
    pub async fn deliver(&self) -> Delivery {
        let order = self.order().take();
        let Some(order) = order else {
            return Delivery::Nothing;
        };
        let (done, outcome) = oneshot::channel();
        // If the connection was cut in the meantime, it neither receives nor answers the order.
        let _ = order.send(done);
        outcome.await.unwrap_or(Delivery::Closed)
    }

    /// Counts the request if it matches; returns whether it is the one to strike at.
    pub(super) fn is_met(&self, request: &[u8]) -> bool {
        (self.0.matcher)(request) && self.0.left.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn strike(&self) -> Met {
        let (sender, order) = oneshot::channel();
        let is_delivered_on_order = self.0.strike.is_delivered_on_order();
        *self.order() = is_delivered_on_order.then_some(sender);
        if !is_delivered_on_order {
            self.has_sprung();
        }
        Met {
            strike: self.0.strike,
            order,
            trap: self.clone(),
        }
    }

    /// From now on it has struck.
    pub(super) fn has_sprung(&self) {
        self.0.struck.store(true, Ordering::SeqCst);
    }

    fn order(&self) -> std::sync::MutexGuard<'_, Option<oneshot::Sender<Order>>> {
        self.0.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Trap({:?}, struck: {})",
            self.0.strike,
            self.has_struck()
        )
    }
}
