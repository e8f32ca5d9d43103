//! The laws over a cluster started for this test: three primaries and a replica.

mod common;
mod kit;

use std::process::ExitCode;
use std::sync::Arc;

use kit::cluster::{OnCluster, Room};

fn main() -> ExitCode {
    // The cluster uses that server's program, so this test runs only if the server is available.
    common::server("redis");
    let harness = Arc::new(OnCluster::default());
    let code = shedlock_torture::main::<Room>([Arc::clone(&harness) as Arc<_>]);
    // The servers stop even if another reference to the harness remains.
    if let Some(cluster) = harness.cluster.get() {
        for server in &cluster.servers {
            server.stop();
        }
    }
    code
}
