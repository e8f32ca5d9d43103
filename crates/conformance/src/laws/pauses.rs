//! An operator pauses a lock, and resumes it.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Error, ErrorKind, ForceUnlockRequest, ForcedUnlock, Level, LockRecord, LockState, Pause,
    PauseRequest, Paused, ResumeRequest, Resumed, SkipReason, admin,
};

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, extend_is_lost, is_free, not_earlier, record, skip_as, skipped_as,
    still_holds, take, unlock, unlock_is_lost,
};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("pauses" [Operators]:
    a_pause_holds_the_lock_and_shows_who_and_why [Smoke, Record],
    a_pause_needs_no_record,
    a_pause_that_is_refused_takes_no_lock,
    a_pause_leaves_a_running_task_alone,
    a_pause_can_take_the_lock_from_its_holder,
    at_least_survives_a_pause,
    a_pause_is_one_whatever_its_reason,
    a_forgotten_pause_is_found_by_a_diagnosis,
    a_pause_ends_by_itself [Time],
    a_pause_until_resumed_lasts_as_long_as_a_lease_can [Time],
    a_repeated_pause_is_the_same_pause,
    a_pause_replaces_another_pause,
    a_forced_unlock_refuses_a_pause,
    only_a_pause_can_be_resumed,
    a_pause_takes_a_lock_of_shedlock_only_if_asked_to [Record],
);

const SECOND: Duration = Duration::from_secs(1);

const REASON: &str = "the mail server is down";

pub(super) fn request(lock: &str) -> PauseRequest {
    PauseRequest::new(name(lock), "alice").with_reason(REASON)
}

pub(super) async fn paused(
    provider: &Provider,
    request: &PauseRequest,
) -> Result<Option<LockRecord>, Stop> {
    match admin::pause(&**provider, request).await? {
        Paused::Done { before, .. } => Ok(before),
        answer => Err(Stop::failed(format!(
            "{} should be paused, but the answer was {answer:?}",
            &request.name
        ))),
    }
}

pub(super) async fn resumed(
    provider: &Provider,
    request: &ResumeRequest,
) -> Result<LockRecord, Stop> {
    match admin::resume(&**provider, request).await? {
        Resumed::Resumed(before) => Ok(before),
        answer => Err(Stop::failed(format!(
            "{} should be resumed, but the answer was {answer:?}",
            &request.name
        ))),
    }
}

pub(super) async fn resume(provider: &Provider, lock: &str) -> Verdict {
    resumed(provider, &ResumeRequest::new(name(lock)))
        .await
        .map(drop)
}

fn shows_pause(owner: Option<&str>) -> Verdict {
    let pause = owner.and_then(Pause::parse);
    ensure!(
        pause.is_some_and(|it| it.by().starts_with("alice@") && it.reason() == REASON),
        "the owner should show who has paused the lock and why, but is {owner:?}"
    );
    Ok(())
}

/// A diagnosis reports that a lock is paused. A provider without checks has no findings at all.
pub async fn a_forgotten_pause_is_found_by_a_diagnosis(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    paused(&first, &request("job")).await?;
    let findings = second.diagnose().await?;
    let found = findings.iter().find(|finding| finding.check == "paused");
    ensure!(
        findings.is_empty() || found.is_some_and(|found| found.level == Level::Warning),
        "a lock is paused, but the findings are {findings:?}"
    );
    resume(&first, "job").await
}

/// No one can take a paused lock. The skip and the record show who has paused it and why.
pub async fn a_pause_holds_the_lock_and_shows_who_and_why(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let before = acquire(&first, &context.request(&job)).await?;
    unlock(&first, &before).await?;
    paused(&first, &request("job")).await?;
    for provider in [&first, &second] {
        let skip = skip_as(provider, &context.request(&job), SkipReason::Paused).await?;
        shows_pause(skip.owner.as_deref())?;
        let found = record(provider, &job).await?;
        ensure!(
            found.state == LockState::Paused && found.pause().is_some(),
            "the record should be paused: {found:?}"
        );
        ensure!(
            found.fencing_token.is_none() || found.fencing_token > before.fencing_token(),
            "a pause is an acquisition, so its token should be larger than {:?}: {found:?}",
            before.fencing_token()
        );
    }
    let before = resumed(&second, &ResumeRequest::new(job.clone())).await?;
    shows_pause(before.owner.as_deref())?;
    is_free(&first, &job).await?;
    abandon(&first, &context.request(&job)).await
}

