//! Sends single statements: what is retried at once, and what a failure means.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shedlock_core::{BoxFuture, Error, ErrorKind, Operation};
use shedlock_provider::{Result, internal};

use crate::call::Call;
use crate::dialect::Step;
use crate::driver::{Connections, Driver, InUse, Wanted};
use crate::failure::{Class, Failure};
use crate::plan::Plan;
use crate::statement::{Reply, Row, Statement, Values};
use crate::verdict::instant;

/// On how many connections of a user's pool a statement finds itself inside a transaction before it gives up. A hook of
/// the pool may begin one in each.
const MOST_INSIDE: usize = 3;

/// The connections that one statement found and could not use.
#[derive(Default)]
pub(crate) struct Unusable {
    inside: usize,
    /// How many more may be found broken, once one was.
    broken: Option<u32>,
}

/// What one statement has been through.
struct Repeats {
    plan: Arc<Plan>,
    wanted: Wanted,
    unusable: Unusable,
    /// The table's shape was read again.
    looked: bool,
    can_make_space: bool,
    /// Once a reply is lost, the outcome is unknown whatever the second try returns.
    lost: Option<Failure>,
}

impl Repeats {
    fn of(step: Step, plan: Arc<Plan>) -> Self {
        Self {
            plan,
            wanted: Wanted::Any,
            unusable: Unusable::default(),
            looked: false,
            can_make_space: !step.takes(),
            lost: None,
        }
    }
}

