//! How servers are set up for one purpose.

use super::definition::{Kind, Role, Source};

/// How servers are set up.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What a commit guarantees.
    pub durability: Durability,
    /// Appended to the command line of every server. For one store at a time, because each has
    /// different options.
    pub extra_args: Vec<String>,
    /// Use a server that the environment names, if there is one.
    pub given: bool,
    /// Do not install missing servers, even if it is possible.
    pub no_install: bool,
    /// Packages of Debian to install in addition to those of the servers.
    pub packages: Vec<&'static str>,
    /// Do without extracted servers, such as MySQL, if the registries do not have them.
    pub extracts_may_miss: bool,
}

impl Profile {
    /// The settings of this server.
    pub(crate) fn settings(&self, kind: Kind) -> Vec<String> {
        let first = match self.durability {
            Durability::AsShipped => &[],
            Durability::Off => kind.0.without_fsync,
        };
        let first = first.iter().map(|word| (*word).to_owned());
        first.chain(self.extra_args.iter().cloned()).collect()
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
pub enum Durability {
    /// The server's default: a commit is on disk before it is answered.
    #[default]
    AsShipped,
    /// A commit is answered before it is on disk. Only for measuring the cost of the disk.
    Off,
}
