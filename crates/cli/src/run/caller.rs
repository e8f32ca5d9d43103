//! Who started this process: its parent, and whoever writes to its standard input.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, getppid};
use tokio::sync::oneshot;

/// What has become of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The standard input has ended, and the parent lives.
    InputEnded,
    /// The parent is gone. What it has started may still run.
    ParentGone,
}

/// The caller as it was at the start.
#[derive(Debug)]
pub(super) struct Caller {
    /// The standard input, unless it had ended by then or cannot end: a file, or nothing at all.
    input: Option<OwnedFd>,
    parent: Option<Pid>,
    /// Readable once the parent has ended. `None` where the system has no such files.
    ended: Option<OwnedFd>,
}

/// How soon after its end the parent is found gone where the system does not report it.
const LOOK: Duration = Duration::from_secs(1);

/// A parent that is killed closes the input first, and is gone a moment later.
const MOMENT: Duration = Duration::from_millis(200);

/// The end of an input, on any kind of file. Nothing is read: the data may belong to the caller's other children.
const HUNG_UP: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);

impl Caller {
    pub(super) fn new() -> io::Result<Self> {
        let parent = getppid();
        let ended = parent.and_then(ended_file);
        // The parent may have ended before its file was opened: then it is not the caller.
        let is_the_same = getppid() == parent;
        Ok(Self {
            input: input()?,
            parent,
            ended: ended.filter(|_| is_the_same),
        })
    }

    /// Waits for a change, on a thread of its own. Without one, this never ends.
    pub(super) async fn changed(self) -> Change {
        let (tell, told) = oneshot::channel();
        let watching = std::thread::Builder::new()
            .name("caller".to_owned())
            .spawn(move || tell.send(self.wait()));
        if watching.is_ok()
            && let Ok(Some(change)) = told.await
        {
            return change;
        }
        std::future::pending().await
    }

    /// `None` if no change can be seen.
    fn wait(&self) -> Option<Change> {
        loop {
            let mut watched = Vec::new();
            if let Some(input) = &self.input {
                watched.push(PollFd::new(input, PollFlags::RDHUP));
            }
            let inputs = watched.len();
            if let Some(ended) = &self.ended {
                watched.push(PollFd::new(ended, PollFlags::IN));
            }
            let has_parent = self.parent.is_some();
            if watched.is_empty() && !has_parent {
                return None;
            }
            let limit = (has_parent && self.ended.is_none()).then_some(LOOK);
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            match poll(&mut watched, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
            let is_input_over = watched[..inputs]
                .iter()
                .any(|it| it.revents().intersects(HUNG_UP | PollFlags::RDHUP));
            if self.is_parent_gone(Duration::ZERO) {
                return Some(Change::ParentGone);
            }
            if is_input_over {
                return Some(match self.is_parent_gone(MOMENT) {
                    true => Change::ParentGone,
                    false => Change::InputEnded,
                });
            }
        }
    }

    /// Whether the parent ends within this time.
    fn is_parent_gone(&self, within: Duration) -> bool {
        if let (Some(ended), Ok(limit)) = (&self.ended, Timespec::try_from(within)) {
            let mut watched = [PollFd::new(ended, PollFlags::IN)];
            return poll(&mut watched, Some(&limit)).is_ok_and(|ready| ready > 0);
        }
        if !within.is_zero()
            && let Ok(limit) = Timespec::try_from(within)
        {
            let _ = poll(&mut [], Some(&limit));
        }
        getppid() != self.parent
    }
}

/// The standard input if it is a pipe, a socket or a terminal, and has not ended.
fn input() -> io::Result<Option<OwnedFd>> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let file = File::from(input);
    let kind = file.metadata()?.file_type();
    if !(kind.is_fifo() || kind.is_socket() || rustix::termios::isatty(&file)) {
        return Ok(None);
    }
    let mut now = [PollFd::new(&file, PollFlags::RDHUP)];
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut now, Some(&none))?;
    let has_ended = now[0].revents().intersects(HUNG_UP | PollFlags::RDHUP);
    Ok((!has_ended).then(|| file.into()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn ended_file(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ended_file(_: Pid) -> Option<OwnedFd> {
    None
}
