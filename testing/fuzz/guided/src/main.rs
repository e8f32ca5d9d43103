//! The targets of fuzzing, driven by libFuzzer: the one that `SHEDLOCK_FUZZ_TARGET` names, as
//! `package/target`.
//!
//! One program for all of them, since each is linked with all clients of its crate.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

macro_rules! targets {
    ($($feature:literal $package:ident { $($target:ident),+ $(,)? })+) => {
        const TARGETS: &[(&str, fn(&[u8]))] = &[
            $($(
                #[cfg(feature = $feature)]
                (concat!($feature, "/", stringify!($target)), $package::fuzz::$target),
            )+)+
        ];
    };
}

targets! {
    "core" shedlock_core { duration, name, owner }
    "scheduler" shedlock_scheduler { cron, every }
    "cas" shedlock_store { record }
    "consul" shedlock_consul { url, pair }
    "etcd" shedlock_etcd { url, value, key }
    "mongodb" shedlock_mongodb { url, document }
    "nats" shedlock_nats { url, record, beside, name }
    "redis" shedlock_redis { url, value, answer, key }
    "sql" shedlock_sql {
        postgres_url, tokio_postgres_url, mysql_url, sqlite_url, identifier, session_zone, row, literal,
    }
    "zookeeper" shedlock_zookeeper { url, nodes, name }
}

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("SHEDLOCK_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| panic!("SHEDLOCK_FUZZ_TARGET is {wanted:?}, which was not built in"))
        .1
});

fuzz_target!(|data: &[u8]| TARGET(data));
