//! One line, at the end of a plain `cargo test`, about what it has left out.

use shedlock_rig::engine::{Kind, Role};
use shedlock_rig::given;

fn main() {
    let servers = Kind::ALL.into_iter();
    let servers = servers.filter(|kind| kind.role() == Role::Main && given::is_absent(kind.word()));
    let servers: Vec<_> = servers.map(Kind::name).collect();
    given::needs(&format!(
        "LEFT OUT: etcd's client, real ShedLock, a browser, Prometheus, systemd, {}",
        servers.join(", ")
    ));
}
