//! What operators do: inspect one lock, list all, free one by force.

use std::time::Duration;

use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    ErrorKind, ForceUnlockRequest, ForcedUnlock, ListRequest, LockName, LockRecord, LockState,
    Owner, PauseRequest, SkipReason, SlotEnd, Unlock, UnlockRequest, admin, identify_store,
    store_identity,
};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, extend_is_lost, is_free, record, skipped_as, still_holds, unlock,
    unlock_is_lost, unlock_stale,
};
use crate::verdict::ensure;
use crate::warnings::with_warnings;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("operators" [Operators]:
    inspect_of_an_unknown_lock_finds_nothing,
    inspect_shows_what_is_held [Smoke],
    list_pages_in_the_byte_order_of_names [Names],
    list_of_held_locks_leaves_out_free_ones [Smoke],
    a_list_survives_data_that_is_not_a_lock_and_names_it [Record],
    the_identity_of_the_store_is_no_lock,
    force_unlock_frees_and_returns_what_was [Smoke],
    force_unlock_of_a_free_lock_changes_nothing,
    force_unlock_ends_at_least,
    the_holder_loses_a_lock_that_was_freed_by_force,
    a_slot_whose_lock_was_freed_by_force_stays_open [Slots],
    force_unlock_of_another_owner_changes_nothing,
    a_record_that_has_changed_since_a_look_is_left_alone [Smoke],
    force_unlock_keeps_the_slot [Slots],
    force_unlock_frees_a_lock_of_shedlock [Record],
    a_forced_out_holder_cannot_come_back,
);

/// A store keeps the identity that it was given first. It is not among the locks.
pub async fn the_identity_of_the_store_is_no_lock(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let none = store_identity(&*first).await?;
    ensure!(none.is_none(), "this store was given no identity: {none:?}");
    let owner = Owner::generate();
    let given = identify_store(&*first, Some(owner.clone())).await?;
    let found = store_identity(&*second).await?;
    ensure!(
        given == owner.as_str() && found.as_deref() == Some(&*given),
        "the identity should be {owner}, but is {given} and {found:?}"
    );
    let again = identify_store(&*second, None).await?;
    ensure!(again == given, "the identity changed to {again}");
    let (locks, warnings) = with_warnings(second.list(&ListRequest::new())).await;
    let locks = locks?;
    ensure!(
        locks.is_empty() && warnings.is_empty(),
        "the identity is no lock, but is listed: {locks:?} {warnings:?}"
    );
    Ok(())
}

/// Inspecting an unknown lock finds nothing, and does not create a record.
pub async fn inspect_of_an_unknown_lock_finds_nothing(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    for _ in 0..2 {
        let found = provider.inspect(&name("never-locked")).await?;
        ensure!(found.is_none(), "no one took this lock: {found:?}");
    }
    Ok(())
}

/// Inspecting a held lock shows owner, times, token and slot, as far as the provider declares them.
pub async fn inspect_shows_what_is_held(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let mut request = context.request(&job);
    if context.capabilities().slots {
        let slot = context
            .slot_before_now(&first, Duration::from_secs(60))
            .await?;
        request = request.with_slot(slot);
    }
    let lease = acquire(&first, &request).await?;
    let found = record(&second, &job).await?;
    ensure!(
        found.name == job
            && found.state == LockState::Held
            && found.owner.as_deref() == Some(lease.owner().as_str())
            && found.last_slot == lease.slot()
            && found.fencing_token == lease.fencing_token(),
        "the record {found:?} does not show the lease {lease:?}"
    );
    if let (Some(read), Some(from), Some(to)) = (found.read_at, found.locked_at, found.locked_until)
    {
        ensure!(
            from <= read && read < to,
            "the record says that it was read at {read:?}, but the lock was held from {from:?} to \
             {to:?}"
        );
    }
    unlock(&first, &lease).await
}

