//! tokio-postgres: PostgreSQL without sqlx.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, pin_mut};
use shedlock_core::{SystemClock, within};
use shedlock_provider::untrusted;
use shedlock_sql::driver::postgres::{self, POSTGRES};
use shedlock_sql::driver::{
    BoxError, Class, Dialect, Driver, Failure, Fill, How, Proof, Refusal, Reply, Server, Statement,
    Value, Values, check_proof,
};
use shedlock_support::causes;
use tokio::task::JoinHandle;
use tokio_postgres::error::DbError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, SimpleQueryMessage, Statement as Prepared, config::SslMode};

use crate::source::{Clients, Lent};
use crate::tls::Tls;

/// PostgreSQL over tokio-postgres.
#[derive(Debug)]
pub enum TokioPostgres {}

/// How our own sessions are opened.
#[derive(Clone)]
pub struct Connect {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
}

/// A session, with its prepared statements if it is our own.
pub struct Session {
    kind: Kind,
    prepared: HashMap<Arc<str>, Prepared>,
}

enum Kind {
    Own(OwnSession),
    /// `None` once it was discarded.
    Lent(Option<Box<dyn Lent>>),
}

const TAKEN: &str = "a session that has ended is not used";

/// A session of our own. Dropping it closes its connection at once. Otherwise the task would wait for the reply to an
/// abandoned statement, for as long as a silent server keeps the connection open.
struct OwnSession {
    client: Option<Client>,
    connection: JoinHandle<()>,
}

impl OwnSession {
    fn client(&self) -> &Client {
        self.client.as_ref().expect(TAKEN)
    }

    /// Drops the client and lets the task end the session cleanly.
    async fn close(mut self) {
        drop(self.client.take());
        within(&SystemClock, GOODBYE, &mut self.connection).await;
    }
}

impl Drop for OwnSession {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// How long a clean end may take.
const GOODBYE: Duration = Duration::from_secs(1);

impl Session {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            prepared: HashMap::new(),
        }
    }

    fn client(&self) -> &Client {
        match &self.kind {
            Kind::Own(own) => own.client(),
            Kind::Lent(lent) => lent.as_ref().expect(TAKEN).client(),
        }
    }

    /// Prepares the statement, once per session of our own. Its values always have the same types.
    async fn prepared(
        &mut self,
        statement: &Statement,
        values: &[Value<'_>],
    ) -> Result<Prepared, BoxError> {
        if let Some(prepared) = self.prepared.get(&**statement.shared_text()) {
            return Ok(prepared.clone());
        }
        let types: Vec<Type> = values.iter().map(type_of).collect();
        let prepared = self
            .client()
            .prepare_typed(statement.shared_text(), &types)
            .await?;
        self.prepared
            .insert(Arc::clone(statement.shared_text()), prepared.clone());
        Ok(prepared)
    }

    /// If it is not prepared, the statement runs unnamed in one round trip, which leaves nothing in the session.
    async fn run(
        &mut self,
        statement: &Statement,
        values: &Values<'_>,
        is_prepared: bool,
    ) -> Result<Reply, BoxError> {
        let values: Vec<Value<'_>> = statement.bound(values).collect();
        let rows = if is_prepared {
            let prepared = self.prepared(statement, &values).await?;
            let parameters = values.iter().map(parameter);
            self.client().query_raw(&prepared, parameters).await?
        } else {
            let parameters = values
                .iter()
                .map(|value| (parameter(value), type_of(value)));
            let text = &**statement.shared_text();
            self.client().query_typed_raw(text, parameters).await?
        };
        pin_mut!(rows);
        let mut reply = Reply::default();
        while let Some(row) = rows.try_next().await? {
            let text = |index| row.try_get(index);
            reply.add(statement, text, |index| row.try_get(index));
        }
        reply.affected = rows.rows_affected().unwrap_or_default();
        Ok(reply)
    }

    /// One request of the simple protocol, whose rows are texts.
    async fn run_alone(
        &mut self,
        statement: &Statement,
        values: &Values<'_>,
        proof: &Proof,
    ) -> Result<Reply, Failure> {
        let text = statement.inlined(values, &POSTGRES);
        let text = format!("{}{text}{}", proof.before(), proof.after());
        let messages = self.client().simple_query(&text).await;
        let messages = messages.map_err(|error| running(error.into()))?;
        let mut replies = Vec::new();
        let mut rows = Vec::new();
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(row),
                SimpleQueryMessage::CommandComplete(affected) => {
                    replies.push((std::mem::take(&mut rows), affected));
                }
                _ => {}
            }
        }
        let proof = replies.pop().and_then(|(rows, _)| rows.into_iter().next());
        check_proof(proof.as_ref().and_then(|row| row.try_get(0).ok().flatten()))?;
        let mut reply = Reply::default();
        for (rows, affected) in replies {
            reply.affected = affected;
            for row in rows {
                let text = |index| row.try_get(index).map(|text| text.map(str::to_owned));
                let text = |index| text(index).map_err(BoxError::from);
                let number = |index| match text(index)? {
                    Some(text) => text.parse().map(Some).map_err(BoxError::from),
                    None => Ok(None),
                };
                reply.add(statement, text, number);
            }
        }
        Ok(reply)
    }
}

impl Server for TokioPostgres {}

impl postgres::Postgres for TokioPostgres {}

impl Driver for TokioPostgres {
    const STORE: &'static str = "postgres";

