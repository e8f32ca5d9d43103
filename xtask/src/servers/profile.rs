//! How servers are set up for one purpose.

use super::kind::{Kind, Role, Source};

/// How servers are set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// What a commit promises.
    pub(crate) durability: Durability,
    /// Appended to the command line of every server; for one store at a time, since each has its
    /// own words.
    pub(crate) extra_args: Vec<String>,
    /// Also what stands beside a store in the full test: PgBouncer, say, or a newer version.
    pub(crate) companions: bool,
    /// Take servers that the environment names, where it names one.
    pub(crate) given: bool,
    /// Do not install what is missing, even where we could.
    pub(crate) no_install: bool,
    /// Also what all of the workspace is built with: `protoc`.
    pub(crate) build_tools: bool,
    /// Do without what is extracted, MySQL for one, where the registries do not have it.
    pub(crate) extracts_may_miss: bool,
}

impl Profile {
    /// Whether the tests can do without this server, and say so.
    pub(crate) fn may_miss(&self, kind: Kind) -> bool {
        match (kind.0.role, &kind.0.source) {
            (Role::Beside(_), _) => true,
            (_, Source::Extract(_)) => self.extracts_may_miss,
            _ => false,
        }
    }
}

/// What a commit promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As the server ships: a commit is on disk before it is answered.
    #[default]
    AsShipped,
    /// A commit is answered before it is on disk. Only for measuring what the disk costs.
    Off,
}