/// A list contains each name exactly once, page by page, in byte order, whatever the store's own
/// order is.
pub async fn list_pages_in_the_byte_order_of_names(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let mut names: Vec<LockName> = (0..20).map(|i| name(&format!("job-{i}"))).collect();
    let odd = [
        "A", "a", "B", "b", "_", "~", " a", "a ", "ä", "Z", "z", "é", "👍", "a%", "a_", "'",
    ];
    names.extend(odd.map(name));
    for name in &names {
        abandon(&provider, &context.request(name)).await?;
    }
    names.sort_by(|a, b| a.as_str().as_bytes().cmp(b.as_str().as_bytes()));
    for size in [1, 7, names.len(), 1_000] {
        let listed = pages(&provider, ListRequest::new().with_limit(size), size).await?;
        let listed: Vec<_> = listed.into_iter().map(|record| record.name).collect();
        ensure!(
            listed == names,
            "in pages of {size}, the names {names:?} were listed as {listed:?}"
        );
    }
    let after = ListRequest::new().with_after(name("job-"));
    let first = provider.list(&after).await?.into_iter().next();
    ensure!(
        first
            .as_ref()
            .is_some_and(|record| record.name.as_str() == "job-0"),
        "the first name after \"job-\" should be \"job-0\", but is {first:?}"
    );
    let end = ListRequest::new().with_after(name("\u{10ffff}"));
    let found = provider.list(&end).await?;
    ensure!(
        found.is_empty(),
        "after the last name the list returned {found:?}"
    );
    Ok(())
}

/// A list survives another program's data and undecodable bytes at the places of lock records. It
/// contains all locks around them, and each of the two is either listed or named in a warning.
pub async fn a_list_survives_data_that_is_not_a_lock_and_names_it(
    context: &TestContext,
) -> Verdict {
    let provider = context.provider().await?;
    let foreign = [name("b-foreign"), name("d-broken")];
    context.write_foreign(&foreign[0], b"hello").await?;
    context.write_foreign(&foreign[1], b"\xff\xfe\x00").await?;
    let locks = ["a", "c", "e"].map(name);
    for lock in &locks {
        abandon(&provider, &context.request(lock)).await?;
    }
    for size in [1, 2, 1_000] {
        let request = ListRequest::new().with_limit(size);
        let (listed, warnings) = with_warnings(pages(&provider, request, size)).await;
        let listed: Vec<_> = listed?.into_iter().map(|record| record.name).collect();
        for lock in &locks {
            ensure!(
                listed.contains(lock),
                "{lock} is held, but with foreign data next to it the list in pages of {size} is \
                 {listed:?}"
            );
        }
        for foreign in &foreign {
            ensure!(
                listed.contains(foreign) || warnings.contains(foreign.as_str()),
                "the list in pages of {size} neither has {foreign}, which is not a lock, nor warns \
                 about it: {listed:?}, {warnings:?}"
            );
        }
    }
    Ok(())
}

/// A list of held locks contains those held or kept by at-least, with their state, but no unlocked
/// or expired ones.
pub async fn list_of_held_locks_leaves_out_free_ones(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let (held, kept) = (name("held"), name("kept"));
    abandon(&provider, &context.request(&held)).await?;
    let long = context.timing().long();
    let request = context.request(&kept).with_lock_at_least_for(long);
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await?;
    let lease = acquire(&provider, &context.request(&name("unlocked"))).await?;
    unlock(&provider, &lease).await?;
    let short = context.timing().short();
    abandon(&provider, &context.request_for(&name("expired"), short)).await?;
    context.pass(context.timing().past(short)).await;

    let listed = provider.list(&ListRequest::new().held_only()).await?;
    let seen: Vec<_> = listed.iter().map(|r| (r.name.as_str(), r.state)).collect();
    ensure!(
        seen == [("held", LockState::Held), ("kept", LockState::AtLeast)],
        "\"held\" is held and at-least keeps \"kept\", but the list of held locks is {seen:?}"
    );
    for record in provider.list(&ListRequest::new()).await? {
        let expected = match record.name.as_str() {
            "held" => LockState::Held,
            "kept" => LockState::AtLeast,
            _ => LockState::Free,
        };
        ensure!(
            record.state == expected,
            "{} should be listed as {expected:?}: {record:?}",
            record.name
        );
    }
    Ok(())
}

/// A forced unlock frees the lock for any owner, and returns what it was before.
pub async fn force_unlock_frees_and_returns_what_was(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    for by_owner in [false, true] {
        let lease = acquire(&first, &context.request(&job)).await?;
        let mut request = ForceUnlockRequest::new(job.clone());
        if by_owner {
            request = request.with_expected_owner(lease.owner().as_str());
        }
        let before = freed(&second, &request).await?;
        ensure!(
            before.name == job && before.owner.as_deref() == Some(lease.owner().as_str()),
            "{} held {job}, but the forced unlock returned {before:?}",
            lease.owner()
        );
        is_free(&first, &job).await?;
        let next = acquire(&second, &context.request(&job)).await?;
        unlock(&second, &next).await?;
    }
    Ok(())
}

