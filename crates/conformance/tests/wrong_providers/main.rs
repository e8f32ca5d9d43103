//! Providers that are deliberately wrong, each in one way in which real ones have been. A kit that
//! cannot fail proves nothing: each provider must be caught by the case that targets its fault.

mod fault;
mod harness;
mod provider;
#[path = "../served/harness.rs"]
mod served;

use std::sync::Arc;

use shedlock_conformance::{Harness, Stop, Verdict, laws, run_case};

use fault::Fault;
use harness::WrongHarness;
use served::{Served, Wrong};

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_without_a_fault_passes() {
    let harness: Arc<dyn Harness> = Arc::new(WrongHarness(Fault::None));
    for case in laws::cases() {
        if let Err(Stop::Failed(message)) = run_case(Arc::clone(&harness), &case).await {
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
    token_that_starts_over: TokenForgottenWithRecord
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
    names_that_are_normalized: NamesArePaths
        by "law10_names::names_that_are_one_path_are_two_locks";
    names_that_are_cut: NamesAreCut
        by "law10_names::names_that_begin_alike_are_two_locks";
    list_of_one_page: OnePage
        by "operators::list_pages_in_the_byte_order_of_names";
    pause_that_takes_held_locks: PauseTakesHeldLocks
        by "pauses::a_pause_leaves_a_running_task_alone";
    pause_that_forgets_its_slots: PauseForgetsSlots
        by "pauses::slots_of_a_pause_count_as_taken";
    pause_that_is_not_idempotent: PauseIsNotIdempotent
        by "pauses::a_repeated_pause_is_the_same_pause";
    resumption_of_a_held_lock: ResumeFreesHeldLocks
        by "pauses::only_a_pause_can_be_resumed";
    forced_unlock_that_ends_a_pause: ForcedUnlockEndsPauses
        by "pauses::a_forced_unlock_refuses_a_pause";
    removal_of_a_held_lock: PruneRemovesHeldLocks
        by "prunes::a_held_lock_keeps_its_record";
    removal_of_a_lock_that_at_least_keeps: PruneRemovesHeldLocks
        by "prunes::at_least_keeps_the_record";
    removal_of_a_paused_lock: PruneRemovesHeldLocks
        by "prunes::a_paused_lock_keeps_its_record";
    removal_of_a_recent_slot: PruneIgnoresSlots
        by "prunes::a_recent_slot_keeps_the_record";
    removal_of_an_open_slot: PruneIgnoresSlots
        by "prunes::an_open_slot_keeps_the_record";
    removal_that_is_not_atomic: PruneInTwoSteps
        by "prunes::a_record_that_is_taken_meanwhile_is_kept";
    removal_that_breaks_exclusion: PruneInTwoSteps
        by "prunes::attempts_and_removals_at_once_break_nothing";
    removal_that_removes_nothing: PruneKeepsTheRecord
        by "prunes::an_idle_record_is_removed";
    removal_of_a_lock_that_was_used_recently: PruneIgnoresTime
        by "prunes::a_lock_that_was_used_recently_keeps_its_record";
    plan_of_what_is_there: PlansWhatIsThere
        by "law12_record::migrating_twice_is_harmless";
    withdrawal_that_does_nothing: WithdrawDoesNothing
        by "law06_held_is_not_broken::a_withdrawn_attempt_frees_at_once";
    memory_of_records: RemembersRecords
        by "law07_no_memory::a_record_deleted_after_unlock_heals";
}

/// Providers that handle late or lost requests wrongly, each over a socket.
macro_rules! caught_on_the_way {
    ($($test:ident: $wrong:ident by $($case:literal),+;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let served = Served { wrong: Wrong::$wrong, ..Served::RIGHT };
            for case in [$($case),+] {
                match judge(Arc::new(Served::RIGHT), case).await {
                    Ok(()) => {}
                    verdict => panic!("{case} fails for a correct provider: {verdict:?}"),
                }
                match judge(Arc::new(served), case).await {
                    Err(Stop::Failed(_)) => {}
                    verdict => panic!("{served:?} is not caught by {case}: {verdict:?}"),
                }
            }
        }
    )*};
}

caught_on_the_way! {
    attempt_that_is_granted_too_late: IgnoresNotAfter
        by "law06_held_is_not_broken::a_copy_that_arrives_after_other_owners_takes_nothing",
        "law06_held_is_not_broken::a_copy_that_arrives_after_the_withdrawal_takes_nothing",
        "law06_held_is_not_broken::a_copy_that_arrives_after_a_skip_takes_nothing";
    late_attempt_that_takes_its_slot: TakesSlotOfLateAttempt
        by "law06_held_is_not_broken::a_copy_that_arrives_after_the_withdrawal_takes_nothing",
        "law06_held_is_not_broken::a_copy_that_arrives_after_a_skip_takes_nothing";
    unlock_that_leaves_no_trace: ForgetsWhoUnlocked
        by "law06_held_is_not_broken::a_copy_that_arrives_after_the_unlock_takes_nothing";
    extension_that_shortens: ShortensLeases
        by "law05_at_most::an_extension_never_shortens_the_lease",
        "law05_at_most::an_extension_that_arrives_late_does_not_shorten_the_lease";
    unlock_that_is_judged_by_a_later_read: ReadsUnlocksBack
        by "law06_held_is_not_broken::an_unlock_whose_answer_was_lost_is_not_lost_once_another_has_the_lock";
    container_that_breaks_promises: AcceptsWeakContainer
        by "declared::a_container_that_breaks_promises_is_refused_at_the_first_call";
}

/// Faults that match no request are a failure, and requests declared as hidden are reported.
#[tokio::test(flavor = "multi_thread")]
async fn indistinguishable_requests_do_not_pass_silently() {
    let obscured = Served {
        obscures_unlocks: true,
        ..Served::RIGHT
    };
    let admitted = Served {
        admits_it: true,
        ..obscured
    };
    let lies = Served {
        admits_it: true,
        ..Served::RIGHT
    };
    let case = "law06_held_is_not_broken::an_unlock_whose_answer_was_lost_is_not_lost";
    for failing in [obscured, lies] {
        match judge(Arc::new(failing), case).await {
            Err(Stop::Failed(_)) => {}
            verdict => panic!("{failing:?} passes {case}: {verdict:?}"),
        }
    }
    match judge(Arc::new(admitted), case).await {
        Err(Stop::NotApplicable(reason)) => assert!(reason.contains("unlocks are obscured")),
        verdict => panic!("{admitted:?} should be not applicable to {case}: {verdict:?}"),
    }
}

/// The kit's verdict on a provider that is wrong in this way.
async fn verdict(fault: Fault, name: &str) -> Verdict {
    judge(Arc::new(WrongHarness(fault)), name).await
}

async fn judge(harness: Arc<dyn Harness>, name: &str) -> Verdict {
    let case = laws::cases()
        .into_iter()
        .find(|case| case.name() == name)
        .unwrap_or_else(|| panic!("there is no case {name}"));
    run_case(harness, &case).await
}
