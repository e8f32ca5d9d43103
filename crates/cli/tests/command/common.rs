//! A sandbox for each test, and helpers to observe its processes.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its part of it"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
pub(crate) use shedlock_rig::all_gone;
pub(crate) use shedlock_rig::process::handles;
use shedlock_rig::wait::{PATIENCE, until};
pub(crate) use shedlock_rig::wait::{eventually, pause};
use sqlx::Connection;
use tempfile::TempDir;

/// A port that refuses connections, and that no other process gets while its socket lives.
pub(crate) fn closed_port() -> (OwnedFd, SocketAddrV4) {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let here = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, here)
}

/// A page of the documentation.
pub(crate) fn page(name: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name),
    )
    .unwrap()
}

/// The blocks of code in a page, or in a part of one, that are marked with this language.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = text.split(&*begin).skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// A `PATH` with the folder of `shedlock`, and these behind it.
pub(crate) fn path_before(others: &OsStr) -> OsString {
    let shedlock = Path::new(env!("CARGO_BIN_EXE_shedlock"));
    let mut path = shedlock.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(others);
    path
}

/// A folder for one test: home, state and store of the commands that it starts.
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    /// The same, with an empty store.
    pub(crate) fn migrated() -> Self {
        let sandbox = Self::new();
        assert_eq!(
            done(&mut sandbox.shedlock(&["migrate", "--no-journal"])).code,
            0
        );
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The contents of this file. Empty if it does not exist.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// An executable file with this text.
    ///
    /// Another process writes it: while this one had it open for writing, a test beside it could
    /// start a program, which would inherit the open file and keep it from being run ("text file
    /// busy").
    pub(crate) fn script(&self, name: &str, text: &str) {
        let write = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", write, "sh"]).arg(self.path(name));
        assert!(shell.arg(text).status().unwrap().success());
    }

    /// The numbers in this file.
    pub(crate) fn pids(&self, name: &str) -> Vec<u32> {
        let text = self.read(name);
        text.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    pub(crate) fn store(&self) -> String {
        format!("sqlite:{}", self.path("locks.db").display())
    }

    /// `shedlock` with this sandbox's store and no outside environment.
    pub(crate) fn shedlock(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        command.env("SHEDLOCK_STORE", self.store());
        command
    }

    /// The same without a store.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            // Another one gives `run --schedule` a warning.
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `shedlock run` of this script under this lock.
    pub(crate) fn run(&self, name: &str, at_most: &str, script: &str) -> Command {
        self.run_with(name, at_most, &[], script)
    }

    /// The same with more options.
    pub(crate) fn run_with(
        &self,
        name: &str,
        at_most: &str,
        options: &[&str],
        script: &str,
    ) -> Command {
        let mut command = self.shedlock(&["run", "--name", name, "--lock-at-most-for", at_most]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// The lock as `show --output json` prints it.
    pub(crate) fn lock(&self, name: &str) -> Value {
        self.lock_in(&self.store(), name)
    }

    /// The same for a lock in another store.
    pub(crate) fn lock_in(&self, store: &str, name: &str) -> Value {
        let shown = done(&mut self.bare(&["show", name, "-o", "json", "--store", store]));
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        json["lock"].clone()
    }

    /// When the lease of this lock ends in the store.
    pub(crate) fn locked_until(&self, name: &str) -> SystemTime {
        self.locked_until_in(&self.store(), name)
    }

    /// The same in another store.
    pub(crate) fn locked_until_in(&self, store: &str, name: &str) -> SystemTime {
        let lock = self.lock_in(store, name);
        let until: jiff::Timestamp = lock["locked_until"].as_str().unwrap().parse().unwrap();
        until.into()
    }

    /// Waits until this file has this many lines.
    pub(crate) fn await_lines(&self, name: &str, lines: usize) {
        eventually(&format!("{lines} lines in {name}"), || {
            self.read(name).lines().count() >= lines
        });
    }
}

/// Executes a statement in the sandbox's store.
pub(crate) fn sql(sandbox: &Sandbox, statement: &'static str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = sandbox.store();
        let mut connection = sqlx::SqliteConnection::connect(&store).await.unwrap();
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .unwrap();
    });
}

/// A connection from this address of this host.
pub(crate) fn connect_from(from: Ipv4Addr, port: u16) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    TcpStream::from(socket)
}

