//! Logins that the server refuses: a wrong password, a user or a host that it has blocked.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use shedlock_core::{Clock, Moment};

use crate::failure::{Class, Failure, Refusal};

/// Paces the logins of a provider once the server has refused one.
///
/// Servers count refused logins and lock the account, or the host, after a few: for everyone who uses it. After a password
/// was rotated, each of a provider's leases and jobs would otherwise log in with the old one, again and again. So logins
/// that may be refused are made one after the other, and what a refused one returned is returned to the others for
/// [`PAUSE`], and after [`IN_A_ROW`] for [`LONG_PAUSE`].
pub(super) struct Logins {
    clock: Arc<dyn Clock>,
    refused: Mutex<Option<Refused>>,
    turn: tokio::sync::Mutex<()>,
}

struct Refused {
    at: Moment,
    in_a_row: u32,
    refusal: Refusal,
    said: String,
}

/// The time between two logins while they are refused.
const PAUSE: Duration = Duration::from_secs(10);

/// How many refused logins in a row are made at that pace.
const IN_A_ROW: u32 = 5;

/// The time between two logins after that.
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// How long a login waits for another one to be answered. A server that does not answer at all refuses nothing.
const TURN: Duration = Duration::from_secs(1);

impl Logins {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            refused: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Makes a call that may log in, unless a login was refused lately.
    pub(super) async fn pace<T>(
        &self,
        login: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let until = self.clock.now() + TURN;
        let turn = match select(pin!(self.turn.lock()), pin!(self.clock.sleep_until(until))).await {
            Either::Left((turn, _)) => Some(turn),
            Either::Right(_) => None,
        };
        if let Some(refused) = self.lately() {
            return Err(refused);
        }
        let login = login.await;
        match &login {
            Err(failure) => self.note(failure),
            Ok(_) => *self.refused() = None,
        }
        drop(turn);
        login
    }

    /// What the last login returned, if it is too early for another one.
    fn lately(&self) -> Option<Failure> {
        let refused = self.refused();
        let refused = refused.as_ref()?;
        let pause = match refused.in_a_row {
            ..IN_A_ROW => PAUSE,
            _ => LONG_PAUSE,
        };
        let since = self.clock.now().saturating_since(refused.at);
        let class = Class::Refused(refused.refusal);
        (since < pause).then(|| Failure::new(class, refused.said.clone()))
    }

    fn note(&self, failure: &Failure) {
        let Class::Refused(refusal @ (Refusal::Login | Refusal::Blocked)) = failure.class else {
            return;
        };
        let mut refused = self.refused();
        let before = refused.as_ref().map_or(0, |refused| refused.in_a_row);
        let said = super::said(&*failure.source);
        *refused = Some(Refused {
            at: self.clock.now(),
            in_a_row: before + 1,
            refusal,
            said: said.unwrap_or_else(|| failure.source.to_string()),
        });
    }

    fn refused(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use shedlock_core::ManualClock;

    use super::*;

    struct Server {
        clock: ManualClock,
        logins: Logins,
        seen: Cell<u32>,
    }

    impl Server {
        fn new() -> Self {
            let clock = ManualClock::new();
            Self {
                logins: Logins::new(Arc::new(clock.clone())),
                clock,
                seen: Cell::new(0),
            }
        }

        async fn log_in(&self, class: Option<Class>) -> Result<(), Class> {
            let login = async {
                self.seen.set(self.seen.get() + 1);
                match class {
                    Some(class) => Err(Failure::new(class, "no")),
                    None => Ok(()),
                }
            };
            self.logins
                .pace(login)
                .await
                .map_err(|failure| failure.class)
        }

        async fn refuse(&self) {
            let refused = Class::Refused(Refusal::Login);
            assert_eq!(self.log_in(Some(refused.clone())).await, Err(refused));
        }
    }

    #[tokio::test]
    async fn refused_logins_are_ten_seconds_apart_and_five_in_a_row() {
        let server = Server::new();
        for second in 0..60 {
            for _ in 0..500 {
                server.refuse().await;
            }
            assert_eq!(server.seen.get(), (second / 10 + 1).min(5), "{second}");
            server.clock.advance(Duration::from_secs(1));
        }
        server.clock.advance(LONG_PAUSE);
        server.refuse().await;
        assert_eq!(server.seen.get(), 6);
        server.clock.advance(LONG_PAUSE);
        assert_eq!(server.log_in(None).await, Ok(()));
        server.refuse().await;
        assert_eq!(server.seen.get(), 8, "a login that succeeds ends the row");
    }

    #[tokio::test]
    async fn only_refused_logins_are_paced() {
        let server = Server::new();
        for class in [Class::Unreachable, Class::Unready, Class::NotSent] {
            assert_eq!(server.log_in(Some(class.clone())).await, Err(class));
        }
        assert_eq!(server.log_in(None).await, Ok(()));
        assert_eq!(server.seen.get(), 4);
    }
}
