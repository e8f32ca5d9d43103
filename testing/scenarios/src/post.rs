//! Sends mails at least once, and marks them when they were sent.

use std::time::Duration;

use anyhow::Context as _;
use lettre::message::Mailbox;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use shedlock::{Clock as _, SystemClock};

use crate::Database;

/// How long the mail server may take for one mail.
///
/// Without a limit, a server that stalls would hold up the job forever, and keep-alive would hold
/// its lock: the client's own timeout covers only connecting.
const PATIENCE: Duration = Duration::from_secs(5);

/// The mail account of one replica, and the table that its mails come from.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    server: AsyncSmtpTransport<Tokio1Executor>,
    database: Database,
    mark: &'static str,
}

/// A mail to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    /// The id of its row.
    pub(crate) id: i64,
    /// The recipient.
    pub(crate) to: String,
    /// The subject.
    pub(crate) subject: &'static str,
    /// Unchanged each time that this mail is sent, so that a mail program can recognize duplicates.
    pub(crate) message_id: String,
}

impl Post {
    /// Sends through this mail server; `mark` is the statement that marks a mail's row as done.
    pub(crate) fn new(
        smtp: &str,
        sender: &str,
        database: Database,
        mark: &'static str,
    ) -> anyhow::Result<Self> {
        let (host, port) = smtp
            .split_once(':')
            .context("the mail server has no port")?;
        let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(
                port.parse()
                    .context("the mail server's port is not a number")?,
            )
            .hello_name(ClientId::Domain(sender.to_owned()))
            .build();
        Ok(Self {
            server,
            database,
            mark,
        })
    }

    /// Sends a mail, then marks it. Returns true if both succeeded.
    ///
    /// If this is killed or dropped in between, the mail may have been sent without being marked.
    /// It is then sent again under the same Message-ID.
    pub(crate) async fn deliver(&self, mail: &Mail) -> bool {
        let sending = Sending::begin(mail.id);
        let done = match self.send(mail).await {
            Ok(()) => self
                .database
                .change(self.mark, &[mail.id])
                .await
                .context("sent, but not marked"),
            Err(error) => Err(error),
        };
        sending.end(&done);
        done.is_ok()
    }

    async fn send(&self, mail: &Mail) -> anyhow::Result<()> {
        let message = Message::builder()
            .message_id(Some(mail.message_id.clone()))
            .from(Mailbox::new(None, "service@shop.example".parse()?))
            .to(Mailbox::new(None, mail.to.parse()?))
            .subject(mail.subject)
            .body("See https://shop.example/account\n".to_owned())?;
        let clock = SystemClock;
        tokio::select! {
            sent = self.server.send(message) => sent.map(drop).context("the mail server refuses"),
            () = clock.sleep_until(clock.now() + PATIENCE) => {
                anyhow::bail!("the mail server does not answer")
            }
        }
    }
}

/// Logs the outcome of a mail, even if its sending was stopped.
struct Sending {
    id: i64,
    ended: bool,
}

impl Sending {
    fn begin(id: i64) -> Self {
        tracing::info!(id, "sending");
        Self { id, ended: false }
    }

    fn end(mut self, done: &anyhow::Result<u64>) {
        self.ended = true;
        match done {
            Ok(_) => tracing::info!(id = self.id, "marked as sent"),
            Err(error) => tracing::warn!(id = self.id, "not sent: {error:#}"),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.ended {
            tracing::warn!(id = self.id, "sending was stopped");
        }
    }
}