impl<B: Driver> Call<'_, B> {
    /// The record, read from the server that accepts writes.
    pub(crate) async fn read(&self, values: &Values<'_>) -> Result<Row> {
        let row = self.row(Step::ReadToDecide, values).await?;
        if let Some(server_time) = row.server_time() {
            self.plans.clock.observe(instant(server_time));
        }
        Ok(row)
    }

    pub(crate) async fn row(&self, step: Step, values: &Values<'_>) -> Result<Row> {
        let row = self.run(step, values).await?.rows.pop();
        row.ok_or_else(|| internal("the statement returned no row"))
    }

    /// Sends a statement, and sends it again:
    ///
    /// - over another connection, if one cannot be used;
    /// - at once, after a conflict with another transaction: that one has committed. Eight serializable clients of one
    ///   record, on a busy machine, have made four conflicts in a row;
    /// - once, if its reply was lost, unless it claims a lock;
    /// - once, on a new connection, if the session is no longer usable;
    /// - once, after reading the table's shape again, if the table has changed;
    /// - once, after making space, if the disk is full and the statement creates no record.
    ///
    /// Nothing is repeated beyond the budget. A claim whose reply was lost may still be in transit. Only the runtime may
    /// send another copy of it, because it withdraws what the first one takes.
    pub(crate) async fn run(&self, step: Step, values: &Values<'_>) -> Result<Reply> {
        let mut repeats = Repeats::of(step, self.plan().await?);
        loop {
            let statement = self.statement(step, &repeats.plan)?;
            let (lock, sql) = (values.name, statement.text());
            tracing::debug!(step = step.word(), lock, sql, "statement");
            let answer = self
                .send_once(&self.connections, statement, values, repeats.wanted)
                .await;
            let answer = match step {
                // A listing continues past records that cannot be read.
                Step::List { .. } => answer,
                _ => answer.and_then(Reply::readable),
            };
            let failure = match answer {
                Ok(mut reply) => {
                    reply.repeated = repeats.lost.is_some();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            match &failure.class {
                Class::Held if step.takes() && repeats.lost.is_none() => {
                    return Ok(Reply::default());
                }
                Class::Duplicate if step.takes() && repeats.lost.is_none() => {
                    return Ok(Reply {
                        duplicate: Some(failure),
                        ..Reply::default()
                    });
                }
                _ => self.again(step, failure, &mut repeats).await?,
            }
        }
    }

    /// Prepares for sending a statement again.
    ///
    /// # Errors
    /// The failure, if it must not be sent again. Once a reply was lost, that is the failure, whatever followed.
    async fn again(&self, step: Step, failure: Failure, repeats: &mut Repeats) -> Result<()> {
        let explained = |failure| self.explained(failure, step.writes());
        let is_repeated = match &failure.class {
            _ if !self.deadline.budget.allows_repeat() => false,
            _ if self.takes_another(&failure, &mut repeats.unusable) => true,
            Class::Contention => true,
            Class::ReplyLost if repeats.lost.is_none() && !step.claims() => {
                repeats.lost = Some(failure);
                return Ok(());
            }
            class if class.is_of_session() && failure.was_used && repeats.wanted != Wanted::New => {
                repeats.wanted = Wanted::New;
                true
            }
            class if class.may_be_of_table() && !std::mem::replace(&mut repeats.looked, true) => {
                let now = match self.look().await {
                    Ok(now) => now,
                    Err(error) => return Err(repeats.lost.take().map_or(error, explained)),
                };
                // If the table has not changed, the failure has another cause.
                let has_changed = *class == Class::Shape || now.shape != repeats.plan.shape;
                repeats.plan = now;
                has_changed
            }
            Class::Full if std::mem::take(&mut repeats.can_make_space) => self.make_space().await,
            _ => false,
        };
        if is_repeated {
            return Ok(());
        }
        Err(explained(repeats.lost.take().unwrap_or(failure)))
    }

    /// Makes space for what changes an existing record. Returns false if the database cannot.
    pub(crate) async fn make_space(&self) -> bool {
        let Some(statement) = B::DIALECT.makes_space else {
            return false;
        };
        let (statement, values) = (Statement::plain(statement), Values::default());
        self.send(&statement, &values, Wanted::Any).await.is_ok()
    }

    /// The statement for a step.
    ///
    /// # Errors
    /// `Unsupported` for slots in a table without the columns for them.
    pub(crate) fn statement<'p>(&self, step: Step, plan: &'p Plan) -> Result<&'p Statement> {
        plan.statements.get(step).ok_or_else(|| {
            let what = format!("slots need columns that table {} lacks", self.options.table);
            Error::new(ErrorKind::Unsupported, what).advise(("add them with", Operation::Migrate))
        })
    }

    pub(crate) async fn send(
        &self,
        statement: &Statement,
        values: &Values<'_>,
        wanted: Wanted,
    ) -> Result<Reply, Failure> {
        self.send_over(&self.connections, statement, values, wanted)
            .await
    }

    /// Sends a statement, and over another connection if one cannot be used.
    pub(crate) async fn send_over(
        &self,
        connections: &Connections<B>,
        statement: &Statement,
        values: &Values<'_>,
        wanted: Wanted,
    ) -> Result<Reply, Failure> {
        let mut unusable = Unusable::default();
        loop {
            match self.send_once(connections, statement, values, wanted).await {
                Err(failure) if self.takes_another(&failure, &mut unusable) => {}
                answer => return answer,
            }
        }
    }

    /// A connection on which several statements follow each other, in no transaction of another's.
    pub(crate) async fn acquire_alone(
        &self,
        connections: &Connections<B>,
    ) -> Result<InUse<B>, Failure> {
        let mut unusable = Unusable::default();
        loop {
            match self.acquire_once(connections).await {
                Err(failure) if self.takes_another(&failure, &mut unusable) => {}
                acquired => return acquired,
            }
        }
    }

    async fn acquire_once(&self, connections: &Connections<B>) -> Result<InUse<B>, Failure> {
        let mut held = connections.acquire(Wanted::Any, &self.deadline).await?;
        if connections.are_lent() {
            let nothing = Statement::plain("SELECT 1");
            let (mut session, values) = (held.session(), Values::default());
            let run = session.run_alone(&nothing, &values);
            let answer = self.deadline.answer(pin!(run)).await;
            answer.unwrap_or_else(|| Err(Failure::silent()))?;
        }
        Ok(held)
    }

    /// Whether to try another connection, because this one is broken, or was left in a transaction, which its end rolls
    /// back. The latter is logged once.
    fn takes_another(&self, failure: &Failure, unusable: &mut Unusable) -> bool {
        match failure.class {
            Class::Broken { others } => {
                // Each of them leaves the pool, so the pool eventually opens a new one.
                let most = unusable.broken.get_or_insert(others);
                let is_left = *most > 0;
                *most = most.saturating_sub(1);
                return is_left;
            }
            Class::Inside => {}
            _ => return false,
        }
        if !self.was_inside.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                table = %self.options.table,
                "a connection of your pool cannot be used for locks: {}; it is closed, which rolls back \
                 what is in it; look for a cancelled begin, a BEGIN as plain SQL, or a hook of the pool",
                failure.source
            );
        }
        unusable.inside += 1;
        unusable.inside < MOST_INSIDE
    }

    /// Boxed, because its code would be repeated in everything that sends a statement.
    fn send_once<'a>(
        &'a self,
        connections: &'a Connections<B>,
        statement: &'a Statement,
        values: &'a Values<'_>,
        wanted: Wanted,
    ) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(self.sent_once(connections, statement, values, wanted))
    }

    async fn sent_once(
        &self,
        connections: &Connections<B>,
        statement: &Statement,
        values: &Values<'_>,
        wanted: Wanted,
    ) -> Result<Reply, Failure> {
        let mut held = connections.acquire(wanted, &self.deadline).await?;
        self.deadline.budget.count();
        let was_used = !held.is_new();
        // Also if this call is dropped.
        let unanswered = Unanswered {
            connections,
            owner: values.owner,
            session: held.identity(),
            is_answered: false,
        };
        let answer = {
            let mut session = held.session();
            let run = session.run_alone(statement, values);
            self.deadline.answer(pin!(run)).await
        };
        let result = answer.unwrap_or_else(|| Err(Failure::silent()));
        let is_class = |class| result.as_ref().is_err_and(|failure| failure.class == class);
        if !is_class(Class::ReplyLost) {
            unanswered.answered();
        }
        let has_remedy = is_class(Class::Prepared) && held.lost_a_statement();
        // An error reply is a reply too.
        let is_fit = |failure: &Failure| failure.class.spares_connection();
        if result.as_ref().err().is_none_or(is_fit) {
            held.finished();
        }
        result.map_err(|failure| Failure {
            was_used: was_used || has_remedy,
            ..failure
        })
    }
}

/// A statement that has no reply yet.
struct Unanswered<'a, B: Driver> {
    connections: &'a Connections<B>,
    owner: &'a str,
    session: Option<Arc<str>>,
    is_answered: bool,
}

impl<B: Driver> Unanswered<'_, B> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl<B: Driver> Drop for Unanswered<'_, B> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.connections.lost_a_reply();
        let session = self.session.take().filter(|_| !self.owner.is_empty());
        if let Some((sharing, session)) = self.connections.sharing().zip(session) {
            sharing.left_hanging(self.owner, session);
        }
    }
}
