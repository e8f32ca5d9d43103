//! How servers are set up for one purpose.

use super::kind::{Kind, Role, Source};

/// How servers are set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// What a commit guarantees.
    pub(crate) durability: Durability,
    /// Appended to the command line of every server. For one store at a time, because each has
    /// different options.
    pub(crate) extra_args: Vec<String>,
    /// Includes companions of a store in the full test, such as PgBouncer or a newer version.
    pub(crate) companions: bool,
    /// Use a server that the environment names, if there is one.
    pub(crate) given: bool,
    /// Do not install missing servers, even if it is possible.
    pub(crate) no_install: bool,
    /// Includes the tools that the whole workspace is built with: `protoc`.
    pub(crate) build_tools: bool,
    /// Do without extracted servers, such as MySQL, if the registries do not have them.
    pub(crate) extracts_may_miss: bool,
}

impl Profile {
    /// For tests of everything.
    pub(crate) fn of_all_tests() -> Self {
        Self {
            companions: true,
            given: true,
            build_tools: true,
            extracts_may_miss: true,
            ..Self::default()
        }
    }

    /// Whether the tests can do without this server, and report that.
    pub(crate) fn may_miss(&self, kind: Kind) -> bool {
        match (kind.0.role, &kind.0.source) {
            (Role::Beside(_), _) => true,
            (_, Source::Extract(_)) => self.extracts_may_miss,
            _ => false,
        }
    }
}

/// What a commit guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The server's default: a commit is on disk before it is answered.
    #[default]
    AsShipped,
    /// A commit is answered before it is on disk. Only for measuring the cost of the disk.
    Off,
}
