//! A user with only the privileges that locks need.

use redis::{Client, cmd};

use super::connection;

/// The line from the crate's README.
const RIGHTS: &str = "~job-lock:* ~shedlock-rs:* +evalsha +eval +time +get +set +del \
                      +append +pttl +pexpireat +scan +ping +info";

/// What the journal needs in addition: the line from the crate's README.
pub(crate) const JOURNAL: &str = "+hget +hset +hsetnx +hdel +zadd +zrem +zlexcount +zrangebylex \
                                  +zrevrangebylex";

/// Creates the user `locks` with the password `pw`.
pub(crate) async fn allow(client: &Client, more: &str) {
    let mut admin = connection(client).await.unwrap();
    let mut user = cmd("ACL");
    user.arg(&["SETUSER", "locks", "on", ">pw"]);
    user.arg(RIGHTS.split_whitespace().collect::<Vec<_>>());
    user.arg(more.split_whitespace().collect::<Vec<_>>());
    let () = user.query_async(&mut admin).await.unwrap();
}
