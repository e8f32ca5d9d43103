//! An emulator of MongoDB, because no package registry has MongoDB itself: SecantusDB, from PyPI,
//! which implements its protocol over WiredTiger.

use super::SERVER;
use crate::engine::{Definition, Kind, Pip, Probe, Source, probe};

pub(super) const MONGODB: Kind = Kind(&Definition {
    word: "mongodb",
    title: "MongoDB",
    kit: ("shedlock-mongodb", "conformance"),
    source: Source::Pip(&EMULATOR),
    advice: Some(advice),
    find: || EMULATOR.find(),
    // Runs as a replica set of one node, which is its default.
    #[rustfmt::skip]
    command: &[
        "{program}", "-m", "secantus", "--host", "127.0.0.1", "--port", "{port}",
        "--storage-path", "{home}/data", "{settings}",
    ],
    variables: &[
        ("PYTHONPATH", "{packages}"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ],
    url: "mongodb://127.0.0.1:{port}/shedlock_test",
    port: 27017,
    probe: Probe::Tcp(|_| probe::mongodb::question(), probe::mongodb::version),
    shown: "secantusdb-0.7.0b3, an emulator of MongoDB {}",
    ..SERVER
});

/// The emulator and all its dependencies, each at a version that is known to work.
const EMULATOR: Pip = Pip {
    folder: "secantusdb-0.7.0b3",
    requirements: &[
        "SecantusDB==0.7.0b3",
        "dnspython==2.9.2",
        "future==1.0.0",
        "numpy==2.4.6",
        "pymongo==4.20.0",
        "python-dateutil==4.0.0",
        "s2sphere==0.2.5",
        "shapely==2.2.0",
        "tzdata==2026.6",
    ],
};

fn advice(variable: &str) -> String {
    format!(
        "no package registry has MongoDB; for root on Debian, an emulator is installed automatically \
         (`pip install --no-deps {}`); elsewhere, run `{}` and set {variable} as that file says",
        EMULATOR.requirements.join(" "),
        MONGODB.compose()
    )
}
