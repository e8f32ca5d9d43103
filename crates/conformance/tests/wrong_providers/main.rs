//! Providers that are wrong on purpose, each in one way that real ones have been. A kit that cannot
//! fail proves nothing: each must be caught, by the case that is meant for it.

mod fault;
mod harness;
mod provider;

use std::sync::Arc;

use shedlock_conformance::{Harness, Stop, Verdict, laws, run_case};

use fault::Fault;
use harness::WrongHarness;

#[tokio::test(flavor = "multi_thread")]
async fn the_frame_itself_is_right() {
    let harness: Arc<dyn Harness> = Arc::new(WrongHarness(Fault::None));
    for case in laws::cases() {
        if let Err(Stop::Failed(message)) = run_case(Arc::clone(&harness), case).await {
            panic!("{}: {message}", case.name());
        }
    }
}

macro_rules! caught {
    ($($test:ident: $fault:ident by $case:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            match verdict(Fault::$fault, $case).await {
                Err(Stop::Failed(_)) => {}
                verdict => panic!("{} is not caught by {}: {verdict:?}", stringify!($fault), $case),
            }
        }
    )*};
}

caught! {
    unlock_that_ignores_the_owner: UnlockIgnoresOwner
        by "law03_ownership::stale_unlock_by_another_client";
    unlock_of_an_expired_lease: UnlockOfExpiredIsOk
        by "law03_ownership::unlock_after_expiry_is_lost";
    extension_of_an_expired_lease: ExtendRevivesExpired
        by "law03_ownership::extend_after_expiry_is_lost";
    second_unlock_that_is_lost: SecondUnlockIsLost
        by "law03_ownership::unlock_twice_is_not_lost";
    slot_that_is_not_atomic: SlotInTwoSteps
        by "law09_slots::sixty_four_contenders_for_a_slot_have_one_winner";
    slot_that_is_forgotten: SlotForgottenAtUnlock
        by "law09_slots::a_slot_is_taken_once";
    attempts_that_are_never_used_up: AttemptsForgottenAtTakeover
        by "law09_open_slots::attempts_are_bounded";
    open_slot_that_is_passed: OpenSlotIsPassed
        by "law09_open_slots::a_later_slot_waits_for_the_open_one";
    slot_ahead_that_is_granted: SlotAheadGranted
        by "law09_slots::a_slot_a_year_ahead_claims_nothing";
    token_of_each_client: TokenPerClient
        by "law08_fencing::tokens_grow_across_a_new_provider";
    token_that_begins_anew: TokenForgottenWithRecord
        by "law08_fencing::tokens_grow_across_a_deleted_record";
    attempt_that_is_not_idempotent: AttemptNotIdempotent
        by "law06_held_is_not_broken::the_same_attempt_twice_is_one_lease";
    error_that_is_a_skip: ErrorIsSkip
        by "law07_no_memory::a_failed_first_attempt_poisons_nothing";
    at_least_from_unlock: AtLeastFromUnlock
        by "law04_at_least::at_least_is_counted_from_acquisition";
    at_least_forgotten: AtLeastForgotten
        by "law04_at_least::at_least_is_kept_after_unlock";
    lease_that_ends_early: EndsEarly
        by "law05_at_most::an_abandoned_lock_comes_free_at_its_end";
    names_without_case: NamesFoldCase
        by "law10_names::names_that_look_alike_are_two_locks";
    names_that_are_tidied: NamesArePaths
        by "law10_names::names_that_are_one_path_are_two_locks";
    names_that_are_cut: NamesAreCut
        by "law10_names::names_that_begin_alike_are_two_locks";
    list_of_one_page: OnePage
        by "operators::list_pages_in_the_byte_order_of_names";
    withdrawal_that_does_nothing: WithdrawDoesNothing
        by "law06_held_is_not_broken::a_withdrawn_attempt_frees_at_once";
    memory_of_records: RemembersRecords
        by "law07_no_memory::a_record_deleted_after_unlock_heals";
}

/// What the kit says of a provider that is wrong in this way.
async fn verdict(fault: Fault, name: &str) -> Verdict {
    let case = laws::cases()
        .into_iter()
        .find(|case| case.name() == name)
        .unwrap_or_else(|| panic!("there is no case {name}"));
    run_case(Arc::new(WrongHarness(fault)), case).await
}
