//! The messages between `run` and its watchdog, and their transport.
//!
//! One stream socket: first three single bytes that carry the command's stdin, stdout and stderr, then
//! frames of a length (four bytes, little endian) and JSON. Both ends are the same program, so the
//! messages may change with every release.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::heirloom::{Heirloom, SlotFate};
use super::plan::{SentPlan, StopReason};
use super::processes::Process;

/// The messages from `run` to its watchdog.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start the command. The first order, sent once.
    Start(Box<Start>),
    /// Send this signal to the command's process group. If it asks the command to end, the stop grace of the plan
    /// begins.
    Signal(i32),
    /// Kill the command, which was asked to end a second time.
    Kill,
    /// The lease was extended in the store: these are the deadlines now.
    Extend(SentPlan),
    /// Stop the command for this reason.
    Stop(StopReason),
    /// The job has ended, and its lock could not be released in time: release it in the background, with its slot like
    /// this. The last order.
    Release(SlotFate),
    /// The job has ended, and its lock was released, or is left to its lease. The last order. A `run` that ends without it
    /// was killed.
    Leave,
}

/// What to start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The program's file.
    pub(crate) program: OsString,
    /// The program's name as the user wrote it: its first argument.
    pub(crate) name: OsString,
    /// The other arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables that are set for the command, or removed.
    pub(crate) environment: Vec<(String, Option<String>)>,
    /// Whether processes that the command leaves running are left, not stopped.
    pub(crate) leave_children: bool,
    /// The deadlines.
    pub(crate) plan: SentPlan,
    /// The lock that the command runs under.
    pub(crate) lock: Heirloom,
}

/// The messages from the watchdog to `run`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs. Its process is the leader of its group.
    Started { pid: i32 },
    /// The command could not be started.
    NotStarted(NotStarted),
    /// The command was stopped by this signal, for example by Ctrl-Z.
    Stopped { signal: i32 },
    /// The command has ended, and so has every process that it started.
    Ended(Ended),
}

/// Why a command did not start.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NotStarted {
    /// The system refused, with this error number.
    Refused(i32),
    /// The watchdog failed before it started the command, with this error number if there is one.
    Unguarded(Option<i32>),
    /// No time was left before the deadline.
    TooLate,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The exit status of the command's own process, if it is known.
    pub(crate) status: Option<Status>,
    /// Why the job was stopped, if it was.
    pub(crate) stopped: Option<StopReason>,
    /// Which of its processes are left.
    pub(crate) survivors: Survivors,
}

/// The processes of a job that are left when nothing more can be done about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Survivors {
    /// The kernel has reported that none is left.
    None,
    /// These could not be stopped.
    Known(Vec<i32>),
    /// Some are left, or may be, and `/proc` does not show which.
    Unknown,
}

impl Survivors {
    /// The processes in a list that may be incomplete, of a job that has not ended.
    pub(crate) fn listed(processes: io::Result<Vec<Process>>) -> Self {
        let pids = processes.unwrap_or_default();
        let pids: Vec<i32> = pids.iter().map(|it| it.pid.as_raw_pid()).collect();
        match pids.is_empty() {
            true => Self::Unknown,
            false => Self::Known(pids),
        }
    }

    /// Whether a process is left, or may be.
    pub(crate) fn are_left(&self) -> bool {
        *self != Self::None
    }
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no process of the command is left"),
            Self::Known(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                let pids = pids.join(", ");
                write!(f, "these processes of the command could not be stopped: {pids}")
            }
            Self::Unknown => f.write_str(
                "processes of the command may be left that cannot be found, because /proc does not show \
                 them (mount the /proc of this PID namespace, without hidepid)",
            ),
        }
    }
}

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    /// It exited with this code.
    Exited(u8),
    /// A signal ended it.
    Signalled(i32),
}

/// The largest message: room for the longest command line that systems allow, as JSON.
const LONGEST_FRAME: usize = 64 << 20;

/// One message, ready to send.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the command line is too long"))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Received bytes that are not yet decoded into messages.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    /// Adds bytes in the order of their arrival.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST_FRAME {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the message is too long to be valid",
            ));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body)?;
        self.0.drain(..4 + length);
        Ok(Some(message))
    }
}

/// Sends the file together with one byte.
pub(crate) fn send_file(socket: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let byte = [IoSlice::new(&[0])];
    sendmsg(socket, &byte, &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives the file that [`send_file`] sent. `None` if the other end is gone.
pub(crate) fn receive_file(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        CLOSE_ON_EXEC,
    )?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let file = file.ok_or_else(|| io::Error::other("first byte received without a file"))?;
    rustix::io::fcntl_setfd(file.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
    Ok(Some(file))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::ffi::OsStringExt;
    use std::time::Duration;

    use super::*;
    use crate::clock;
    use crate::watchdog::Plan;

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let arguments = vec![OsString::from_vec(vec![b'\xff', b'\n'])];
        let start = Order::Start(Box::new(Start {
            program: "/bin/echo".into(),
            name: "echo".into(),
            arguments: arguments.clone(),
            environment: vec![("SHEDLOCK_SLOT".into(), None)],
            leave_children: true,
            plan: Plan::new(
                clock::now().deadline(Duration::from_secs(9)),
                Duration::from_secs(3),
            )
            .to_send(clock::now()),
            lock: Heirloom::for_test(),
        }));
        let mut bytes = frame(&start).unwrap();
        bytes.extend(frame(&Order::Signal(15)).unwrap());

        let mut inbox = Inbox::default();
        let mut orders = Vec::new();
        for byte in bytes {
            inbox.extend(&[byte]);
            orders.extend(inbox.next::<Order>().unwrap());
        }
        assert_eq!(orders.len(), 2);
        assert!(matches!(&orders[0], Order::Start(start) if start.arguments == arguments));
        assert!(matches!(orders[1], Order::Signal(15)));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut inbox = Inbox::default();
        inbox.extend(&[255; 8]);
        assert!(inbox.next::<Order>().is_err());
    }

    #[test]
    fn a_file_travels_along() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = UnixStream::pair().unwrap();
        send_file(&ours, writer.as_fd()).unwrap();
        drop(writer);
        let file = receive_file(&theirs).unwrap().unwrap();
        UnixStream::from(file).write_all(b"hello").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        drop(ours);
        assert!(receive_file(&theirs).unwrap().is_none());
    }
}
