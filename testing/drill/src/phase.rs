//! What happens to a platform.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use shedlock_rig::wait::{eventually, pause};
use shedlock_rig::{PostgresServer, Running};

use crate::databases::Databases;
use crate::world::World;

/// One event after the other, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Nothing happens.
    Quiet,
    /// The primary ends, and its standby is promoted.
    Switchover,
    /// The primary dies, and its standby, which lacks the last minute, is promoted.
    Failover,
    /// Commits wait for a standby that is away.
    StandbyAway,
    /// The jobs' user may no longer update the lock table.
    Privileges,
    /// `ALTER TABLE` waits behind a reader, and everything else behind it.
    AlterTable,
    /// The database is replaced by a backup of itself.
    Restore,
    /// A job gets another name in all crontabs.
    Rename,
}

/// What must be so in a phase. Whatever else happens is a fault.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Why slots may be without a run.
    pub(crate) misses: Option<&'static str>,
    /// Each alert that must be raised, with its jobs; one that is about no job has none.
    pub(crate) alerts: &'static [(&'static str, &'static [&'static str])],
    /// The checks of `doctor` that must warn. No other may be an error.
    pub(crate) doctor: &'static [&'static str],
}

const BOTH: &[&str] = &["mail", "report"];

impl Phase {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Quiet => "nothing happens",
            Self::Switchover => "switchover",
            Self::Failover => "failover with loss",
            Self::StandbyAway => "standby away, commits wait",
            Self::Privileges => "`UPDATE` revoked",
            Self::AlterTable => "`ALTER TABLE` behind a reader",
            Self::Restore => "backup restored",
            Self::Rename => "`mail` renamed to `post`",
        }
    }

    pub(crate) const fn expected(self) -> Expected {
        let nothing = Expected {
            misses: None,
            alerts: &[],
            doctor: &[],
        };
        match self {
            Self::Quiet => nothing,
            Self::Switchover | Self::Failover => Expected {
                doctor: &["promotion"],
                ..nothing
            },
            Self::StandbyAway => Expected {
                misses: Some("no commit is confirmed"),
                alerts: &[("ShedlockJobOverdue", BOTH)],
                doctor: &["commits"],
            },
            Self::Privileges => Expected {
                misses: Some("no lock can be taken"),
                alerts: &[("ShedlockJobOverdue", BOTH)],
                doctor: &["privileges"],
            },
            Self::AlterTable => Expected {
                misses: Some("no statement passes"),
                alerts: &[("ShedlockStoreDown", &[])],
                doctor: &["reachable"],
            },
            Self::Restore => Expected {
                misses: Some("paused"),
                doctor: &["paused"],
                ..nothing
            },
            Self::Rename => Expected {
                alerts: &[("ShedlockJobOverdue", &["mail"])],
                ..nothing
            },
        }
    }

    /// Lets it happen, and returns when its cause is gone.
    pub(crate) fn happen(self, world: &mut World) -> anyhow::Result<()> {
        match self {
            Self::Quiet => world.minutes(3),
            Self::Switchover => switchover(world),
            Self::Failover => failover(world),
            Self::StandbyAway => standby_away(world),
            Self::Privileges => privileges(world),
            Self::AlterTable => alter_table(world),
            Self::Restore => restore(world),
            Self::Rename => rename(world),
        }
    }
}

fn switchover(world: &mut World) -> anyhow::Result<()> {
    world.databases.primary().end()?;
    promote(world)
}

fn failover(world: &mut World) -> anyhow::Result<()> {
    Databases::alter(world.databases.standby(), "SET primary_conninfo = ''")?;
    world.minutes(1)?;
    world.databases.primary().stop()?;
    promote(world)
}

/// The primary has ended: its standby takes over, and is followed by it later.
fn promote(world: &mut World) -> anyhow::Result<()> {
    world.databases.promote()?;
    world.is_over();
    world.minutes(2)?;
    world.ask_doctor()?;
    world.databases.follow()
}

fn standby_away(world: &mut World) -> anyhow::Result<()> {
    Databases::alter(
        world.databases.primary(),
        "SET synchronous_standby_names = '*'",
    )?;
    world.databases.standby().end()?;
    world.minutes(5)?;
    world.ask_doctor()?;
    world.databases.standby().start_again()?;
    world.is_over();
    world.minutes(1)?;
    Databases::alter(world.databases.primary(), "RESET synchronous_standby_names")
}

fn privileges(world: &mut World) -> anyhow::Result<()> {
    world.databases.sql("REVOKE UPDATE ON shedlock FROM app")?;
    world.minutes(5)?;
    world.ask_doctor()?;
    world.databases.sql("GRANT UPDATE ON shedlock TO app")?;
    world.is_over();
    Ok(())
}

fn alter_table(world: &mut World) -> anyhow::Result<()> {
    let session = |statements: &str| -> anyhow::Result<Running> {
        let mut psql = Command::new(PostgresServer::programs()?.join("psql"));
        psql.args(["-Xq", "-c", statements, world.databases.primary().url()]);
        Running::start(
            psql.stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
    };
    let _reader = session("BEGIN; SELECT count(*) FROM shedlock; SELECT pg_sleep(3600)")?;
    pause(Duration::from_secs(1));
    let mut change = session("ALTER TABLE shedlock ADD COLUMN note text")?;
    world.minutes(4)?;
    world.ask_doctor()?;
    world.databases.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)'",
    )?;
    eventually("the change of the table", || change.ended().is_some());
    world.is_over();
    Ok(())
}

fn restore(world: &mut World) -> anyhow::Result<()> {
    let backup = world.folder.path().join("backup");
    let backup = backup.display().to_string();
    world.program("pg_dump", &["--format=custom", "--file", &backup])?;
    world.minutes(2)?;
    // As docs/moving.md says: no host uses it before all jobs are paused.
    world.databases.close()?;
    world.program("pg_restore", &["--clean", &backup])?;
    let direct = world.databases.direct_store();
    world.shedlock_at(
        &direct,
        &["pause", "--all", "--reason", "a backup was restored"],
    )?;
    world.databases.open()?;
    world.minutes(1)?;
    world.shedlock(&["list"])?;
    world.ask_doctor()?;
    world.shedlock(&["resume", "--all"])?;
    world.is_over();
    Ok(())
}

fn rename(world: &mut World) -> anyhow::Result<()> {
    world.rename("mail", "post")?;
    world.minutes(5)?;
    world.ask_doctor()?;
    world.shedlock(&["jobs", "--forget", "mail", "--yes"])?;
    world.is_over();
    Ok(())
}
