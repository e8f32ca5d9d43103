//! A queue that a background task empties.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::spawn;

/// A queue, and whether a task empties it. Clones share all state.
///
/// There is a task only while there is something to do. If its runtime stops it, what it had
/// [taken](Self::take) is kept, and the next [`wake`](Self::wake) starts another task that takes it again.
#[derive(Debug)]
pub struct Queue<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    state: Mutex<State<T>>,
    /// Everything is done, or the task has ended.
    idle: Notify,
}

/// What a queue has.
#[derive(Debug)]
pub struct State<T> {
    /// What was not taken yet.
    pub waiting: VecDeque<T>,
    /// What was taken and is not done.
    pub taken: Vec<T>,
    is_running: bool,
}

impl<T: Clone + Send + 'static> Queue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                taken: Vec::new(),
                is_running: false,
            }),
            idle: Notify::new(),
        }))
    }

    /// Locks the queue, to look at it or to change it. Then [`wake`](Self::wake) it.
    pub fn state(&self) -> MutexGuard<'_, State<T>> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many items are not done.
    pub fn left(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.taken.len()
    }

    /// Starts a task of the tokio runtime unless one runs or nothing is to do. Without a runtime the items wait for the
    /// next call inside one. The task ends when [`take`](Self::take) returns `None`.
    pub fn wake<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce() -> F) {
        let mut state = self.state();
        if state.is_running || state.waiting.is_empty() && state.taken.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        state.is_running = true;
        drop(state);
        let running = Running {
            queue: Self(self.0.clone()),
            has_ended: false,
        };
        spawn(&runtime, running.run(task()));
    }

    /// Takes at most so many items, or those again that were taken and are not [done](Self::done). Returns `None` if
    /// there is nothing to do: the task ends.
    pub fn take(&self, most: usize) -> Option<Vec<T>> {
        let mut state = self.state();
        if state.taken.is_empty() {
            let count = state.waiting.len().min(most);
            state.taken = state.waiting.drain(..count).collect();
        }
        if state.taken.is_empty() {
            state.is_running = false;
            return None;
        }
        Some(state.taken.clone())
    }

    /// Forgets what was taken. Returns whether others wait.
    pub fn done(&self) -> bool {
        let mut state = self.state();
        state.taken.clear();
        !state.waiting.is_empty()
    }

    /// Puts back what was taken, except the first item.
    pub fn put_back(&self) {
        let mut state = self.state();
        let State { waiting, taken, .. } = &mut *state;
        for item in taken.drain(1.min(taken.len())..).rev() {
            waiting.push_front(item);
        }
    }

    /// Removes everything.
    pub fn clear(&self) -> impl Iterator<Item = T> + use<T> {
        let mut state = self.state();
        let taken = std::mem::take(&mut state.taken).into_iter();
        taken.chain(std::mem::take(&mut state.waiting))
    }

    /// Waits until everything is done, and wakes the queue with this function if its task was stopped. Cancellation safe.
    pub async fn emptied(&self, wake: impl Fn()) {
        loop {
            let mut idle = pin!(self.0.idle.notified());
            idle.as_mut().enable();
            wake();
            if self.left() == 0 {
                return;
            }
            idle.await;
        }
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Send + 'static> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The background task.
struct Running<T: Clone + Send + 'static> {
    queue: Queue<T>,
    /// It ended by itself. Another one may have started since.
    has_ended: bool,
}

impl<T: Clone + Send + 'static> Running<T> {
    async fn run(mut self, task: impl Future<Output = ()>) {
        task.await;
        self.has_ended = true;
    }
}

impl<T: Clone + Send + 'static> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.state().is_running = false;
        }
        self.queue.0.idle.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn work(queue: &Queue<u32>, sum: &Arc<AtomicU32>) -> impl Future<Output = ()> + use<> {
        let (queue, sum) = (queue.clone(), sum.clone());
        async move {
            while let Some(items) = queue.take(2) {
                sum.fetch_add(items.iter().sum(), Ordering::Relaxed);
                queue.done();
            }
        }
    }

    #[tokio::test]
    async fn a_task_runs_while_there_is_something_to_do() {
        let (queue, sum) = (Queue::new(), Arc::default());
        let wake = || queue.wake(|| work(&queue, &sum));
        for round in 1..=3 {
            queue.state().waiting.extend([1, 2, 3]);
            wake();
            queue.emptied(wake).await;
            assert_eq!(sum.load(Ordering::Relaxed), 6 * round);
        }
    }

    #[test]
    fn what_is_put_back_is_taken_next() {
        let queue = Queue::new();
        queue.put_back();
        queue.state().waiting.extend([1, 2, 3, 4]);
        assert_eq!(queue.take(3), Some(vec![1, 2, 3]));
        queue.put_back();
        assert_eq!(queue.take(3), Some(vec![1]));
        queue.done();
        assert_eq!(queue.take(3), Some(vec![2, 3, 4]));
    }

    #[test]
    fn what_a_stopped_task_had_taken_is_taken_again() {
        let (queue, sum) = (Queue::new(), Arc::default());
        queue.state().waiting.extend([1, 2, 3]);
        let build = || tokio::runtime::Builder::new_current_thread().build();
        let first = build().unwrap();
        first.block_on(async {
            let taker = queue.clone();
            queue.wake(|| async move {
                let _ = taker.take(2);
                pending().await
            });
            tokio::task::yield_now().await;
        });
        assert_eq!(queue.state().taken, [1, 2]);
        drop(first);
        build().unwrap().block_on(async {
            queue.emptied(|| queue.wake(|| work(&queue, &sum))).await;
        });
        assert_eq!(sum.load(Ordering::Relaxed), 6);
    }
}
