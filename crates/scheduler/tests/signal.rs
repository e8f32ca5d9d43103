//! SIGTERM and ctrl-c, sent to this process itself. Therefore this test is alone in its file, and starts itself again for
//! the end of the process.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

use rustix::process::{Signal, getpid, kill_process};
use shedlock_scheduler::shutdown_signal;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;

/// Set for the process that is to end.
const IMPATIENT: &str = "SHEDLOCK_TEST_IMPATIENT";

/// Lets the runtime pass on the signals that have arrived.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// Whether a call that begins now completes without another signal.
async fn completes() -> bool {
    let call = tokio::spawn(shutdown_signal());
    settle().await;
    let completes = call.is_finished();
    call.abort();
    let _ = call.await;
    completes
}

#[test]
fn both_signals_are_received_and_end_nothing_by_themselves() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async {
        for signal in [Signal::TERM, Signal::INT] {
            let waiting = tokio::spawn(shutdown_signal());
            // It listens from its first poll.
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            kill_process(getpid(), signal).unwrap();
            waiting.await.unwrap().unwrap();
        }
        // One that arrives between two calls completes the next, and no other.
        assert!(!completes().await);
        for is_passed_on in [true, false] {
            raise(SIGTERM).unwrap();
            if is_passed_on {
                settle().await;
            }
            assert!(completes().await);
            assert!(!completes().await);
        }
        if std::env::var_os(IMPATIENT).is_some() {
            // No longer ends the process, as any number of supervisors may ask for a shutdown.
            kill_process(getpid(), Signal::TERM).unwrap();
            // The thread of the runtime is blocked: nothing here yields again.
            kill_process(getpid(), Signal::INT).unwrap();
            loop {
                std::thread::park();
            }
        }
    });
}

#[test]
fn a_second_ctrl_c_ends_the_process() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([
        "--exact",
        "both_signals_are_received_and_end_nothing_by_themselves",
    ]);
    let ended = again
        .arg("--nocapture")
        .env(IMPATIENT, "1")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
}
