//! Which cases run over which harness.

use std::collections::BTreeSet;
use std::ffi::OsString;

use libtest_mimic::Arguments;

use crate::{Case, Harness};

/// The environment variable that makes every case run on every harness.
const FULL: &str = "SHEDLOCK_TEST_FULL";

/// What a [case](Case) is about. Most cases have one tag, some have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tag {
    /// The few cases that every harness runs: at least one of each law, none of them slow.
    Smoke,
    /// One holder at a time, also under contention; the losers get an immediate reply.
    Exclusion,
    /// Calls affect only their own lease, and can be repeated.
    Ownership,
    /// Instants and durations, as the store writes and compares them, and whose clock judges them.
    Time,
    /// Names of locks.
    Names,
    /// The record: what ShedLock reads and writes, and recovery from its deletion.
    Record,
    /// Operators' calls: inspect, list, force-unlock.
    Operators,
    /// Fencing tokens.
    Fencing,
    /// Slots, including open ones.
    Slots,
    /// What the provider declares, and its identity.
    Declared,
    /// The number of requests and round trips of each call.
    Cost,
    /// The connection to the store: lost, late and withheld requests and replies, an unreachable
    /// store, and the caller's transaction.
    Connection,
    /// Several processes.
    Processes,
}

/// Which cases a [harness](Harness) runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    #[default]
    Whole,
    /// For a variant of a harness that already runs all cases: the [smoke](Tag::Smoke) cases and
    /// those about what the variant changes.
    About(&'static [Tag]),
}

impl Scope {
    /// Returns whether this case is one of them.
    ///
    /// ```
    /// use shedlock_conformance::{Scope, Tag, laws};
    /// let variant = Scope::About(&[Tag::Names]);
    /// let cases = laws::cases();
    /// assert!(cases.iter().all(|case| Scope::Whole.includes(case)));
    /// assert!(laws::law10_names::cases().iter().all(|case| variant.includes(case)));
    /// assert!(!cases.iter().all(|case| variant.includes(case)));
    /// ```
    pub fn includes(self, case: &Case) -> bool {
        match self {
            Self::Whole => true,
            Self::About(tags) => case
                .tags()
                .iter()
                .any(|tag| *tag == Tag::Smoke || tags.contains(tag)),
        }
    }
}

/// Which cases one run of a test target selects, and how many it omits.
#[derive(Debug)]
pub(crate) struct Selection {
    everything: bool,
    variants: BTreeSet<String>,
    left_out: usize,
}

impl Selection {
    /// Selects all cases if the environment variable requests it, or if a filter names the cases.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self::told(std::env::var_os(FULL), arguments)
    }

    fn told(full: Option<OsString>, arguments: &Arguments) -> Self {
        let is_full = full.is_some_and(|value| !value.is_empty());
        Self::of(is_full || arguments.filter.is_some())
    }

    fn of(everything: bool) -> Self {
        Self {
            everything,
            variants: BTreeSet::new(),
            left_out: 0,
        }
    }

    /// The cases that run over this harness.
    pub(crate) fn pick(&mut self, harness: &dyn Harness, mut cases: Vec<Case>) -> Vec<Case> {
        if self.everything {
            return cases;
        }
        let scope = harness.scope();
        let before = cases.len();
        cases.retain(|case| scope.includes(case));
        if cases.len() < before {
            self.left_out += before - cases.len();
            self.variants.insert(harness.name().to_owned());
        }
        cases
    }

    /// What is printed after the run; nothing if all cases ran.
    pub(crate) fn report(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!(
                "{} cases left out on variants ({}): {FULL}=1 runs them",
                self.left_out,
                self.variants.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shedlock_core::BoxFuture;

    use super::*;
    use crate::{BoxError, Namespace, laws};

    struct Store(Scope);

    impl Harness for Store {
        fn name(&self) -> &str {
            "store"
        }

        fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
            Box::pin(async { Err("it is only picked for".into()) })
        }

        fn scope(&self) -> Scope {
            self.0
        }
    }

    fn arguments(words: &[&str]) -> Arguments {
        Arguments::from_iter(["target"].iter().chain(words))
    }

    #[test]
    fn every_case_has_a_tag() {
        for case in laws::cases() {
            assert!(!case.tags().is_empty(), "{case:?}");
        }
    }

    #[test]
    fn every_law_has_a_case_that_every_harness_runs() {
        let law = |case: &Case| {
            let (law, _) = case.name().split_once("::").expect("a law and a case");
            law.to_owned()
        };
        let cases = laws::cases();
        let all: BTreeSet<_> = cases.iter().map(law).collect();
        let smoke = cases.iter().filter(|case| Scope::About(&[]).includes(case));
        assert_eq!(smoke.map(law).collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn every_tag_is_that_of_more_than_one_case() {
        let cases = laws::cases();
        for tag in [
            Tag::Smoke,
            Tag::Exclusion,
            Tag::Ownership,
            Tag::Time,
            Tag::Names,
            Tag::Record,
            Tag::Operators,
            Tag::Fencing,
            Tag::Slots,
            Tag::Declared,
            Tag::Cost,
            Tag::Connection,
            Tag::Processes,
        ] {
            let tagged = cases.iter().filter(|case| case.tags().contains(&tag));
            assert!(tagged.count() > 1, "{tag:?}");
        }
    }

    #[test]
    fn a_harness_that_says_nothing_runs_every_case() {
        assert_eq!(Scope::default(), Scope::Whole);
        let mut selection = Selection::of(false);
        let picked = selection.pick(&Store(Scope::Whole), laws::cases());
        assert_eq!(picked.len(), laws::cases().len());
        assert_eq!(selection.report(), None);
    }

    #[test]
    fn what_a_variant_leaves_out_is_counted() {
        let mut selection = Selection::of(false);
        let variant = Store(Scope::About(&[Tag::Names]));
        let mut left_out = 0;
        for _ in 0..2 {
            let picked = selection.pick(&variant, laws::cases());
            left_out += laws::cases().len() - picked.len();
            assert!(picked.iter().all(|case| {
                let tags = case.tags();
                tags.contains(&Tag::Names) || tags.contains(&Tag::Smoke)
            }));
        }
        let report = selection.report().expect("cases are left out");
        let expected = format!("{left_out} cases left out on variants (1): ");
        assert!(report.starts_with(&expected), "{report}");
    }

    #[test]
    fn a_full_run_and_a_filter_leave_nothing_out() {
        let told = |full: Option<&str>, words| {
            let selection = Selection::told(full.map(OsString::from), &arguments(words));
            selection.everything
        };
        assert!(told(Some("1"), &[]));
        assert!(told(None, &["law10"]));
        assert!(!told(None, &["--skip", "law10"]));
        assert!(!told(Some(""), &[]));
        let mut selection = Selection::of(true);
        let variant = Store(Scope::About(&[]));
        let picked = selection.pick(&variant, laws::cases());
        assert_eq!(picked.len(), laws::cases().len());
        assert_eq!(selection.report(), None);
    }
}
