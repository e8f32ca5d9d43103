//! The signals that `run` handles for its command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::signals::Ignored;

/// Catches signals that are meant for the command. From then on none of them ends this process.
#[derive(Debug)]
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

const CAUGHT: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

impl Signals {
    /// Starts to listen. Signals that the user ignores stay ignored.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = Ignored::by_this_process();
        let streams = CAUGHT
            .into_iter()
            .filter(|signal| !ignored.contains(*signal))
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self(streams))
    }

    /// The next signal. Cancellation safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The name of a signal that requests the end of a program.
pub(super) fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::TERM => "SIGTERM",
        Signal::INT => "SIGINT",
        Signal::HUP => "SIGHUP",
        Signal::QUIT => "SIGQUIT",
        _ => "a signal",
    }
}

/// Whether this signal requests the end of a program.
pub(super) fn asks_to_end(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT
    )
}
