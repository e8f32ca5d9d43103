//! Ctrl-C, typed while the command has the terminal.
//!
//! The terminal sends its signals only to its foreground group, which is the command's. A process of this program in that
//! group reports them to `run`, which otherwise could not see that the user has asked twice.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, setpgid};
use rustix::termios::{LocalModes, tcgetattr};
use shedlock::{Clock, SystemClock};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::watchdog::{ORPHANS_ARE_ADOPTED, own_program};

/// The argument that makes this program such a process. Not for users.
const ARGUMENT: &str = "__keys";

/// Whether this process was started to report keys.
pub(crate) fn is_wanted(first_argument: Option<&std::ffi::OsStr>) -> bool {
    first_argument == Some(std::ffi::OsStr::new(ARGUMENT))
}

/// Ctrl-C on the terminal of the command.
#[derive(Debug, Default)]
pub(super) enum Keys {
    #[default]
    NotReported,
    Reported(Reporter),
    /// The process that reports them could not be started, or is gone.
    Lost,
}

impl Keys {
    /// Completes when Ctrl-C was typed. `group` is the command's group if it has the terminal. Cancellation safe.
    ///
    /// Without the process that reports keys, only a second Ctrl-C has no effect.
    pub(super) async fn ctrl_c(&mut self, group: Option<Pid>) {
        // What happens to the command in its first instants has precedence over a new process.
        const PAUSE: Duration = Duration::from_millis(100);
        loop {
            match (&mut *self, group) {
                (Self::Reported(reporter), _) => match reporter.socket.read_u8().await {
                    Ok(_) => return,
                    Err(_) => *self = Self::Lost,
                },
                // Elsewhere the watchdog would wait for the process, which is in the command's group.
                (Self::NotReported, Some(group)) if ORPHANS_ARE_ADOPTED => {
                    SystemClock.sleep_until(SystemClock.now() + PAUSE).await;
                    *self = Reporter::of_group(group).map_or(Self::Lost, Self::Reported);
                }
                _ => std::future::pending().await,
            }
        }
    }
}

/// The process that reports keys. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Reporter {
    process: Child,
    socket: UnixStream,
}

impl Reporter {
    fn of_group(group: Pid) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let process = Command::new(own_program()?)
            .arg0("lease-keys")
            .arg(ARGUMENT)
            .arg(group.as_raw_pid().to_string())
            .stdin(OwnedFd::from(theirs))
            // A reader of these must see their end when the command ends.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It joins the command's group when it can take Ctrl-C, which would end it before.
            .process_group(0)
            .spawn()?;
        Ok(Self { process, socket })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reports keys until `run` is gone. The standard input is the socket to it.
pub(crate) fn serve() -> ExitCode {
    // There is no one to report an error to: without this process, the second Ctrl-C has no effect.
    match report() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report() -> io::Result<()> {
    let mut socket = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut typed, signalled) = StdStream::pair()?;
    signal_hook::low_level::pipe::register(Signal::INT.as_raw(), signalled)?;
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM] {
        signal_hook::flag::register(signal.as_raw(), unheard.clone())?;
    }
    let terminal = File::open("/dev/tty")?;
    let group = std::env::args().nth(2).and_then(|group| group.parse().ok());
    let group = group.and_then(Pid::from_raw);
    let group = group.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::thread::set_name(c"lease-keys");
    setpgid(None, Some(group))?;
    loop {
        let mut ready = [
            PollFd::new(&typed, PollFlags::IN),
            PollFd::new(&socket, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !ready[1].revents().is_empty() {
            return Ok(());
        }
        // Bytes of signals that arrived together are one key.
        let _ = typed.read(&mut [0; 64])?;
        if reads_lines(&terminal) {
            socket.write_all(&[0])?;
        }
    }
}

/// Whether the terminal collects lines. A program that edits its own lines, such as a shell or `psql` at its prompt, takes
/// Ctrl-C for itself.
fn reads_lines(terminal: &File) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
}
