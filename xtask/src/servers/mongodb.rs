//! An emulator of MongoDB, because no package registry has MongoDB itself: SecantusDB, from PyPI,
//! which implements its protocol over WiredTiger.

use super::instance::{Server, boxed};
use super::kind::{Definition, Kind, Role, Source};
use super::probe::connect;
use super::profile::Profile;
use super::run_dir::{Ending, RunDir};
use crate::host::{self, Account};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to obtain, find and probe it.
pub(super) const KIND: Kind = Kind(&Definition {
    word: "mongodb",
    title: "MongoDB",
    role: Role::Main,
    kit: ("shedlock-mongodb", "conformance"),
    source: Source::Made(&["python3", "python3-pip"], install),
    advice: Some(what_to_do),
    find: |profile| Ok(Mongodb::find(profile)?.map(boxed)),
    port: 27017,
    version_at: |at| probe(at.host, at.port),
});

/// The emulator and all its dependencies, each at a version that is known to work.
const REQUIREMENTS: [&str; 9] = [
    "SecantusDB==0.7.0b3",
    "dnspython==2.9.2",
    "future==1.0.0",
    "numpy==2.4.6",
    "pymongo==4.20.0",
    "python-dateutil==4.0.0",
    "s2sphere==0.2.5",
    "shapely==2.2.0",
    "tzdata==2026.6",
];

/// Named after its contents.
const FOLDER: &str = "secantusdb-0.7.0b3";

/// The installed emulator.
pub(crate) struct Mongodb {
    python: PathBuf,
    packages: PathBuf,
    settings: Vec<String>,
}

impl Mongodb {
    /// The one that [`install`] created, if any.
    pub(crate) fn find(profile: &Profile) -> anyhow::Result<Option<Self>> {
        let packages = folder()?;
        let Some(python) = python().filter(|_| packages.is_dir()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            python,
            packages,
            settings: profile.extra_args.clone(),
        }))
    }
}

/// Installs it into a folder of ours.
fn install() -> anyhow::Result<()> {
    let python = python().context("python3 is not installed")?;
    let folder = folder()?;
    let part = folder.with_extension("part");
    // A killed run may have left a partial installation.
    let _ = fs::remove_dir_all(&part);
    eprintln!(
        "xtask: installing {} by pip into {}",
        REQUIREMENTS[0],
        folder.display()
    );
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&part)
        .args(REQUIREMENTS)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    host::output(&mut pip)?;
    fs::rename(&part, &folder).with_context(|| format!("{} could not be renamed", part.display()))
}

fn what_to_do(variable: &str) -> String {
    format!(
        "no package registry has MongoDB; for root on Debian, an emulator is installed \
         automatically (`pip install --no-deps {}`); elsewhere, run `{}` and set {variable} as \
         that file says",
        REQUIREMENTS.join(" "),
        KIND.compose()
    )
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(host::cache_dir()?.join(FOLDER))
}

/// The system's Python before another one of the user's: compiled packages fit one version of
/// Python.
fn python() -> Option<PathBuf> {
    let systems = PathBuf::from("/usr/bin/python3");
    host::is_program(&systems)
        .then_some(systems)
        .or_else(|| host::find_program("python3"))
}

impl Server for Mongodb {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    fn account(&self) -> Option<Account> {
        None
    }

    fn init(&self, _run: &RunDir, _home: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// Runs as a replica set of one node, which is its default.
    fn command(&self, home: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", "secantus", "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .arg("--storage-path")
            .arg(home.join("data"))
            .args(&self.settings)
            .env("PYTHONPATH", &self.packages)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn url(&self, port: u16) -> String {
        format!("mongodb://127.0.0.1:{port}/shedlock_test")
    }

    fn probe(&self, port: u16) -> anyhow::Result<String> {
        let posing = probe("127.0.0.1", port)?;
        Ok(format!("{FOLDER}, an emulator of MongoDB {posing}"))
    }

    fn ending(&self) -> Ending {
        Ending::Kill
    }

    fn shutdown(&self) -> Signal {
        Signal::TERM
    }
}

/// The version that the MongoDB at this address reports, even if it requires a password.
fn probe(host: &str, port: u16) -> anyhow::Result<String> {
    let mut stream = connect(host, port)?;
    stream
        .write_all(&question())
        .context("it closed the connection")?;
    version(&mut stream)
}

/// `{buildInfo: 1, $db: "admin"}` as one message.
fn question() -> Vec<u8> {
    let fields = [
        &b"\x10buildInfo\0\x01\0\0\0"[..],
        b"\x02$db\0\x06\0\0\0admin\0",
    ]
    .concat();
    let document = [&(fields.len() as u32 + 5).to_le_bytes()[..], &fields, &[0]].concat();
    // Flags, then a section of one document.
    let body = [&[0; 5][..], &document].concat();
    let head = [body.len() as u32 + 16, 1, 0, 2013].map(u32::to_le_bytes);
    [head.concat(), body].concat()
}

fn version(stream: &mut impl Read) -> anyhow::Result<String> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).context("no answer")?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let mut body = Vec::new();
    stream
        .take(u64::from(length).saturating_sub(16))
        .read_to_end(&mut body)
        .context("its answer is incomplete")?;
    let text = |key: &[u8]| {
        let at = body.windows(key.len()).position(|window| window == key)?;
        // A length follows the key.
        let value = body.get(at + key.len() + 4..)?;
        let end = value.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&value[..end]).into_owned())
    };
    if let Some(version) = text(b"\x02version\0") {
        return Ok(version);
    }
    bail!("it says: {}", text(b"\x02errmsg\0").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mongodb_is_asked_for_its_version() {
        let question = question();
        assert_eq!(question.len(), usize::from(question[0]));
        let answer = |document: &[u8]| {
            let length = u32::try_from(document.len() + 16).unwrap().to_le_bytes();
            let said = [&length[..], &[0; 12], document].concat();
            version(&mut &said[..])
        };
        let version = answer(b"\0\0\0\0\0\x02version\0\x06\0\0\x008.0.4\0");
        assert_eq!(version.unwrap(), "8.0.4");
        let refused = answer(b"\x02errmsg\0\x0f\0\0\0not authorized\0").unwrap_err();
        assert!(refused.to_string().contains("not authorized"), "{refused}");
    }
}
