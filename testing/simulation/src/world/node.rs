//! A node: a process, and the machine that it runs on.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use super::NodeClock;

/// A sequence of processes on one machine. Their tasks run on one thread, in the order in which
/// they were woken, and only when it is the node's turn. So a stopped process stands still as a
/// whole.
pub(crate) struct Node {
    pub(crate) clock: NodeClock,
    /// `None` while nothing runs.
    runtime: Option<Runtime>,
    pub(crate) is_stopped: bool,
    /// Whether it is shutting down, to be started again afterwards.
    pub(crate) is_retiring: bool,
}

impl Node {
    pub(crate) fn new(clock: NodeClock) -> Self {
        Self {
            clock,
            runtime: None,
            is_stopped: false,
            is_retiring: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.runtime.is_some()
    }

    /// Starts a process with this main function.
    pub(crate) fn start(&mut self, main: impl Future<Output = ()> + Send + 'static) {
        let runtime = Builder::new_current_thread()
            // Everything that is ready runs before the world continues.
            .event_interval(u32::MAX)
            .build()
            .expect("a runtime without drivers needs nothing of the system");
        runtime.spawn(main);
        self.runtime = Some(runtime);
        self.is_retiring = false;
        self.turn();
    }

    /// Spawns a future in the process from outside.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(future);
        }
    }

    /// Runs everything that is ready.
    pub(crate) fn turn(&self) {
        if self.is_stopped {
            return;
        }
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                // Tasks that yield run in the next round.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            });
        }
    }

    /// As kill -9: from now on it runs nothing and sends nothing.
    pub(crate) fn kill(&mut self) {
        self.clock.kill();
        self.is_stopped = false;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
