//! Reminds the users whose subscriptions expire.

use sqlx::Row as _;

use crate::Database;
use crate::post::{Mail, Post};

/// Marks a user as reminded.
pub(crate) const MARK: &str = "UPDATE users SET reminded_at = CURRENT_TIMESTAMP WHERE id = ?";

const EXPIRING: &str = "SELECT id, email FROM users WHERE reminded_at IS NULL \
     AND expires_at < CURRENT_TIMESTAMP + INTERVAL '1' DAY ORDER BY id";

/// Reminds all whose subscriptions expire and who have not been reminded, one after the other.
pub(crate) async fn remind(database: &Database, post: &Post) -> anyhow::Result<()> {
    let users = database.read(EXPIRING, &[]).await?;
    tracing::info!(users = users.len(), "reminding");
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
