//! One connection that all calls share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock as _, Moment, SystemClock, within};

/// Makes connections, one at a time.
pub trait Connect: Send {
    /// The connection that calls are sent over.
    type Connection: Send + Sync;

    /// The error if no connection can be made.
    type Error;

    /// Makes a connection. The future may be dropped at any point.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Returns the error for a connection that was not made in time.
    fn late() -> Self::Error;

    /// Whether the client is connected, as far as it reports that. `idle` is the time since its last reply.
    fn is_usable(_connection: &Self::Connection, _idle: Duration) -> bool {
        true
    }

    /// Whether the client reconnects by itself, so that the connection is kept after a failure.
    fn heals(_connection: &Self::Connection) -> bool {
        false
    }
}

/// A connection that is made on demand and discarded when it may be broken. The next call then makes a new one.
pub struct Shared<C: Connect> {
    current: Mutex<Option<Current<C::Connection>>>,
    /// Held while a connection is made, so that only one is made at a time.
    connect: tokio::sync::Mutex<C>,
}

struct Current<C> {
    connection: Arc<C>,
    /// The time of the last reply.
    answered: Moment,
}

/// A call in progress. It discards its connection unless the reply arrives, including when the future is dropped: the
/// connection may no longer respond.
pub struct Call<'a, C: Connect> {
    shared: &'a Shared<C>,
    /// The connection that the call uses.
    pub connection: Arc<C::Connection>,
    is_answered: bool,
}

impl<C: Connect> Shared<C> {
    /// Creates it without a connection.
    pub fn new(connect: C) -> Self {
        Self {
            current: Mutex::default(),
            connect: tokio::sync::Mutex::new(connect),
        }
    }

    /// Begins a call once there is a connection, within this limit. Waiting for a connection that another call is
    /// making counts towards the same limit.
    pub async fn call(&self, limit: Duration) -> Result<Call<'_, C>, C::Error> {
        let connection = match self.usable() {
            Some(connection) => connection,
            None => {
                let made = Box::pin(within(&SystemClock, limit, self.made())).await;
                made.unwrap_or_else(|| Err(C::late()))?
            }
        };
        Ok(Call {
            shared: self,
            connection,
            is_answered: false,
        })
    }

    async fn made(&self) -> Result<Arc<C::Connection>, C::Error> {
        let mut connect = self.connect.lock().await;
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let connection = Arc::new(connect.connect().await?);
        *self.lock() = Some(Current {
            connection: Arc::clone(&connection),
            answered: SystemClock.now(),
        });
        Ok(connection)
    }

    fn usable(&self) -> Option<Arc<C::Connection>> {
        let (connection, answered) = match &*self.lock() {
            Some(current) => (Arc::clone(&current.connection), current.answered),
            None => return None,
        };
        let idle = SystemClock.now().at_least_since(answered);
        C::is_usable(&connection, idle).then_some(connection)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current<C::Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves out the connector, which may hold passwords.
impl<C: Connect> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<C: Connect> Call<'_, C> {
    /// Records that the reply arrived, so that the connection is kept.
    pub fn settle(mut self) {
        self.is_answered = true;
        if let Some(current) = self.shared.lock().as_mut() {
            if Arc::ptr_eq(&current.connection, &self.connection) {
                current.answered = SystemClock.now();
            }
        }
    }

    /// Returns the result of the call. Keeps the connection on success, and on errors that `is_answer` accepts as
    /// replies.
    pub fn settle_by<T, E>(
        self,
        answer: Result<T, E>,
        is_answer: impl FnOnce(&E) -> bool,
    ) -> Result<T, E> {
        if answer.as_ref().err().is_none_or(is_answer) {
            self.settle();
        }
        answer
    }
}

impl<C: Connect> Drop for Call<'_, C> {
    fn drop(&mut self) {
        if self.is_answered || C::heals(&self.connection) {
            return;
        }
        let is_its = |current: &mut Current<_>| Arc::ptr_eq(&current.connection, &self.connection);
        self.shared.lock().take_if(is_its);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Numbers its connections.
    struct Numbers(u32);

    impl Connect for Numbers {
        type Connection = u32;
        type Error = ();

        async fn connect(&mut self) -> Result<u32, ()> {
            self.0 += 1;
            tokio::task::yield_now().await;
            Ok(self.0)
        }

        fn late() {}

        fn heals(number: &u32) -> bool {
            *number == 3
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_while_answers_come_and_left_when_one_does_not() {
        let shared = Shared::new(Numbers(0));
        let begin = || async { shared.call(LONG).await.unwrap() };
        let (one, other) = futures_util::join!(begin(), begin());
        assert_eq!((*one.connection, *other.connection), (1, 1));
        one.settle();
        drop(other);
        let next = begin().await;
        assert_eq!(*next.connection, 2);
        // The late call discarded its own connection, and discards no later one.
        let late = begin().await;
        drop(next);
        let healing = begin().await;
        assert_eq!(*healing.connection, 3);
        drop(late);
        drop(healing);
        assert_eq!(*begin().await.connection, 3);
    }
}