/// A forced unlock changes nothing if the lock was never acquired, was unlocked, or has expired.
pub async fn force_unlock_of_a_free_lock_changes_nothing(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let (unlocked, expired) = (name("unlocked"), name("expired"));
    let lease = acquire(&provider, &context.request(&unlocked)).await?;
    unlock(&provider, &lease).await?;
    let short = context.timing().short();
    abandon(&provider, &context.request_for(&expired, short)).await?;
    context.pass(context.timing().past(short)).await;
    for free in [name("never taken"), unlocked, expired] {
        let answer =
            admin::force_unlock(&*provider, &ForceUnlockRequest::new(free.clone())).await?;
        ensure!(
            matches!(answer, ForcedUnlock::NotHeld),
            "no one holds {free}, but the forced unlock returned {answer:?}"
        );
        is_free(&provider, &free).await?;
    }
    let found = provider.inspect(&name("never taken")).await?;
    ensure!(
        found.is_none(),
        "a forced unlock created a record: {found:?}"
    );
    Ok(())
}

/// A forced unlock is deliberate, so it overrides at-least.
pub async fn force_unlock_ends_at_least(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&provider, &request).await?;
    unlock(&provider, &lease).await?;
    let before = freed(&provider, &ForceUnlockRequest::new(job.clone())).await?;
    ensure!(
        before.state == LockState::AtLeast,
        "at-least kept the lock, but the forced unlock returned {before:?}"
    );
    abandon(&provider, &context.request(&job)).await
}

/// A write on the condition of a look changes nothing if another lease has begun since.
pub async fn a_record_that_has_changed_since_a_look_is_left_alone(
    context: &TestContext,
) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let before = acquire(&first, &context.request(&job)).await?;
    let seen = second.look(&job).await?;
    let seen = seen.ok_or_else(|| Stop::failed("a look finds no record of a held lock"))?;
    ensure!(
        seen.record.owner.as_deref() == Some(before.owner().as_str()),
        "{} holds {job}, but a look shows {seen:?}",
        before.owner()
    );
    unlock(&first, &before).await?;
    let lease = acquire(&first, &context.request(&job)).await?;
    let end = LeaseChange::End {
        owner: before.owner().freed(),
        kept: None,
    };
    let take = LeaseChange::Take {
        owner: PauseRequest::new(job.clone(), "kit").owner(),
        until: context.store_now(&second).await? + context.timing().long(),
    };
    for lease in [end, take] {
        let change = Change { lease, slots: None };
        let answer = second.change(&job, &seen, &change).await?;
        ensure!(
            answer != Changed::Done,
            "the record has changed since the look, but {change:?} returned {answer:?}"
        );
    }
    let answer = second.remove(&job, &seen).await?;
    ensure!(
        answer != Changed::Done,
        "the record has changed since the look, but a removal returned {answer:?}"
    );
    still_holds(&first, &lease).await?;
    unlock(&first, &lease).await
}

/// A forced unlock of an expected owner changes nothing if the lock has changed hands since.
pub async fn force_unlock_of_another_owner_changes_nothing(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    let other = context.request(&job);
    for owner in [other.owner.as_str(), "java-host", "%", ""] {
        let request = ForceUnlockRequest::new(job.clone()).with_expected_owner(owner);
        match admin::force_unlock(&*second, &request).await? {
            ForcedUnlock::OwnerDiffers(found) => ensure!(
                found.owner.as_deref() == Some(lease.owner().as_str()),
                "{} holds {job}, but the refused forced unlock reports {found:?}",
                lease.owner()
            ),
            answer => {
                return Err(Stop::failed(format!(
                    "{} holds {job}, but a forced unlock that expects {owner:?} returned \
                     {answer:?}",
                    lease.owner()
                )));
            }
        }
        still_holds(&first, &lease).await?;
    }
    unlock(&first, &lease).await
}

/// The holder of a lock that was freed by force has lost it: its unlock is not taken for a repeated one, and a copy of
/// its attempt does not take the lock again.
pub async fn the_holder_loses_a_lock_that_was_freed_by_force(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let request = context.request(&job);
    let lease = acquire(&first, &request).await?;
    let _ = freed(&second, &ForceUnlockRequest::new(job.clone())).await?;
    unlock_is_lost(&first, &lease).await?;
    let again = first.attempt(&request).await;
    ensure!(
        again
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Lost),
        "a copy of an attempt whose lock was freed by force should be lost, but was {again:?}"
    );
    abandon(&second, &context.request(&job)).await
}

