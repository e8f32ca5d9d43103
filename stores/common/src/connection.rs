//! One connection that all calls share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{SystemClock, within};

/// Makes connections, one at a time.
pub trait Connect: Send {
    /// What calls are sent over.
    type Connection: Send + Sync;

    /// Why there is none.
    type Error;

    /// Makes one. The future may be dropped at any point.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Why there is none in time.
    fn late() -> Self::Error;

    /// Whether its client has a connection, as far as it reports that.
    fn is_usable(_connection: &Self::Connection) -> bool {
        true
    }

    /// Whether its client connects again by itself, so that it is not left.
    fn heals(_connection: &Self::Connection) -> bool {
        false
    }
}

/// A connection that is made when it is needed, and left when it may be broken: the next call then makes another one.
pub struct Shared<C: Connect> {
    current: Mutex<Option<Arc<C::Connection>>>,
    /// Held while one is made, so that one is.
    connect: tokio::sync::Mutex<C>,
}

/// A call on its way. It leaves its connection unless the answer comes, also where the future was dropped: the
/// connection may have fallen silent.
pub struct Call<'a, C: Connect> {
    shared: &'a Shared<C>,
    /// What it is sent over.
    pub connection: Arc<C::Connection>,
    is_answered: bool,
}

impl<C: Connect> Shared<C> {
    /// No connection yet.
    pub fn new(connect: C) -> Self {
        Self {
            current: Mutex::default(),
            connect: tokio::sync::Mutex::new(connect),
        }
    }

    /// Begins a call, if a connection is there within this limit. What waits for another call's connection waits no
    /// longer than for one of its own.
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
        *self.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn usable(&self) -> Option<Arc<C::Connection>> {
        let current = self.lock().clone();
        current.filter(|connection| C::is_usable(connection))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<C::Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what leads to connections, which may hold passwords.
impl<C: Connect> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<C: Connect> Call<'_, C> {
    /// The answer came.
    pub fn settle(mut self) {
        self.is_answered = true;
    }

    /// Passes on what came of the call, where some failures are answers as well.
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
        let is_its = |current: &mut Arc<_>| Arc::ptr_eq(current, &self.connection);
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
        // It left that one, and leaves no later one.
        let late = begin().await;
        drop(next);
        let healing = begin().await;
        assert_eq!(*healing.connection, 3);
        drop(late);
        drop(healing);
        assert_eq!(*begin().await.connection, 3);
    }
}
