//! Shared parts of the scenarios.

mod history;
mod mail_server;
mod mails;
mod midnight;
mod replica;
mod scene;
mod store;

use std::time::Duration;

pub(crate) use history::{History, Line};
pub(crate) use mail_server::MailServer;
pub(crate) use mails::Mails;
pub(crate) use midnight::{Midnight, Shown, until_shown};
pub(crate) use replica::Replica;
pub(crate) use scene::Scene;
pub(crate) use store::Store;

/// How long a scenario waits for an event that must happen: far longer than any loaded machine
/// needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits in real time.
#[expect(
    clippy::disallowed_methods,
    reason = "real processes on real servers, whose clocks no test can move"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Prints a line to the output of the tests.
#[expect(clippy::print_stderr, reason = "the output of a test program")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
