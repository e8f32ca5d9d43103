//! The laws over a cluster of its own: three primaries and a replica.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::cluster::{OnCluster, Room};

fn main() -> ExitCode {
    // Its program is tested where that server is.
    common::server("SHEDLOCK_TEST_REDIS_URL");
    let harness = Arc::new(OnCluster::default());
    let code = shedlock_torture::main::<Room>([Arc::clone(&harness) as Arc<_>]);
    // Whoever else still has the harness does not keep the servers.
    if let Some(cluster) = harness.cluster.get() {
        for server in &cluster.servers {
            let _ = server.stop();
        }
    }
    code
}
