//! How long a target runs, and how long one input may take.

use std::env;
use std::io::Write as _;
use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A target that takes this long for one input counts as looping. This is thousands of times longer
/// than any input takes on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

pub(crate) struct Patience {
    end: Option<Instant>,
    /// The number of the input, and the input.
    current: Arc<Mutex<(u64, Vec<u8>)>>,
    /// Dropped with this value, which ends the watching thread.
    _ends: Sender<()>,
}

impl Patience {
    pub(crate) fn new(name: &str) -> Self {
        let seconds = env::var("SHEDLOCK_FUZZ_SECONDS").ok();
        let seconds = seconds.map(|text| {
            text.parse()
                .expect("SHEDLOCK_FUZZ_SECONDS is a whole number of seconds")
        });
        let current = Arc::new(Mutex::new((0, Vec::new())));
        let (ends, ended) = channel();
        let (seen, name) = (current.clone(), name.to_owned());
        thread::spawn(move || {
            let number = || seen.lock().unwrap_or_else(PoisonError::into_inner).0;
            let mut before = number();
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LONGEST) {
                if number() == before {
                    give_up(
                        &name,
                        &seen.lock().unwrap_or_else(PoisonError::into_inner).1,
                    );
                }
                before = number();
            }
        });
        Self {
            end: seconds.map(|seconds| now() + Duration::from_secs(seconds)),
            current,
            _ends: ends,
        }
    }

    /// Records the current input.
    pub(crate) fn begins(&self, bytes: &[u8]) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.0 += 1;
        current.1.clear();
        current.1.extend_from_slice(bytes);
    }

    /// Whether to try another input after this many.
    pub(crate) fn goes_on(&self, runs: u64, unless_told: u64) -> bool {
        match self.end {
            Some(end) => now() < end,
            None => runs < unless_told,
        }
    }
}

/// A looping thread can only be stopped by ending the process.
fn give_up(name: &str, bytes: &[u8]) {
    // Written directly to stderr, because the test harness captures what tests print.
    let _ = writeln!(
        std::io::stderr(),
        "fuzz {name}: still running after {} s with {}",
        LONGEST.as_secs(),
        bytes.escape_ascii()
    );
    process::abort();
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds a run; nothing that is tested sees it"
)]
fn now() -> Instant {
    Instant::now()
}
