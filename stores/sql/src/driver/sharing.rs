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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shedlock_core::Clock;

use super::{Driver, How};
use crate::failure::{Class, Failure};
use crate::statement::{Field, Statement, Values};

/// What is known about the sessions behind the connections of one provider.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// The user's choice, if there is one: then nothing is detected.
    prepared: Option<bool>,
    /// A pooler was found.
    is_found: AtomicBool,
}

/// A connection of our own.
pub(crate) struct Opened<D: Driver> {
    pub(crate) connection: D::Connection,
    /// Its session is used by no one else for as long as it exists.
    pub(crate) is_ours: bool,
}

impl Sharing {
    pub(crate) fn new(prepared: Option<bool>) -> Arc<Self> {
        Arc::new(Self {
            prepared,
            is_found: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.prepared == Some(false) || self.is_found.load(Ordering::Relaxed)
    }

    /// A session that was thought to be ours has lost a prepared statement. Returns whether the next one can do without.
    pub(crate) fn lost_a_statement(&self) -> bool {
        self.found("a prepared statement was lost")
    }

    /// Opens a connection and sets up its session, if the session is ours.
    pub(crate) async fn open<D: Driver>(
        &self,
        options: &D::Options,
        clock: &dyn Clock,
    ) -> Result<Opened<D>, Failure> {
        if self.is_shared() {
            return shared::<D>(options).await;
        }
        let mark = format!("{:016x}", clock.random());
        let marked = D::marked(options, &mark).filter(|_| self.prepared.is_none());
        let Some((marked, session_init)) = marked else {
            let mut connection = D::connect(options).await?;
            if let Some(text) = D::DIALECT.session_init {
                run::<D>(&mut connection, Statement::plain(text)).await?;
            }
            return Ok(Opened {
                connection,
                is_ours: true,
            });
        };
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
        let is_ours = run::<D>(&mut connection, read).await?.is_some();
        if !is_ours {
            self.found("it drops startup parameters");
        }
        Ok(Opened {
            connection,
            is_ours,
        })
    }

    fn found(&self, how: &'static str) -> bool {
        let is_first = self.prepared.is_none() && !self.is_found.swap(true, Ordering::Relaxed);
        if is_first {
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