/// Opens so many connections from this address, and checks that this many of them are kept.
pub(crate) fn keeps_of(connections: usize, from: Ipv4Addr, port: u16, kept: usize) {
    let opened: Vec<_> = (0..connections).map(|_| connect_from(from, port)).collect();
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let nothing = stream.read(&mut [0]);
        nothing.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let open = || opened.iter().filter(|it| is_open(it)).count();
    eventually("the others are refused", || open() <= kept);
    pause(Duration::from_millis(500));
    assert_eq!(open(), kept);
}

/// The only text column of the rows of a query on the sandbox's store.
pub(crate) fn query(sandbox: &Sandbox, statement: &'static str) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = sandbox.store();
        let mut connection = sqlx::SqliteConnection::connect(&store).await.unwrap();
        let query = sqlx::query_scalar::<_, Option<String>>(statement);
        let rows = query.fetch_all(&mut connection).await.unwrap();
        let rows = rows.into_iter().map(Option::unwrap_or_default);
        rows.collect::<Vec<_>>().join("\n")
    })
}

/// The keys of an object, in the order of the alphabet: a feature of `serde_json` that a dependency of
/// other tests enables decides about their own order.
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object.as_object().unwrap().keys().collect();
    keys.sort_unstable();
    keys.into_iter().map(String::as_str).collect()
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the command to its end.
pub(crate) fn done(command: &mut Command) -> Done {
    command.output().unwrap().into()
}

/// Waits for the end of a spawned command.
pub(crate) fn end(child: Child) -> Done {
    child.wait_with_output().unwrap().into()
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Reads the lines that this command prints on its standard error, up to the first one with these words.
pub(crate) fn await_said(command: &mut Child, words: &str) {
    let stderr = command.stderr.as_mut().unwrap();
    // Byte by byte, so that what follows is left to be read at its end.
    let (mut said, mut byte) = (Vec::new(), [0]);
    while byte != *b"\n" || !String::from_utf8_lossy(&said).contains(words) {
        let read = stderr.read_exact(&mut byte);
        assert!(read.is_ok(), "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
}

/// How long a command says that it has waited before it gave up.
pub(crate) fn gave_up_after(stderr: &str) -> Duration {
    let (_, waited) = stderr.split_once(": gave up after ").unwrap();
    let (waited, _) = waited.split_once(" (--lock-wait ").unwrap();
    let waited: jiff::SignedDuration = waited.parse().unwrap();
    waited.unsigned_abs()
}

/// Waits until none of these processes is left, and checks that none was at this time or later.
pub(crate) fn all_gone_before(end: SystemTime, pids: &[u32]) {
    let are_gone = until(PATIENCE, || {
        // A process that is seen has lived at least until now, however long it takes to look.
        let now = calendar();
        let are_gone = all_gone(pids);
        assert!(are_gone || now < end, "gone only after the lease");
        are_gone
    });
    assert!(are_gone, "never gone");
}

/// Whether a process with this number runs.
pub(crate) fn is_alive(pid: u32) -> bool {
    !all_gone(&[pid])
}

/// The parent of a running process.
pub(crate) fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Whether the parent of this process is a watchdog.
pub(crate) fn is_watched(pid: u32) -> bool {
    let parent = parent_of(pid);
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
    name == "lease-watchdog\n"
}

/// The watchdog of a job with these processes.
pub(crate) fn watchdog_of(pids: &[u32]) -> u32 {
    let child = pids.iter().find(|pid| is_watched(**pid)).unwrap();
    parent_of(*child)
}

/// Writes the numbers of three processes, one of them outside the group, and keeps running.
pub(crate) const FAMILY: &str = "sh -c 'echo $$ >> pids; exec sleep 60' & \
                                 setsid sh -c 'echo $$ >> pids; exec sleep 60' & \
                                 echo $$ >> pids; sleep 60; exit 0";

/// The wall clock, for comparison with a store's times.
#[expect(clippy::disallowed_methods, reason = "compared with a real store")]
pub(crate) fn calendar() -> SystemTime {
    SystemTime::now()
}

/// The clock that all processes of this machine share.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        now.tv_sec.try_into().unwrap(),
        now.tv_nsec.try_into().unwrap(),
    )
}
