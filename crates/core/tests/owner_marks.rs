//! What a store keeps about an owner is read as what was meant, whatever a user wrote beside it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use shedlock_core::{LockName, LockRecord, LockState, Owner, Pause, PauseRequest, SkipReason};

/// Words that the format itself uses, and any other text.
fn reason() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("unlocked".to_owned()),
        Just("freed".to_owned()),
        Just("paused".to_owned()),
        Just("paused:".to_owned()),
        Just("kept=1764100000000000:".to_owned()),
        Just("a@b/1/ff".to_owned()),
        Just(":".to_owned()),
        "[ -~]{0,12}",
        "x{60,90}",
        ".{0,6}",
    ];
    prop::collection::vec(word, 0..5).prop_map(|words| words.join(" "))
}

fn read(stored: &str, is_locked: bool) -> LockRecord {
    LockRecord::from_stored(LockName::new("job").unwrap(), stored, is_locked)
}

proptest! {
    #[test]
    fn a_pause_is_read_as_a_pause_whatever_its_reason(
        (reason, user, fill) in (reason(), ".{0,50}", 0_usize..260),
    ) {
        let request = |reason: &str| {
            PauseRequest::new(LockName::new("job").unwrap(), &user).with_reason(reason)
        };
        // So that the cut falls at each place.
        let filled = format!("{}{reason}", "x".repeat(fill));
        for reason in [reason.as_str(), &filled, &format!("{filled} unlocked")] {
            let request = request(reason);
            let owner = request.owner();
            prop_assert!(owner.len() <= 255);
            let record = read(&owner, true);
            prop_assert_eq!(record.state, LockState::Paused, "{}", owner);
            let pause = record.pause().unwrap();
            prop_assert!(request.is_pause(&pause));
            let expired = read(&owner, false);
            prop_assert_eq!(expired.state, LockState::Free);
            prop_assert!(!expired.is_unlocked, "it ended by itself: {}", owner);
            prop_assert_eq!(expired.owner.as_deref(), Some(owner.as_str()));
            let resumed = Owner::released_text(&owner);
            prop_assert!(resumed.len() <= 255);
            prop_assert_eq!(read(&resumed, true).state, LockState::AtLeast, "{}", resumed);
            prop_assert!(read(&resumed, false).is_unlocked);
        }
    }

    #[test]
    fn a_lock_of_shedlock_is_taken(host in "[!-.0-~ ]{0,64}(/[!-.0-~]{0,64})?") {
        prop_assume!(!Owner::is_released(&host));
        let record = read(&host, true);
        prop_assert_eq!(record.state, LockState::Taken);
        prop_assert!(record.state.may_run());
        prop_assert_eq!(record.as_skip().reason, SkipReason::Held);
        prop_assert_eq!(read(&host, false).state, LockState::Free);
    }

    #[test]
    fn a_lease_is_read_as_a_lease_whatever_its_prefix(prefix in "[!-.0-~]{1,64}") {
        let owner = Owner::generate_with_prefix(&prefix).unwrap();
        prop_assert_eq!(read(owner.as_str(), true).state, LockState::Held);
        let released = owner.released();
        prop_assert_eq!(read(&released, true).state, LockState::AtLeast);
        prop_assert_eq!(Pause::parse(owner.as_str()), None);
        prop_assert_eq!(Pause::parse(&released), None);
        prop_assert_eq!(Owner::without_mark(&released), owner.as_str());
    }
}
