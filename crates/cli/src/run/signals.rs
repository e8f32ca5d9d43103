//! The signals that `run` handles for its command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use shedlock::Moment;

use crate::signals::{Ignored, asks_to_end, handles_ends};

/// Catches signals that are meant for the command. From then on none of them ends this process.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    /// Whether one has arrived that asks this process to end, while no command was running.
    pub(super) are_to_end: bool,
}

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
        Self::listen_to(&CAUGHT)
    }

    /// The same for those that ask this process to end.
    pub(crate) fn listen_to_ends() -> io::Result<Self> {
        Self::listen_to(
            &CAUGHT
                .into_iter()
                .filter(|it| asks_to_end(*it))
                .collect::<Vec<_>>(),
        )
    }

    fn listen_to(signals: &[Signal]) -> io::Result<Self> {
        let ignored = Ignored::by_this_process();
        let streams = signals
            .iter()
            .copied()
            .filter(|signal| !ignored.contains(*signal))
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        handles_ends();
        Ok(Self {
            streams,
            are_to_end: false,
        })
    }

    /// The next signal. Cancellation safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
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

/// What has asked this program, and so the command, to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The first signal.
    pub(super) first: Signal,
    /// The last signal.
    pub(super) last: Signal,
    /// When the last signal arrived that a second one makes a kill, if one did.
    at: Option<Moment>,
}

impl Asked {
    /// Signals in quick succession are one request: `timeout` sends each signal twice, and a wrapper that passes Ctrl-C
    /// on is not the only one that gets it.
    const AT_ONCE: Duration = Duration::from_millis(200);

    /// Records a signal that asks for the end. Returns whether it is the second request, at which the command is killed.
    ///
    /// That takes SIGINT or SIGTERM twice. A terminal that hangs up may send SIGHUP besides.
    pub(super) fn note(asked: &mut Option<Self>, signal: Signal, now: Moment) -> bool {
        let counts = matches!(signal, Signal::TERM | Signal::INT);
        let asked = asked.get_or_insert(Self {
            first: signal,
            last: signal,
            at: None,
        });
        if !counts {
            return false;
        }
        match asked.at {
            Some(at) if now.saturating_since(at) < Self::AT_ONCE => false,
            Some(_) => {
                asked.last = signal;
                true
            }
            None => {
                asked.at = Some(now);
                false
            }
        }
    }

    /// The same for Ctrl-C on a terminal that the command has. It got the key itself and may go on, like a prompt that
    /// clears its line: only a second one within the stop grace is a second request.
    pub(super) fn note_typed(asked: &mut Option<Self>, grace: Duration, now: Moment) -> bool {
        if let Some(Self { at, .. }) = asked
            && at.is_some_and(|at| now.saturating_since(at) > grace)
        {
            *at = None;
        }
        Self::note(asked, Signal::INT, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_second_request_is_not_one_that_arrives_with_the_first() {
        let mut asked = None;
        assert!(!Asked::note(&mut asked, Signal::TERM, at(0)));
        assert!(!Asked::note(&mut asked, Signal::TERM, at(10)));
        assert!(Asked::note(&mut asked, Signal::INT, at(400)));
        let asked = asked.unwrap();
        assert_eq!((asked.first, asked.last), (Signal::TERM, Signal::INT));
    }

    #[test]
    fn a_hangup_neither_kills_nor_makes_the_next_signal_kill() {
        let mut asked = None;
        for (signal, millis) in [
            (Signal::HUP, 0),
            (Signal::HUP, 500),
            (Signal::TERM, 1_000),
            (Signal::HUP, 1_500),
            (Signal::QUIT, 2_000),
        ] {
            assert!(!Asked::note(&mut asked, signal, at(millis)), "{millis}");
        }
        assert_eq!(asked.unwrap().first, Signal::HUP);
        assert!(Asked::note(&mut asked, Signal::INT, at(2_500)));
    }

    #[test]
    fn ctrl_c_now_and_then_does_not_kill_a_program_that_goes_on() {
        const GRACE: Duration = Duration::from_secs(10);
        let mut asked = None;
        for seconds in [0, 11, 22] {
            let now = at(seconds * 1_000);
            assert!(!Asked::note_typed(&mut asked, GRACE, now), "{seconds}");
        }
        assert!(Asked::note_typed(&mut asked, GRACE, at(23_000)));
    }
}
