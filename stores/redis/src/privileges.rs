//! What this user may do, for a diagnosis.

use std::slice;

use redis::FromRedisValue as _;
use shedlock_core::{Finding, LockName};
use shedlock_provider::Result;
use shedlock_support::text::listed;

use crate::codec::malformed;
use crate::explain::GRANT;
use crate::scripts;
use crate::store::RedisStore;

/// What the scripts of locks run on their keys.
const OF_LOCKS: [&str; 6] = ["get", "set", "del", "append", "pttl", "pexpireat"];

/// What the scripts of a journal run on its keys.
pub(crate) const OF_JOURNALS: [&str; 11] = [
    "get",
    "set",
    "hget",
    "hset",
    "hsetnx",
    "hdel",
    "zadd",
    "zrem",
    "zlexcount",
    "zrangebylex",
    "zrevrangebylex",
];

impl RedisStore {
    /// What this user may do with locks.
    pub(crate) async fn privileges(&self) -> Result<Finding> {
        const CHECK: &str = "privileges";
        // Scripts run only with access to both keys.
        let key = self.keys.of(&LockName::new("check")?).lock;
        let mut forbidden = self.forbidden(&key, &OF_LOCKS).await?;
        let wait = self.confirmation.map(|_| "wait");
        forbidden.extend(self.forbidden(&key, wait.as_slice()).await?);
        if forbidden.is_empty() {
            return Ok(Finding::ok(CHECK, "this user may read and write locks"));
        }
        let commands = listed(&forbidden, "and");
        let message = format!("this user may not run {commands} on the keys of locks");
        Ok(Finding::error(CHECK, message, GRANT))
    }

    /// Those of these commands that this user may not run on this key.
    pub(crate) async fn forbidden(&self, key: &str, commands: &[&str]) -> Result<Vec<String>> {
        let arguments = [slice::from_ref(&key), commands].concat();
        let script = &scripts::FORBIDDEN;
        let answer = script.run_on(&self.connections, &[], &arguments).await?;
        Vec::from_redis_value(answer).map_err(|error| malformed().with_source(error))
    }
}
