//! A lock's own key, as ShedLock writes and reads it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::ConnectionLike;
use redis::cmd;
use shedlock_conformance::{BoxError, JavaRecord};
use shedlock_core::{Clock as _, SystemClock};

pub(crate) async fn write(
    admin: &mut impl ConnectionLike,
    key: &str,
    record: &JavaRecord,
) -> Result<(), BoxError> {
    if record.lock_until <= SystemClock.system_time() {
        let _: u64 = cmd("DEL").arg(key).query_async(admin).await?;
        return Ok(());
    }
    let at = jiff::Timestamp::try_from(record.locked_at)?;
    let host = &record.locked_by;
    let value = format!("ADDED:{at:.3}@{host}:3f2b8f0e-6f5d-4c0b-9d43-5a1f3a1c7e55");
    let until = record.lock_until.duration_since(UNIX_EPOCH)?;
    let mut set = cmd("SET");
    set.arg(key).arg(value).arg("PXAT");
    set.arg(u64::try_from(until.as_millis())?);
    let () = set.query_async(admin).await?;
    Ok(())
}

pub(crate) async fn read(
    admin: &mut impl ConnectionLike,
    key: &str,
) -> Result<Option<JavaRecord>, BoxError> {
    let found: Option<String> = cmd("GET").arg(key).query_async(admin).await?;
    let Some(value) = found else {
        return Ok(None);
    };
    let ends: i64 = cmd("PEXPIRETIME").arg(key).query_async(admin).await?;
    let ends = u64::try_from(ends)?;
    let added = value
        .strip_prefix("ADDED:")
        .ok_or("not a value of ShedLock's")?;
    let (at, owner) = added.split_once('@').ok_or("not a value of ShedLock's")?;
    if at.len() != "2026-01-01T00:00:00.000Z".len() {
        return Err(format!("{at} is not how ShedLock writes instants").into());
    }
    let ours = owner.matches('/').count() >= 2;
    let host = owner
        .rsplit_once(':')
        .filter(|_| !ours)
        .map(|(host, _)| host);
    Ok(Some(JavaRecord {
        locked_by: host.unwrap_or(owner).to_owned(),
        locked_at: SystemTime::from(at.parse::<jiff::Timestamp>()?),
        lock_until: UNIX_EPOCH + Duration::from_millis(ends),
    }))
}
