//! Whether the sessions behind our own connections belong to us, or a connection pooler such as PgBouncer shares them.
//!
//! In transaction pooling, each transaction of a client may run in another session of the server. A statement that the
//! client prepared is then missing there, or, worse, another client has prepared a different one under the same name.
//! So it is not enough to wait for errors: whether a session is ours must be certain before anything is prepared.
//!
//! A connection therefore sets a mark when it starts: a setting with a random value, in the startup packet. A server
//! keeps it in the session that the packet opens. A pooler opened its sessions earlier, with packets of its own. It
//! either rejects the packet or drops the setting. The first statement of a connection reads the mark, in the round
//! trip that also sets up the session.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shedlock_core::Clock;

use super::{Driver, How};
use crate::failure::{Class, Failure};
use crate::statement::{Field, Statement, Values};

/// What is known about the sessions behind the connections of one provider.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// Whether statements are prepared, if the user has said so. If they are not, nothing is detected.
    prepared: Option<bool>,
    /// A pooler was found.
    is_found: AtomicBool,
    /// Sessions of our own that were left while a statement of this owner had no reply, the latest last.
    hanging: Mutex<VecDeque<(Box<str>, Arc<str>)>>,
}

/// The most sessions that are remembered.
const MOST_HANGING: usize = 100;

/// A connection of our own.
pub(crate) struct Opened<D: Driver> {
    pub(crate) connection: D::Connection,
    /// Its session is used by no one else for as long as it exists.
    pub(crate) is_ours: bool,
    /// What tells its session from all others, as the server reported it when it was opened. `None` if the database does
    /// not, or if the session may not be ours.
    pub(crate) session: Option<Arc<str>>,
}

impl Sharing {
    pub(crate) fn new(prepared: Option<bool>) -> Arc<Self> {
        Arc::new(Self {
            prepared,
            is_found: AtomicBool::new(false),
            hanging: Mutex::default(),
        })
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.prepared == Some(false) || self.is_found.load(Ordering::Relaxed)
    }

    /// Whether prepared statements may be kept in a session that is ours, or may be another one's.
    pub(crate) fn keeps_statements(&self, is_ours: bool) -> bool {
        self.prepared.unwrap_or(is_ours && !self.is_shared())
    }

    /// A session that was thought to be ours has lost a prepared statement. Returns whether the next one can do without.
    pub(crate) fn lost_a_statement(&self) -> bool {
        self.prepared.is_none() && self.found("a prepared statement was lost")
    }

    /// Opens a connection and sets up its session, if the session is ours.
    pub(crate) async fn open<D: Driver>(
        &self,
        options: &D::Options,
        clock: &dyn Clock,
    ) -> Result<Opened<D>, Failure> {
        let mark = format!("{:016x}", clock.random());
        let Some((marked, session_init)) = D::marked(options, &mark) else {
            let mut connection = D::connect(options).await?;
            if let Some(text) = D::DIALECT.session_init {
                run::<D>(&mut connection, Statement::plain(text)).await?;
            }
            return Ok(Opened {
                connection,
                is_ours: true,
                session: None,
            });
        };
        if self.is_shared() {
            return shared::<D>(options).await;
        }
        let mut connection = match D::connect(&marked).await {
            Err(failure) if failure.class == Class::Startup => {
                let opened = shared::<D>(options).await?;
                self.found("it rejects startup parameters");
                return Ok(opened);
            }
            connected => connected?,
        };
        let mut read = Statement::plain(&session_init);
        read.fields = &[Field::Name];
        let session: Option<Arc<str>> = run::<D>(&mut connection, read).await?.map(Arc::from);
        let is_ours = session.is_some();
        if !is_ours {
            self.found("it drops startup parameters");
        }
        Ok(Opened {
            connection,
            is_ours,
            session,
        })
    }

    /// A statement of this owner got no reply in this session, which is used no more.
    pub(crate) fn left_hanging(&self, owner: &str, session: Arc<str>) {
        let mut hanging = self.hanging();
        if hanging.len() >= MOST_HANGING {
            hanging.pop_front();
        }
        hanging.push_back((owner.into(), session));
    }

    pub(crate) fn hanging_of(&self, owner: &str) -> Vec<Arc<str>> {
        let hanging = self.hanging();
        let theirs = hanging.iter().filter(|(of, _)| **of == *owner);
        theirs.map(|(_, session)| Arc::clone(session)).collect()
    }

    pub(crate) fn hangs_no_more(&self, session: &str) {
        self.hanging().retain(|(_, it)| **it != *session);
    }

    fn hanging(&self) -> MutexGuard<'_, VecDeque<(Box<str>, Arc<str>)>> {
        self.hanging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, how: &'static str) -> bool {
        let is_first = !self.is_found.swap(true, Ordering::Relaxed);
        if is_first && self.prepared.is_none() {
            tracing::info!(
                how,
                "the database is reached through a connection pooler such as PgBouncer: statements \
                 are sent without being prepared (if its sessions belong to one client each, set \
                 prepared=true)"
            );
        }
        is_first
    }
}

async fn shared<D: Driver>(options: &D::Options) -> Result<Opened<D>, Failure> {
    Ok(Opened {
        connection: D::connect(options).await?,
        is_ours: false,
        session: None,
    })
}

/// Returns the text of the reply's first row.
async fn run<D: Driver>(
    connection: &mut D::Connection,
    statement: Statement,
) -> Result<Option<String>, Failure> {
    let values = Values::default();
    let reply = D::run(connection, &statement, &values, How::Plain).await;
    let mut reply = reply.map_err(|failure| failure.while_connecting(None))?;
    Ok(reply.rows.pop().and_then(|row| row.name))
}
