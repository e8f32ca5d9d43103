//! How the ensemble is reached: by the user's own client, or by sessions that we make.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind, SystemClock};
use shedlock_store::unanswered;
use zookeeper_client::{Client, Connector, Error as ClientError, SessionState};

use crate::explain::{explain, is_refused_unseen, is_told, refused, unreachable_server};
use crate::requests::Session;

/// What a store talks through.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) origin: Origin,
    /// How long a session may take to be there.
    pub(crate) connect: Duration,
    /// How long an answer may take.
    pub(crate) response: Duration,
}

/// Whose sessions they are.
#[derive(Clone)]
pub(crate) enum Origin {
    Theirs(Client, Arc<OnceLock<Session>>),
    Own(Arc<Own>),
}

/// One session that is made when it is needed, and left when it is broken: locks do not hang on it.
pub(crate) struct Own {
    servers: String,
    chroot: String,
    connector: Connector,
    current: Mutex<Option<Session>>,
    /// Held while a session is made, so that one is.
    connecting: tokio::sync::Mutex<()>,
}

impl Origin {
    /// The user's.
    pub(crate) fn theirs(client: Client) -> Self {
        Self::Theirs(client, Arc::default())
    }

    /// Our own, below this chroot; `/` for none.
    pub(crate) fn own(connector: Connector, servers: String, chroot: String) -> Self {
        Self::Own(Arc::new(Own {
            servers,
            chroot,
            connector,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }))
    }
}

impl Sessions {
    /// Asks over a session that is connected; `lost` is the kind of the error where no answer comes. What changes nothing is asked once more where the
    /// connection broke on the way, since it is found broken only by using it; and so is whatever was
    /// refused for its session's sake.
    ///
    /// Dropping the future is the same as a lost answer; a session of our own is then left behind,
    /// since its connection may have fallen silent.
    pub(crate) async fn ask<T, F>(
        &self,
        lost: ErrorKind,
        ask: impl Fn(Session) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut again = true;
        loop {
            let session = self.session().await?;
            let mut doubt = Doubt {
                sessions: self,
                session: &session,
                is_over: false,
            };
            let answer = within(self.response, ask(session.clone())).await;
            let error = match answer.ok_or_else(|| unanswered(lost))? {
                Ok(answer) => {
                    doubt.is_over = true;
                    return Ok(answer);
                }
                Err(error) => error,
            };
            doubt.is_over = is_told(&error);
            let may_repeat =
                is_refused_unseen(&error) || lost == ErrorKind::Unavailable && !doubt.is_over;
            if !again || !may_repeat {
                return Err(explain(error, lost));
            }
            again = false;
        }
    }

    /// One that is connected.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        match &self.origin {
            Origin::Theirs(client, begun) => {
                settled(client, self.connect).await?;
                if let Some(session) = begun.get() {
                    return Ok(session.clone());
                }
                let session = within(self.response, Session::begin(client.clone())).await;
                let session = session.ok_or_else(|| unanswered(ErrorKind::Unavailable))?;
                let session = session.map_err(|error| explain(error, ErrorKind::Unavailable))?;
                Ok(begun.get_or_init(|| session).clone())
            }
            Origin::Own(own) => own.session(self.connect).await,
        }
    }

    /// Leaves this session behind, if it is ours and still the one in use.
    fn leave(&self, session: &Session) {
        let Origin::Own(own) = &self.origin else {
            return;
        };
        let id = session.client.session_id();
        own.lock().take_if(|it| it.client.session_id() == id);
    }
}

/// A client of the user's connects again by itself, to whichever server it finds.
async fn settled(client: &Client, timeout: Duration) -> Result<(), Error> {
    let mut watcher = client.state_watcher();
    let state = async {
        let mut state = client.state();
        while state == SessionState::Disconnected {
            state = watcher.changed().await;
        }
        state
    };
    match within(timeout, state).await {
        Some(state) if is_connected(state) => Ok(()),
        Some(SessionState::AuthFailed) => {
            Err(explain(ClientError::AuthFailed, ErrorKind::Unavailable))
        }
        Some(_) => Err(Error::new(
            ErrorKind::Unavailable,
            "the session of this client is over, and a client does not make another one: make a new \
             client and provider, or a provider from a URL, which makes sessions by itself",
        )),
        None => Err(unreachable_server()),
    }
}

impl Own {
    async fn session(&self, timeout: Duration) -> Result<Session, Error> {
        if let Some(session) = self.connected() {
            return Ok(session);
        }
        let made = within(timeout, async {
            let _only_one = self.connecting.lock().await;
            if let Some(session) = self.connected() {
                return Ok(session);
            }
            let made = self.connect().await?;
            *self.lock() = Some(made.clone());
            Ok(made)
        });
        made.await.unwrap_or_else(|| Err(unreachable_server()))
    }

    async fn connect(&self) -> Result<Session, Error> {
        let client = self.connector.clone().connect(&self.servers).await;
        let client = client.map_err(refused)?.chroot(self.chroot.clone());
        let client = client.map_err(|_| {
            Error::new(
                ErrorKind::InvalidInput,
                "the chroot in the URL is no path of nodes: write it like zookeeper://host/app/env",
            )
        })?;
        Session::begin(client).await.map_err(refused)
    }

    fn connected(&self) -> Option<Session> {
        let current = self.lock().clone();
        current.filter(|session| is_connected(session.client.state()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_connected(state: SessionState) -> bool {
    matches!(
        state,
        SessionState::SyncConnected | SessionState::ConnectedReadOnly
    )
}

/// Leaves the session behind, unless a server answered.
struct Doubt<'a> {
    sessions: &'a Sessions,
    session: &'a Session,
    is_over: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.sessions.leave(self.session);
        }
    }
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    shedlock_core::within(&SystemClock, limit, future).await
}

/// Without servers, which a password may stand before.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Theirs(..) => "Theirs",
            Self::Own(_) => "Own",
        })
    }
}
