//! Logins that the server refuses: a wrong password, a user or a host that it has blocked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock, Moment, within};
use tokio::sync::Semaphore;

use crate::failure::{Class, Failure, Refusal};

/// Paces the logins of a provider once the server has refused one.
///
/// Servers count refused logins and lock the account, or the host, after a few: for everyone who uses it. After a password
/// was rotated, each of a provider's leases and jobs would otherwise log in with the old one, again and again. So logins
/// that may be refused are made one after the other, and what a refused one returned is returned to the others for
/// [`PAUSE`], and after [`IN_A_ROW`] for [`LONG_PAUSE`].
pub(crate) struct Logins {
    clock: Arc<dyn Clock>,
    refused: Mutex<Option<Refused>>,
    turn: tokio::sync::Mutex<()>,
    /// For calls that log in only if an idle connection turns out to be broken.
    few: Semaphore,
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

/// How many calls that have an idle connection may find it broken, and log in, at the same time.
const FEW: usize = 2;

/// How many refused logins in a row show that the idle connections of a pool are broken, too.
const BROKEN: u32 = 3;

/// How long a login waits for another one to be answered. A server that does not answer at all refuses nothing.
const TURN: Duration = Duration::from_secs(1);

impl Logins {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            refused: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            few: Semaphore::new(FEW),
        }
    }

    /// Makes a call that may log in, unless a login was refused lately.
    pub(super) async fn pace<T>(
        &self,
        login: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let turn = within(&*self.clock, TURN, self.turn.lock()).await;
        if let Some(refused) = self.lately(1) {
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

    /// The same for a call that has an idle connection, and logs in if that is broken. `last_reply` is when a reply last came
    /// over any connection: one that came since the last refusal shows that there are others.
    pub(super) async fn pace_idle<T>(
        &self,
        last_reply: Option<Moment>,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let _one_of_few = within(&*self.clock, TURN, self.few.acquire()).await;
        let is_unanswered = || {
            let refused = self.refused();
            let refused = refused.as_ref();
            refused.is_some_and(|it| last_reply.is_none_or(|reply| reply <= it.at))
        };
        let _turn = match is_unanswered() {
            true => within(&*self.clock, TURN, self.turn.lock()).await,
            false => None,
        };
        if let Some(refused) = self.lately(BROKEN).filter(|_| is_unanswered()) {
            return Err(refused);
        }
        let answer = call.await;
        if let Err(failure) = &answer {
            self.note(failure);
        }
        answer
    }

    /// What the last login returned, if so many were refused in a row, and if it is too early for another one.
    fn lately(&self, many: u32) -> Option<Failure> {
        let refused = self.refused();
        let refused = refused
            .as_ref()
            .filter(|refused| refused.in_a_row >= many)?;
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
        let said = failure.said.clone();
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
    async fn a_pool_whose_idle_connections_are_broken_makes_no_more_than_five_logins_either() {
        let server = Server::new();
        let refused = || async {
            server.seen.set(server.seen.get() + 1);
            Err::<(), _>(Failure::new(Class::Refused(Refusal::Login), "no"))
        };
        for _ in 0..60 {
            for _ in 0..100 {
                let answer = server.logins.pace_idle(None, refused()).await;
                assert!(answer.is_err());
            }
            server.clock.advance(Duration::from_secs(1));
        }
        assert_eq!(server.seen.get(), 5);
        // Replies come over other connections.
        let reply = Some(server.clock.now());
        let used = server.logins.pace_idle(reply, async { Ok(7) }).await;
        assert_eq!(used.ok(), Some(7));
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
