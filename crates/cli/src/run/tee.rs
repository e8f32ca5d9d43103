//! The end of the command's output is kept, and all of it is passed through.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use shedlock::{Clock, SystemClock};
use shedlock_support::redact;
use tokio::sync::oneshot;

/// How much of the output is kept, in bytes.
const LONGEST: usize = 10_000;

/// Two pipes for the command's output, and the threads that pass it through.
pub(super) struct Tee {
    stdout: PipeWriter,
    stderr: PipeWriter,
    passing: Passing,
}

/// The threads, once this process has closed its ends of the pipes.
pub(super) struct Passing {
    tail: Arc<Tail>,
    ended: [oneshot::Receiver<()>; 2],
}

#[derive(Default)]
struct Tail {
    bytes: Mutex<VecDeque<u8>>,
    /// How many threads have output that our reader has not taken yet.
    writing: AtomicUsize,
}

impl Tee {
    pub(super) fn start() -> io::Result<Self> {
        let tail = Arc::new(Tail::default());
        let (of_stdout, stdout) = io::pipe()?;
        let (of_stderr, stderr) = io::pipe()?;
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        let err = io::stderr().as_fd().try_clone_to_owned()?;
        let ended = [pass(of_stdout, out, &tail)?, pass(of_stderr, err, &tail)?];
        Ok(Self {
            stdout,
            stderr,
            passing: Passing { tail, ended },
        })
    }

    /// The ends for the command: its stdout and stderr.
    pub(super) fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.stdout.as_fd(), self.stderr.as_fd()]
    }

    /// Closes our copies of them. The threads end when the command has closed its own.
    pub(super) fn close(self) -> Passing {
        self.passing
    }
}

impl Passing {
    /// Waits until all output has been passed through, and returns its end.
    ///
    /// A process that could not be stopped may keep a pipe open. It is not waited for.
    pub(super) async fn end(self) -> String {
        const PATIENCE: Duration = Duration::from_secs(1);
        let Self { tail, ended } = self;
        let [out, err] = ended;
        let mut both = std::pin::pin!(async { tokio::join!(out, err) });
        loop {
            tokio::select! {
                _ = &mut both => break,
                () = SystemClock.sleep_until(SystemClock.now() + PATIENCE) => {
                    if tail.writing.load(Ordering::Relaxed) == 0 {
                        break;
                    }
                }
            }
        }
        let mut bytes = tail.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(bytes.make_contiguous()).into_owned();
        redact(&text).into_owned()
    }
}

impl Tail {
    fn push(&self, new: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(new);
        let surplus = bytes.len().saturating_sub(LONGEST);
        bytes.drain(..surplus);
    }
}

fn pass(from: PipeReader, to: OwnedFd, tail: &Arc<Tail>) -> io::Result<oneshot::Receiver<()>> {
    let (end, ended) = oneshot::channel::<()>();
    let tail = tail.clone();
    let passing = move || {
        pass_all(from, File::from(to), &tail);
        drop(end);
    };
    thread::Builder::new()
        .name("output".to_owned())
        .spawn(passing)?;
    Ok(ended)
}

/// If our reader is gone, the pipe is closed, so that the command notices as it would without it.
fn pass_all(mut from: PipeReader, mut to: File, tail: &Tail) {
    let mut bytes = [0; 8_192];
    loop {
        let length = match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        tail.push(&bytes[..length]);
        tail.writing.fetch_add(1, Ordering::Relaxed);
        let written = write_all(&mut to, &bytes[..length]);
        tail.writing.fetch_sub(1, Ordering::Relaxed);
        if written.is_err() {
            return;
        }
    }
}

/// Writes all of it, also to a file that does not block.
fn write_all(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // An interrupted poll is repeated by the next write.
                let _ = poll(&mut [PollFd::new(&*to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
