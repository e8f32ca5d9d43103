//! The list of mistakes is in order.

use std::collections::BTreeSet;

use shedlock_proof::history::LAWS;
use shedlock_proof::{At, Mistake};

/// Someone must find it, or it is a mistake that only the model makes.
#[test]
fn each_mistake_is_looked_for() {
    for mistake in Mistake::ALL {
        let is_judged = mistake.is_tortured() || mistake.is_simulated();
        let is_tried = is_judged || !mistake.caught_by().is_empty();
        assert_eq!(is_tried, mistake.at() != At::Model, "{mistake:?}");
        assert_eq!(is_judged, !mistake.violates().is_empty(), "{mistake:?}");
    }
}

/// Each violation is one that the judge reports.
#[test]
fn mistakes_violate_known_laws() {
    for mistake in Mistake::ALL {
        for law in mistake.violates() {
            assert!(LAWS.contains(law), "{mistake:?} violates {law:?}");
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<&str> = Mistake::ALL.iter().map(|it| it.name()).collect();
    assert_eq!(names.len(), Mistake::ALL.len());
    for mistake in Mistake::ALL {
        assert_eq!(Mistake::named(mistake.name()), Some(*mistake));
    }
}