/// What the holder wanted to write with its unlock is not reported as written: the slot is open, and can be taken over.
pub async fn a_slot_whose_lock_was_freed_by_force_stays_open(context: &TestContext) -> Verdict {
    context.needs_slot_completion()?;
    let case = super::law09_open_slots::new(context).await?;
    let open = |number| Ok::<_, Stop>(super::law09_open_slots::open(case.request(number)?, 3));
    let lease = acquire(&case.first, &open(0)?).await?;
    let _ = freed(&case.second, &ForceUnlockRequest::new(case.job.clone())).await?;
    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let unlocked = case.first.unlock(&lease, &done).await?;
    ensure!(
        unlocked == Unlock::Lost,
        "the lock was freed by force, so its end was not written: {unlocked:?}"
    );
    let again = acquire(&case.second, &open(0)?).await?;
    ensure!(
        again.slot_attempt() == Some(2),
        "the slot is open after one attempt: {again:?}"
    );
    Ok(())
}

/// A forced unlock keeps the slot taken: the store does not show whether the task did its work.
pub async fn force_unlock_keeps_the_slot(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let provider = context.provider().await?;
    let job = name("job");
    let slot = context
        .slot_before_now(&provider, Duration::from_secs(60))
        .await?;
    let request = || context.request(&job).with_slot(slot);
    abandon(&provider, &request()).await?;
    let _ = freed(&provider, &ForceUnlockRequest::new(job.clone())).await?;
    skipped_as(&provider, &request(), SkipReason::SlotTaken).await?;
    abandon(&provider, &context.request(&job)).await
}

/// A forced unlock frees a lock of ShedLock, and checks ShedLock's host if one is expected.
pub async fn force_unlock_frees_a_lock_of_shedlock(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    context.hold_as_shedlock(&provider, &job).await?;
    let wrong = ForceUnlockRequest::new(job.clone()).with_expected_owner("another-host");
    let answer = admin::force_unlock(&*provider, &wrong).await?;
    ensure!(
        matches!(answer, ForcedUnlock::OwnerDiffers(_)),
        "\"java-host\" holds {job}, but a forced unlock that expects another owner returned \
         {answer:?}"
    );
    let mut right = ForceUnlockRequest::new(job.clone());
    // Some stores have no field for the host, so it cannot be expected there.
    if record(&provider, &job).await?.owner.is_some() {
        right = right.with_expected_owner("java-host");
    }
    let _ = freed(&provider, &right).await?;
    is_free(&provider, &job).await?;
    abandon(&provider, &context.request(&job)).await
}

/// A holder that was forced out cannot come back by an extension or an unlock, before or after
/// another owner acquires the lock.
pub async fn a_forced_out_holder_cannot_come_back(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let request = context
        .request(&job)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&first, &request).await?;
    let _ = freed(&second, &ForceUnlockRequest::new(job.clone())).await?;
    extend_is_lost(&first, &lease, context.timing().long()).await?;
    // The result of its unlock ("lost" or "unlocked") is unspecified, but the lock must stay free.
    unlock_stale(&first, &lease, &UnlockRequest::new()).await?;
    is_free(&first, &job).await?;
    let next = acquire(&second, &context.request(&job)).await?;
    extend_is_lost(&first, &lease, context.timing().long()).await?;
    unlock_is_lost(&first, &lease).await?;
    still_holds(&second, &next).await?;
    unlock(&second, &next).await
}

async fn freed(provider: &Provider, request: &ForceUnlockRequest) -> Result<LockRecord, Stop> {
    match admin::force_unlock(&**provider, request).await? {
        ForcedUnlock::Freed(before) => Ok(before),
        answer => Err(Stop::failed(format!(
            "a forced unlock of {} should free it, but returned {answer:?}",
            &request.name
        ))),
    }
}

async fn pages(
    provider: &Provider,
    first: ListRequest,
    size: usize,
) -> Result<Vec<LockRecord>, Stop> {
    let mut all: Vec<LockRecord> = Vec::new();
    let mut request = first;
    loop {
        let page = provider.list(&request).await?;
        ensure!(
            page.len() <= size,
            "a page of {size} records was requested, but {} were returned",
            page.len()
        );
        let Some(last) = page.last() else {
            return Ok(all);
        };
        request = ListRequest::new()
            .with_limit(size)
            .with_after(last.name.clone());
        all.extend(page);
        ensure!(all.len() < 10_000, "paging never ends");
    }
}
