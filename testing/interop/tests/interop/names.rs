//! Names at their limits.

use anyhow::{Context as _, ensure};
use shedlock::ErrorKind;
use shedlock_interop::{Fleet, Provider};

use crate::LONG;
use crate::holding::{exclude_from_java, exclude_from_rust};
use crate::times::is_invalid;

pub(crate) async fn longest(fleet: &Fleet) -> anyhow::Result<bool> {
    let of_java = format!("{:x<64}", "java-");
    let of_rust = format!("{:x<64}", "rust-");
    Ok(exclude_from_java(&of_java, fleet).await? && exclude_from_rust(&of_rust, fleet).await?)
}

/// Refused by both sides, or a lock for both.
pub(crate) async fn too_long(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = format!("{:x<65}", "too-long-");
    let ours = match fleet.lock(&name, LONG).await {
        Ok(lease) => Some(lease.context("the lock should be free: no one else uses this name")?),
        Err(error) if is_invalid(&error) => None,
        Err(error) => return Err(error),
    };
    let theirs = fleet.java.lock(&name, LONG).await;
    match (ours, theirs) {
        (None, Err(_)) => Ok(true),
        (None, Ok(_)) => Ok(false),
        (Some(_), Ok(theirs)) => Ok(theirs.is_none()),
        (Some(_), Err(error)) => Err(error),
    }
}

/// Unusual characters that users put into names.
pub(crate) async fn odd(fleet: &Fleet) -> anyhow::Result<bool> {
    let odd = |side: &str| format!("{side}: été/漢字 100% {{a}} 'b' \"c\" `d`; --\\ e");
    Ok(exclude_from_java(&odd("java"), fleet).await?
        && exclude_from_rust(&odd("rust"), fleet).await?)
}

/// Two names that differ only in case.
pub(crate) async fn case(fleet: &Fleet) -> anyhow::Result<bool> {
    are_two(
        fleet,
        Place::OfJava,
        ["case-a", "CASE-A", "CASE-B", "case-b"],
    )
    .await
}

/// As above, in a place that our provider created.
pub(crate) async fn case_in_ours(fleet: &Fleet) -> anyhow::Result<bool> {
    are_two(
        fleet,
        Place::OfOurs,
        ["case-a", "CASE-A", "CASE-B", "case-b"],
    )
    .await
}

/// Two names that differ only in a trailing blank.
pub(crate) async fn blank(fleet: &Fleet) -> anyhow::Result<bool> {
    are_two(
        fleet,
        Place::OfJava,
        ["blank-a", "blank-a ", "blank-b ", "blank-b"],
    )
    .await
}

enum Place {
    OfJava,
    OfOurs,
}

/// Whether the first two names are two locks, the first acquired by ShedLock and the second by us,
/// and likewise the last two with the sides swapped. If they are not, our provider has to report
/// it.
async fn are_two(fleet: &Fleet, place: Place, names: [&str; 4]) -> anyhow::Result<bool> {
    let [theirs_first, ours_second, ours_first, theirs_second] = names;
    let (ours, theirs) = match place {
        Place::OfJava => (&fleet.rust, Provider::default()),
        Place::OfOurs => {
            let place = fleet.ours_first().await?;
            (&place.ours, place.theirs)
        }
    };
    let first = fleet.java.lock_at(theirs, theirs_first, LONG).await?;
    first.context("the lock should be free: no one else uses this name")?;
    match fleet.attempt_at(ours, ours_second, LONG).await {
        Ok(attempt) => {
            ensure!(
                attempt.acquired().is_some(),
                "ours was skipped without an error because of another name's lock"
            );
        }
        Err(error) => {
            let told = error.downcast_ref::<shedlock::Error>();
            ensure!(
                told.is_some_and(|told| told.kind() == ErrorKind::Conflict),
                "the error does not mention the clash: {error:#}"
            );
            return Ok(false);
        }
    }
    let first = fleet.attempt_at(ours, ours_first, LONG).await?.acquired();
    let _held = first.context("the lock should be free: no one else uses this name")?;
    let second = fleet.java.lock_at(theirs, theirs_second, LONG).await?;
    Ok(second.is_some())
}
