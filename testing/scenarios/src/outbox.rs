//! Sends the mails of an outbox, several at a time.

use std::time::Duration;

use anyhow::Context as _;
use shedlock::scheduler::{Job, Schedule};
use shedlock::{Clock as _, LockConfig, SystemClock, current_lock, parse_duration};
use sqlx::Row as _;
use tokio::task::JoinHandle;

use crate::Database;
use crate::post::{Mail, Post};
use crate::service::Service;

/// Sends the mails of the outbox.
#[derive(Debug, clap::Args)]
pub(crate) struct Outbox {
    /// How often the outbox is sent.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    every: Duration,
    /// How long the lock outlives a replica that dies.
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    lock_at_most_for: Duration,
    /// The mail server, as host:port.
    #[arg(long)]
    smtp: String,
    /// How many mails are sent at once.
    #[arg(long, default_value_t = 10)]
    chunk: i64,
    /// Start sending, and do not wait until it has finished.
    #[arg(long)]
    in_background: bool,
}

const NEXT: &str =
    "SELECT id, email FROM outbox WHERE sent_at IS NULL AND id > ? ORDER BY id LIMIT ?";
const MARK: &str = "UPDATE outbox SET sent_at = CURRENT_TIMESTAMP WHERE id = ?";
const CLEAN: &str = "DELETE FROM outbox WHERE sent_at IS NOT NULL";

impl Outbox {
    /// Creates the job for the scheduler.
    pub(crate) fn job(self, service: &Service) -> anyhow::Result<Job> {
        let database = service.database.clone();
        let post = Post::new(&self.smtp, &service.name, database.clone(), MARK)?;
        let lock = LockConfig::new("outbox")
            .lock_at_most_for(self.lock_at_most_for)
            .keep_alive();
        let Self {
            chunk,
            in_background,
            ..
        } = self;
        Ok(Job::new(lock, Schedule::every(self.every)?, move |_run| {
            let (database, post) = (database.clone(), post.clone());
            async move {
                if in_background {
                    send_behind(&database, &post, chunk).await
                } else {
                    send_all(&database, &post, chunk).await
                }
            }
        }))
    }
}

/// Sends the mails of the outbox, `chunk` mails at a time, and deletes those that were sent.
///
/// Mails that cannot be sent now stay for the next run.
async fn send_all(database: &Database, post: &Post, chunk: i64) -> anyhow::Result<()> {
    let mut last = 0;
    loop {
        let mails = next_mails(database, last, chunk).await?;
        let Some(newest) = mails.last() else { break };
        last = newest.id;
        let mut sendings = Vec::new();
        for mail in mails {
            sendings.push(begin(post, mail)?);
        }
        for sending in sendings {
            sending.await?;
        }
        database.change(CLEAN, &[]).await?;
    }
    tracing::info!("nothing is left to send");
    Ok(())
}

/// Starts sending `chunk` mails in the background while the task does something else.
async fn send_behind(database: &Database, post: &Post, chunk: i64) -> anyhow::Result<()> {
    for mail in next_mails(database, 0, chunk).await? {
        begin(post, mail)?;
    }
    let something_else = Duration::from_millis(300);
    SystemClock
        .sleep_until(SystemClock.now() + something_else)
        .await;
    tracing::info!("the mails are on their way");
    Ok(())
}

/// Sends a mail in a separate task, which does not outlive the lock of this one.
fn begin(post: &Post, mail: Mail) -> anyhow::Result<JoinHandle<bool>> {
    let lock = current_lock().context("mails are sent under the lock")?;
    let post = post.clone();
    Ok(lock.spawn(async move { post.deliver(&mail).await })?)
}

async fn next_mails(database: &Database, after: i64, chunk: i64) -> anyhow::Result<Vec<Mail>> {
    let mut mails = Vec::new();
    for row in database.read(NEXT, &[after, chunk]).await? {
        let id: i64 = row.try_get("id")?;
        mails.push(Mail {
            id,
            to: row.try_get("email")?,
            subject: "Reset your password",
            message_id: format!("<reset-{id}@shop.example>"),
        });
    }
    Ok(mails)
}
