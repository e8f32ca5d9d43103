//! Ticks that are due while a run of their job is in progress on this node.

/// What happens to a tick that is due while a run of the same job is still in progress here.
///
/// The lock separates it from runs on other replicas: a tick that finds the lock taken is tried
/// again within its [`LatePolicy`](crate::LatePolicy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It waits for the run to end, and then starts if its late policy still allows it. Only the
    /// newest tick waits, so ticks never pile up.
    #[default]
    Queue,
    /// It is given up on this node; another replica may still run it.
    Skip,
}
