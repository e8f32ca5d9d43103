//! The cases, one module per law.
//!
//! Each case is a plain function over a [`TestContext`](crate::TestContext); [`cases`] lists them
//! all.

pub mod clocks;
pub mod cut_off;
pub mod declared;
pub mod faults;
pub mod full;
pub mod late;
pub mod law01_exclusion;
pub mod law02_no_waiting;
pub mod law03_lost_replies;
pub mod law03_ownership;
pub mod law04_at_least;
pub mod law05_at_most;
pub mod law06_held_is_not_broken;
pub mod law07_no_memory;
pub mod law08_fencing;
pub mod law09_open_slots;
pub mod law09_resets;
pub mod law09_slots;
pub mod law09_unused_slots;
pub mod law10_names;
pub mod law11_own_connection;
pub mod law12_record;
pub mod law13_cost;
pub mod operators;
pub mod outages;
pub mod pauses;
pub mod pauses_slots;
pub mod processes;
pub mod prunes;
pub mod silence;
mod slots;

use crate::Case;

/// Returns all cases of all laws. Cases that mostly wait come first, so that the others run
/// meanwhile.
pub fn cases() -> Vec<Case> {
    [
        cut_off::cases(),
        silence::cases(),
        late::cases(),
        processes::cases(),
        law01_exclusion::cases(),
        law02_no_waiting::cases(),
        law03_lost_replies::cases(),
        law03_ownership::cases(),
        law04_at_least::cases(),
        law05_at_most::cases(),
        law06_held_is_not_broken::cases(),
        law07_no_memory::cases(),
        law08_fencing::cases(),
        law09_slots::cases(),
        law09_open_slots::cases(),
        law09_resets::cases(),
        law09_unused_slots::cases(),
        law10_names::cases(),
        law11_own_connection::cases(),
        law12_record::cases(),
        law13_cost::cases(),
        operators::cases(),
        pauses::cases(),
        pauses_slots::cases(),
        prunes::cases(),
        declared::cases(),
        clocks::cases(),
        faults::cases(),
        outages::cases(),
        full::cases(),
    ]
    .concat()
}