    type Pool = Clients;
    type Connection = Session;
    type Options = Connect;
    type Pooled = Box<Session>;

    const DIALECT: &'static Dialect = &POSTGRES;

    fn unverified(options: &Connect) -> Option<String> {
        let mode = options.config.get_ssl_mode();
        if mode == SslMode::Require {
            return None;
        }
        let hosts = options.config.get_hosts().iter();
        let mut names = hosts.filter_map(|host| match host {
            tokio_postgres::config::Host::Tcp(name) => Some(name),
            #[cfg(unix)]
            tokio_postgres::config::Host::Unix(_) => None,
        });
        let host = names.find(|name| !shedlock_core::is_this_machine(name))?;
        Some(format!(
            "connections to {host} do not verify the server: an attacker on the network can \
             impersonate it (to verify it, set sslmode=verify-full, with sslrootcert for your own \
             certificate authority)"
        ))
    }

    fn marked(options: &Connect, mark: &str) -> Option<(Connect, String)> {
        let mut marked = options.clone();
        let set = format!("-c {}={mark}", postgres::MARK);
        let all = match options.config.get_options() {
            Some(others) => format!("{others} {set}"),
            None => set,
        };
        marked.config.options(all);
        Some((marked, postgres::session_init(mark)))
    }

    async fn connect(options: &Connect) -> Result<Session, Failure> {
        let connected = options.config.connect(Tls::clone(&options.tls)).await;
        let (client, connection) = connected.map_err(|error| connecting(error.into()))?;
        // If the connection ends early, the next statement reports the reason.
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Session::of(Kind::Own(OwnSession {
            client: Some(client),
            connection,
        })))
    }

    async fn ping(session: &mut Session) -> bool {
        session.client().simple_query("").await.is_ok()
    }

    async fn close(session: Session) {
        if let Kind::Own(own) = session.kind {
            own.close().await;
        }
    }

    async fn acquire(clients: &Clients) -> Result<Box<Session>, Failure> {
        match clients.lend().await {
            Ok(lent) => Ok(Box::new(Session::of(Kind::Lent(Some(lent))))),
            Err(error) if clients.is_closed() => Err(Failure::new(Class::Closed, error)),
            Err(error) => Err(connecting(error)),
        }
    }

    fn discard(session: &mut Box<Session>) {
        if let Kind::Lent(lent) = &mut session.kind {
            if let Some(lent) = lent.take() {
                lent.discard();
            }
        }
    }

    fn fill(clients: &Clients) -> Option<Fill> {
        clients.fill()
    }

    async fn run<'a>(
        session: &'a mut Session,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> Result<Reply, Failure> {
        let is_prepared = match how {
            How::Alone(proof) => return session.run_alone(statement, values, proof).await,
            How::Prepared => true,
            How::Plain => false,
        };
        session
            .run(statement, values, is_prepared)
            .await
            .map_err(running)
    }
}

/// Classifies an error that occurred while a connection was being acquired: nothing was sent.
fn connecting(error: BoxError) -> Failure {
    if let Some(class) = reported(&error) {
        let report = report(&*error);
        let special = report.and_then(|it| postgres::at_login(it.code().code(), it.message()));
        return failed(class, error).while_connecting(special);
    }
    let class = if untrusted(&*error).is_some() {
        Class::Untrusted
    } else if is_about(&error, "TLS handshake") {
        Class::Refused(Refusal::Tls)
    } else if is_about(&error, "invalid config") {
        // The client finds that the server requires a password and the URL has none.
        match error.source() {
            Some(cause) if cause.to_string().contains("password") => Class::Refused(Refusal::Login),
            _ => Class::Refused(Refusal::Other),
        }
    } else if causes(&*error)
        .any(|cause| cause.is::<tokio_postgres::Error>() || cause.is::<io::Error>())
    {
        Class::Unreachable
    } else {
        // The pool had no client to lend.
        Class::NotSent
    };
    Failure::new(class, error)
}

/// Classifies an error that occurred while a statement was running.
fn running(error: BoxError) -> Failure {
    let class = match reported(&error) {
        Some(class) => class,
        None if is_about(&error, "deserializing") => Class::Foreign,
        None if is_about(&error, "serializing") => Class::Other,
        // How far the statement got is unknown.
        None => Class::ReplyLost,
    };
    failed(class, error)
}

fn parameter<'a>(value: &'a Value<'a>) -> &'a (dyn ToSql + Sync) {
    match value {
        Value::Text(text) => text,
        Value::Integer(integer) => integer,
    }
}

fn type_of(value: &Value<'_>) -> Type {
    match value {
        Value::Text(_) => Type::TEXT,
        Value::Integer(_) => Type::INT8,
    }
}

/// The error that the server reported, even inside an error of a pool.
fn reported(error: &BoxError) -> Option<Class> {
    let report = report(&**error)?;
    Some(postgres::classify(
        report.code().code(),
        report.message(),
        report.constraint(),
    ))
}

fn report<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a DbError> {
    causes(error).find_map(<dyn std::error::Error>::downcast_ref)
}

/// A failure of this class, with what the server said.
fn failed(class: Class, error: BoxError) -> Failure {
    let said = report(&*error).map(|report| report.message().to_owned());
    Failure::new(class, error).said(said)
}

/// The client has no public error kinds, but its error texts start alike.
fn is_about(error: &BoxError, what: &str) -> bool {
    causes(&**error)
        .any(|cause| cause.is::<tokio_postgres::Error>() && cause.to_string().contains(what))
}
