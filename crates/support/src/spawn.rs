//! Tasks in the background.

use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Spawns a task in a box, so that a program has tokio's code for tasks once, and not for each future of ours.
pub fn spawn<F: Future<Output = ()> + Send + 'static>(runtime: &Handle, task: F) -> JoinHandle<()> {
    boxed(runtime, Box::pin(task))
}

fn boxed(runtime: &Handle, task: Pin<Box<dyn Future<Output = ()> + Send>>) -> JoinHandle<()> {
    runtime.spawn(task)
}
