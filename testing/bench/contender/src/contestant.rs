//! What is measured.

use std::pin::Pin;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A kind of lock over one store.
pub trait Contestant: Send {
    /// A worker that repeatedly takes the lock of this name.
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>>;
}

/// Takes one lock and gives it back.
pub trait Worker: Send {
    /// Tries once, without waiting. Returns whether the lock was taken.
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>>;

    /// Gives back the lock that was taken last.
    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;
}
