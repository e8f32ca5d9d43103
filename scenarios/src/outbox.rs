//! Sends the mails of an outbox, some at a time.

use std::time::Duration;

use shedlock::{Clock as _, SystemClock, current_lock};
use sqlx::Row as _;

use crate::Database;
use crate::post::{Mail, Post};

/// Marks a mail as sent.
pub(crate) const MARK: &str = "UPDATE outbox SET sent_at = CURRENT_TIMESTAMP WHERE id = ?";

const NEXT: &str =
    "SELECT id, email FROM outbox WHERE sent_at IS NULL AND id > ? ORDER BY id LIMIT ?";
const CLEAN: &str = "DELETE FROM outbox WHERE sent_at IS NOT NULL";

/// Sends what is in the outbox, `chunk` mails at a time, and deletes what was sent.
///
/// What cannot be sent now stays for the next run.
pub(crate) async fn send_all(database: &Database, post: &Post, chunk: i64) -> anyhow::Result<()> {
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

/// Starts sending `chunk` mails, and leaves them to themselves while it does something else.
pub(crate) async fn send_behind(
    database: &Database,
    post: &Post,
    chunk: i64,
) -> anyhow::Result<()> {
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

/// Sends a mail in a task of its own, which does not outlive the lock of this one.
fn begin(post: &Post, mail: Mail) -> anyhow::Result<tokio::task::JoinHandle<bool>> {
    let lock = current_lock().ok_or_else(|| anyhow::anyhow!("mails are sent under the lock"))?;
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
