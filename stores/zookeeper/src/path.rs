//! Conversions between names and paths of nodes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use shedlock_core::LockName;
use shedlock_provider::{Result, invalid};

pub(crate) const LONGEST: usize = 1024;

/// The suffix that turns the path of the locks into the path of their companion nodes.
const BESIDE: &str = ".owners";

/// The prefix of nodes for lock names that are not valid paths.
const WRITTEN: &str = "shedlock-rs:";

const BYTES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) locks: String,
}

/// A node that must exist, and its data if it is created.
pub(crate) type Parent = (String, &'static str);

/// The data of a node that only leads to other locks: a free lock.
pub(crate) const FREE: &str = "1970-01-01T00:00:00.000Z";

impl Paths {
    /// Creates the paths below this one. Returns `InvalidInput` if it is not an absolute path, or if it is reserved for
    /// companion nodes.
    pub(crate) fn new(path: &str) -> Result<Self> {
        let refused =
            |why: &str, step| Err(invalid(format!("the path {path:?} {why}")).advise(step));
        let Some(parts) = path.strip_prefix('/').filter(|parts| is_plain(parts)) else {
            return refused(
                "is not an absolute node path",
                "write it like \"/shedlock\"",
            );
        };
        if parts.split('/').any(|part| part.ends_with(BESIDE)) {
            return refused(
                "has a part that ends in \".owners\", which is reserved",
                "choose another path",
            );
        }
        let locks = path.to_owned();
        Ok(Self { locks })
    }

    pub(crate) fn of(&self, name: &LockName) -> [String; 2] {
        self.both(&node(name))
    }

    /// Returns both paths for a node below the two parents.
    pub(crate) fn both(&self, node: &str) -> [String; 2] {
        ["", BESIDE].map(|end| format!("{}{end}/{node}", self.locks))
    }

    /// Returns all nodes above those of this name, from the top.
    pub(crate) fn above(&self, name: &LockName) -> Vec<Parent> {
        let mut parents = self.roots();
        let node = node(name);
        for (end, _) in node.match_indices('/') {
            parents.extend(self.both(&node[..end]).into_iter().zip([FREE, ""]));
        }
        parents
    }

    /// Returns the paths of the nodes that exist only to lead to those of this name, from the bottom.
    pub(crate) fn leading_to(&self, name: &LockName) -> Vec<[String; 2]> {
        let node = node(name);
        let ends = node.rmatch_indices('/');
        ends.map(|(end, _)| self.both(&node[..end])).collect()
    }

    pub(crate) fn roots(&self) -> Vec<Parent> {
        let mut roots = way_to(&self.locks);
        roots.push((format!("{}{BESIDE}", self.locks), ""));
        roots
    }
}

/// Returns the nodes above this one and the node itself, from the top.
pub(crate) fn way_to(path: &str) -> Vec<Parent> {
    let above = path.match_indices('/').map(|(end, _)| end);
    let ends = above.filter(|end| *end > 0).chain([path.len()]);
    ends.map(|end| (path[..end].to_owned(), "")).collect()
}

fn node(name: &LockName) -> String {
    let text = name.as_str();
    if is_plain(text) && !text.starts_with(WRITTEN) {
        return text.to_owned();
    }
    format!("{WRITTEN}{}", utf8_percent_encode(text, BYTES))
}

/// Returns the name of a path below the parent; none for a path that no lock of ours can have.
pub(crate) fn name(of: &str) -> Option<LockName> {
    let text = match of.strip_prefix(WRITTEN) {
        Some(written) => percent_decode_str(written).decode_utf8().ok()?,
        None => of.into(),
    };
    let name = LockName::new(text).ok()?;
    (node(&name) == of).then_some(name)
}

/// Whether ZooKeeper accepts this as a path of nodes.
fn is_plain(text: &str) -> bool {
    text.split('/')
        .all(|part| !matches!(part, "" | "." | "..") && part.chars().all(is_allowed))
}

/// ZooKeeper checks Java's 16-bit code units. Every character beyond the first plane is a pair of surrogates, so it is
/// refused.
fn is_allowed(char: char) -> bool {
    !matches!(char,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn names_that_shedlock_can_use_stay_as_they_are() {
        for plain in [
            "payroll",
            "com.example.Job#run(a b)",
            "a/b/c",
            "…",
            "%2F",
            "a:b=c",
        ] {
            let lock = LockName::new(plain).unwrap();
            assert_eq!(node(&lock), plain);
            assert_eq!(name(plain), Some(lock));
        }
    }

    #[test]
    fn other_names_are_written_so_that_no_two_meet() {
        let pairs = [
            ("..", "shedlock-rs:.."),
            ("a/../b", "shedlock-rs:a%2F..%2Fb"),
            ("/", "shedlock-rs:%2F"),
            ("a/", "shedlock-rs:a%2F"),
            ("👍", "shedlock-rs:%F0%9F%91%8D"),
            ("shedlock-rs:a", "shedlock-rs:shedlock-rs%3Aa"),
        ];
        for (text, written) in pairs {
            let lock = LockName::new(text).unwrap();
            assert_eq!(node(&lock), written);
            assert_eq!(name(written), Some(lock));
        }
    }

    #[test]
    fn nodes_that_encode_no_name_have_none() {
        for foreign in [
            "shedlock-rs:a",
            "shedlock-rs:%2f",
            "shedlock-rs:%FF",
            "",
            " ",
        ] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn what_is_above_a_node_is_made_from_the_top() {
        let paths = Paths::new("/team/locks").unwrap();
        let above = paths.above(&LockName::new("a/b").unwrap());
        let expected = [
            ("/team", ""),
            ("/team/locks", ""),
            ("/team/locks.owners", ""),
            ("/team/locks/a", FREE),
            ("/team/locks.owners/a", ""),
        ];
        assert_eq!(above, expected.map(|(path, data)| (path.to_owned(), data)));
    }

    #[test]
    fn invalid_paths_and_paths_next_to_locks_are_refused() {
        for wrong in [
            "",
            "/",
            "shedlock",
            "/a/",
            "/a//b",
            "/a/../b",
            "/a\u{0}",
            "/a.owners/b",
        ] {
            let error = Paths::new(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong:?}");
        }
    }
}
