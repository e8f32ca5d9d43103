//! Tests beyond the laws, over PostgreSQL: ShedLock's tables and statements, unusual
//! configurations, server failures.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "postgres/bouncer.rs"]
mod bouncer;
mod common;
#[path = "postgres/crashes.rs"]
mod crashes;
#[path = "postgres/diesel.rs"]
mod diesel;
#[path = "common/diesel.rs"]
mod diesel_pools;
#[path = "postgres/duties.rs"]
mod duties;
#[path = "postgres/failover.rs"]
mod failover;
#[path = "postgres/failures.rs"]
mod failures;
#[path = "postgres/hidden.rs"]
mod hidden;
#[path = "postgres/java.rs"]
mod java;
#[path = "postgres/journal.rs"]
mod journal;
#[path = "postgres/late.rs"]
mod late;
#[path = "postgres/others.rs"]
mod others;
#[path = "postgres/pools.rs"]
mod pools;
#[path = "postgres/room.rs"]
mod room;
#[path = "postgres/schema.rs"]
mod schema;
#[path = "postgres/sessions.rs"]
mod sessions;
#[path = "postgres/silence.rs"]
mod silence;
#[path = "common/sources.rs"]
mod sources;
#[path = "postgres/standby.rs"]
mod standby;
#[path = "postgres/tables.rs"]
mod tables;
#[path = "postgres/tls.rs"]
mod tls;
