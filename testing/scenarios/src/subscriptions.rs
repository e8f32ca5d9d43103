//! Reminds the users whose subscriptions expire.

use std::time::Duration;

use shedlock::scheduler::{Job, JobRun, Schedule};
use shedlock::{Completion, LockConfig, parse_duration};
use sqlx::Row as _;

use crate::Database;
use crate::post::{Mail, Post};
use crate::service::Service;

/// Reminds the users whose subscriptions expire.
#[derive(Debug, clap::Args)]
pub(crate) struct Subscriptions {
    /// When to remind, as a cron expression.
    #[arg(long, default_value = "0 0 * * * *")]
    cron: String,
    /// How long the lock outlives a replica that dies.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    lock_at_most_for: Duration,
    /// The mail server, as host:port.
    #[arg(long)]
    smtp: String,
}

const EXPIRING: &str = "SELECT id, email FROM users WHERE reminded_at IS NULL \
     AND expires_at < CURRENT_TIMESTAMP + INTERVAL '1' DAY ORDER BY id";
const MARK: &str = "UPDATE users SET reminded_at = CURRENT_TIMESTAMP WHERE id = ?";

impl Subscriptions {
    /// Creates the job for the scheduler.
    pub(crate) fn job(self, service: &Service) -> anyhow::Result<Job> {
        let database = service.database.clone();
        let post = Post::new(&self.smtp, &service.name, database.clone(), MARK)?;
        // An hour whose run died or failed is not done: another replica takes it over.
        let lock = LockConfig::new("subscriptions")
            .lock_at_most_for(self.lock_at_most_for)
            .keep_alive()
            .completion(Completion::on_success());
        Ok(Job::new(lock, Schedule::cron(&self.cron)?, move |run| {
            let (database, post) = (database.clone(), post.clone());
            async move { remind(&database, &post, &run).await }
        }))
    }
}

/// Reminds all users whose subscriptions expire and who have not been reminded, one after the
/// other.
async fn remind(database: &Database, post: &Post, run: &JobRun) -> anyhow::Result<()> {
    let users = database.read(EXPIRING, &[]).await?;
    tracing::info!(
        users = users.len(),
        attempt = run.slot_attempt(),
        "reminding"
    );
    let mut failed = 0;
    for user in users {
        let id: i64 = user.try_get("id")?;
        let mail = Mail {
            id,
            to: user.try_get("email")?,
            subject: "Your subscription expires",
            message_id: format!("<expires-{id}@shop.example>"),
        };
        if !post.deliver(&mail).await {
            failed += 1;
        }
    }
    anyhow::ensure!(failed == 0, "{failed} users could not be reminded");
    tracing::info!("all are reminded");
    Ok(())
}
