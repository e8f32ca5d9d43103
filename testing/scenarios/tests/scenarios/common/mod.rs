//! Shared parts of the scenarios.

mod history;
mod mail_server;
mod mails;
mod midnight;
mod replica;
mod scene;
mod store;

pub(crate) use history::{History, Line};
pub(crate) use mail_server::MailServer;
pub(crate) use mails::Mails;
pub(crate) use midnight::{Midnight, Shown, until_shown};
pub(crate) use replica::Replica;
pub(crate) use scene::Scene;
pub(crate) use store::Store;

/// Prints a line to the output of the tests.
#[expect(clippy::print_stderr, reason = "the output of a test program")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
