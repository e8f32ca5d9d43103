//! Ticks that meet a run of their own job on this node.

/// What happens to a tick that comes while a run of the same job is still going on here.
///
/// Runs on other replicas are kept apart by the lock; a tick that finds it taken is tried again
/// within its [`LatePolicy`](crate::LatePolicy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It waits for the run to end, and starts then if its late policy still allows. One waits, the
    /// newest: they never pile up.
    #[default]
    Queue,
    /// It is given up on this node; another replica may still run it.
    Skip,
}