/// No reason can make a pause look like a lock that was unlocked or freed.
pub async fn a_pause_is_one_whatever_its_reason(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let long = format!("{} unlocked", "x".repeat(300));
    for reason in [
        "until the database is unlocked",
        "freed",
        "paused: kept=7: unlocked",
        &long,
    ] {
        let request = PauseRequest::new(job.clone(), "alice").with_reason(reason);
        paused(&first, &request).await?;
        skipped_as(&second, &context.request(&job), SkipReason::Paused).await?;
        let force = ForceUnlockRequest::new(job.clone());
        let answer = admin::force_unlock(&*second, &force).await?;
        ensure!(
            matches!(answer, ForcedUnlock::Paused(_)),
            "the lock is paused for {reason:?}, but a forced unlock returned {answer:?}"
        );
        resume(&second, "job").await?;
        is_free(&first, &job).await?;
    }
    Ok(())
}

/// A lock that was never taken can be paused.
pub async fn a_pause_needs_no_record(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let before = paused(&first, &request("job")).await?;
    ensure!(before.is_none(), "there was no record: {before:?}");
    skipped_as(&second, &context.request(&name("job")), SkipReason::Paused).await?;
    resume(&second, "job").await?;
    abandon(&first, &context.request(&name("job"))).await
}

/// A pause without a length, or one that has ended already, leaves a name that was never used as it is.
pub async fn a_pause_that_is_refused_takes_no_lock(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    for request in [
        request("job").lasting(Duration::ZERO),
        request("job").until(SystemTime::UNIX_EPOCH),
    ] {
        let refused = admin::pause(&*provider, &request).await;
        let is_invalid = |error: &Error| error.kind() == ErrorKind::InvalidInput;
        ensure!(
            refused.as_ref().is_err_and(is_invalid),
            "{request:?} should be refused as InvalidInput, but the answer was {refused:?}"
        );
        let found = provider.inspect(&name("job")).await?;
        ensure!(
            found.is_none(),
            "a pause that was refused should leave no record: {found:?}"
        );
    }
    Ok(())
}

/// A pause does not touch a running task, and returns who holds the lock.
pub async fn a_pause_leaves_a_running_task_alone(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let lease = acquire(&first, &context.request(&name("job"))).await?;
    let answer = admin::pause(&*second, &request("job")).await?;
    ensure!(
        matches!(&answer, Paused::Held(found) if found.owner.as_deref() == Some(lease.owner().as_str())),
        "{} holds the lock, but a pause returned {answer:?}",
        lease.owner()
    );
    still_holds(&first, &lease).await?;
    unlock(&first, &lease).await
}

/// A pause that replaces the holder ends its lease: its extension and its unlock are lost.
pub async fn a_pause_can_take_the_lock_from_its_holder(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    let before = paused(&second, &request("job").replacing_holder()).await?;
    ensure!(
        before
            .as_ref()
            .is_some_and(|it| it.owner.as_deref() == Some(lease.owner().as_str())),
        "{} held the lock, but the pause returned {before:?}",
        lease.owner()
    );
    extend_is_lost(&first, &lease, context.timing().long()).await?;
    unlock_is_lost(&first, &lease).await?;
    skipped_as(&first, &context.request(&job), SkipReason::Paused).await?;
    resume(&second, "job").await?;
    abandon(&first, &context.request(&job)).await
}

/// A lock that only `lock_at_least_for` keeps is paused at once. It stays taken until that end if it is resumed earlier,
/// also if another operator has paused it again meanwhile, and no pause ends before it.
pub async fn at_least_survives_a_pause(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let long = context.timing().long();
    let kept = context.request(&job).with_lock_at_least_for(long);
    let lease = acquire(&first, &kept).await?;
    unlock(&first, &lease).await?;
    let before = record(&first, &job).await?;
    let Some(end) = before.locked_until else {
        return Err(Stop::not_applicable(
            "the records in this store do not contain the end of a lock",
        ));
    };
    paused(&second, &request("job")).await?;
    skipped_as(&first, &context.request(&job), SkipReason::Paused).await?;
    let short = context.timing().short();
    paused(
        &first,
        &PauseRequest::new(name("job"), "bob").lasting(short),
    )
    .await?;
    let found = record(&first, &job).await?;
    ensure!(
        found.state == LockState::Paused && found.locked_until >= Some(end),
        "at-least keeps the lock until {end:?}, so no pause ends before it: {found:?}"
    );
    resume(&second, "job").await?;
    let found = record(&first, &job).await?;
    let latest = end + context.capabilities().granularity + SECOND;
    ensure!(
        found.state == LockState::AtLeast
            && found.locked_until >= Some(end)
            && found.locked_until <= Some(latest),
        "at-least keeps the lock until {end:?}, also after a pause was resumed: {found:?}"
    );
    skipped_as(&first, &context.request(&job), SkipReason::AtLeast).await
}

