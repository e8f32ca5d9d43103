//! SIGTERM and ctrl-c, sent to this process itself. Therefore this test is alone in its file.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rustix::process::{Signal, getpid, kill_process};
use shedlock_scheduler::shutdown_signal;

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
    });
}