/// A pause with an end is over then, although no one resumes the lock.
pub async fn a_pause_ends_by_itself(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    // Taken before the pause, so the pause ends at least this long after it.
    let before = take(&first, &context.request(&job)).await?;
    let pause = request("job").replacing_holder().lasting(short);
    paused(&first, &pause).await?;
    let next = context
        .take_when_free(&second, &job, context.timing().long())
        .await?;
    not_earlier(&before, short, &next)?;
    unlock(&second, &next.lease).await
}

/// Without an end, a pause lasts a hundred years, or as long as the longest lease that is declared.
pub async fn a_pause_until_resumed_lasts_as_long_as_a_lease_can(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let until = match admin::pause(&*provider, &request("job")).await? {
        Paused::Done { until, .. } => until,
        answer => return Err(Stop::failed(format!("not paused: {answer:?}"))),
    };
    let found = record(&provider, &job).await?;
    let (Some(ends), Some(read_at)) = (found.locked_until, found.read_at) else {
        return resume(&provider, "job").await;
    };
    let longest = context.capabilities().longest_lock_at_most_for;
    let most = read_at + longest.min(Duration::from_secs(100 * 366 * 86_400));
    let minute = Duration::from_secs(60);
    let near = |one: SystemTime, other: SystemTime| {
        let (early, late) = (one.min(other), one.max(other));
        late.duration_since(early).unwrap_or_default() < minute
    };
    ensure!(
        near(ends, until) && near(ends, most),
        "the pause was answered to end at {until:?}; it should end at about {most:?}: {found:?}"
    );
    resume(&provider, "job").await
}

/// A pause whose reply was lost is repeated, and is then the same pause, not a second one.
pub async fn a_repeated_pause_is_the_same_pause(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let request = request("job");
    paused(&first, &request).await?;
    let once = record(&first, &job).await?;
    paused(&second, &request).await?;
    let twice = record(&first, &job).await?;
    ensure!(
        once.fencing_token == twice.fencing_token && once.locked_until == twice.locked_until,
        "the repeated pause changed {once:?} to {twice:?}"
    );
    resume(&second, "job").await
}

/// A second operator can replace a pause, for example to give it an end.
pub async fn a_pause_replaces_another_pause(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    paused(&first, &request("job")).await?;
    let long = context.timing().long();
    let other = PauseRequest::new(name("job"), "bob").lasting(long);
    let before = paused(&second, &other).await?;
    shows_pause(before.as_ref().and_then(|record| record.owner.as_deref()))?;
    let found = record(&first, &name("job")).await?;
    ensure!(
        found
            .pause()
            .is_some_and(|pause| pause.by().starts_with("bob@")),
        "bob has paused the lock: {found:?}"
    );
    resume(&first, "job").await
}

/// A forced unlock is for holders that hang. It refuses a pause, which has a command of its own.
pub async fn a_forced_unlock_refuses_a_pause(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    paused(&first, &request("job")).await?;
    let answer = admin::force_unlock(&*second, &ForceUnlockRequest::new(job.clone())).await?;
    ensure!(
        matches!(answer, ForcedUnlock::Paused(_)),
        "the lock is paused, but a forced unlock returned {answer:?}"
    );
    skipped_as(&second, &context.request(&job), SkipReason::Paused).await?;
    resume(&first, "job").await
}

/// A lock that is free, held or unknown cannot be resumed, and stays as it is.
pub async fn only_a_pause_can_be_resumed(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let resume = ResumeRequest::new(job.clone());
    let refused = |answer: Resumed| {
        ensure!(
            matches!(answer, Resumed::NotPaused(_)),
            "the lock is not paused, but the answer was {answer:?}"
        );
        Ok::<_, Stop>(())
    };
    refused(admin::resume(&*second, &resume).await?)?;
    let lease = acquire(&first, &context.request(&job)).await?;
    refused(admin::resume(&*second, &resume).await?)?;
    still_holds(&first, &lease).await?;
    unlock(&first, &lease).await?;
    refused(admin::resume(&*second, &resume).await?)
}

/// A lock that ShedLock holds is paused only by a request that replaces the holder.
pub async fn a_pause_takes_a_lock_of_shedlock_only_if_asked_to(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    context.hold_as_shedlock(&provider, &job).await?;
    let answer = admin::pause(&*provider, &request("job")).await?;
    ensure!(
        matches!(answer, Paused::Held(_)),
        "ShedLock holds the lock, but a pause returned {answer:?}"
    );
    paused(&provider, &request("job").replacing_holder()).await?;
    skipped_as(&provider, &context.request(&job), SkipReason::Paused).await?;
    resume(&provider, "job").await?;
    abandon(&provider, &context.request(&job)).await
}
