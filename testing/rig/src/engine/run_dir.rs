//! One run's temporary folder and the processes that live in it. Both are gone when the run is.
//!
//! Four events lead to the same cleanup: the value is dropped (also by a panic), a signal arrives
//! ([`sweep_own`]), this process is killed (a guard process sees its pipe close), or the whole
//! machine went down (the next run finds the entry in the cache folder).

use crate::host;
use crate::process::Process;
use crate::wait::until;
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The hidden word that makes this program the guard of another process's run.
pub const GUARD: &str = "guard";

/// The runs of this process. Code that starts a process in one holds this lock, so that a sweep
/// misses none. A final sweep keeps it.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How long a process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A temporary folder with the processes of one run.
pub struct RunDir {
    path: PathBuf,
    entry: PathBuf,
    guard: Child,
    _lock: File,
}

/// How a process is ended when its data is no longer needed.
#[derive(Clone, Copy)]
pub enum Ending {
    /// SIGQUIT: PostgreSQL then ends immediately, but releases its shared memory.
    Quit,
    /// SIGTERM, for servers that must end their own children.
    Terminate,
    /// SIGKILL, for servers that leave nothing behind outside their folder.
    Kill,
}

impl RunDir {
    /// Creates a new one, and cleans up what killed runs have left.
    pub fn create() -> anyhow::Result<Self> {
        sweep_leftovers()?;
        let path = tempfile::Builder::new()
            .prefix("shedlock-run-")
            // The servers' own users need access.
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .context("cannot create a temporary folder; set TMPDIR to a writable folder")?
            .keep();
        let (entry, lock) = match enlist(&path) {
            Ok(enlisted) => enlisted,
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                return Err(error);
            }
        };
        let guard = start_guard(&entry)?;
        own().push(entry.clone());
        Ok(Self {
            path,
            entry,
            guard,
            _lock: lock,
        })
    }

    /// The folder itself. Every user of the machine may read it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a process that ends no later than this run.
    ///
    /// It gets its own process group, so that a Ctrl-C does not reach it before us.
    pub fn spawn(
        &self,
        name: &str,
        ending: Ending,
        command: &mut Command,
    ) -> anyhow::Result<Child> {
        let _held = own();
        let mut child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("{command:?} could not be started"))?;
        let saved = match Process::find(child.id()) {
            Some(process) => process.save(&self.path.join(ending.file(name))),
            // It has already ended. Its owner will notice that.
            None => Ok(()),
        };
        if let Err(error) = saved {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(child)
    }

    /// Runs `command` to its end. Its output goes to `log` and, if it failed, into the error.
    pub fn complete(&self, name: &str, log: &Path, command: &mut Command) -> anyhow::Result<()> {
        let file =
            File::create(log).with_context(|| format!("{} could not be created", log.display()))?;
        let shown = format!("{command:?}");
        let mut child = self.spawn(
            name,
            Ending::Kill,
            command
                .stdin(Stdio::null())
                .stdout(file.try_clone().context("a log file could not be shared")?)
                .stderr(file),
        )?;
        let status = child
            .wait()
            .with_context(|| format!("{shown} could not be waited for"))?;
        self.forget(name, Ending::Kill);
        if !status.success() {
            let said = fs::read_to_string(log).unwrap_or_default();
            bail!(
                "{shown} ended with {status}: {}",
                host::last_lines(&said, 15)
            );
        }
        Ok(())
    }

    /// Removes a process that has been waited for from the list.
    pub fn forget(&self, name: &str, ending: Ending) {
        let _ = fs::remove_file(self.path.join(ending.file(name)));
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let mut own = own();
        sweep(&self.path);
        let _ = fs::remove_file(&self.entry);
        own.retain(|entry| *entry != self.entry);
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

impl Ending {
    const ALL: [Self; 3] = [Self::Quit, Self::Terminate, Self::Kill];

    fn suffix(self) -> &'static str {
        match self {
            Self::Quit => ".quit.pid",
            Self::Terminate => ".term.pid",
            Self::Kill => ".kill.pid",
        }
    }

    fn file(self, name: &str) -> String {
        format!("{name}{}", self.suffix())
    }

    fn of_file(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|ending| name.ends_with(ending.suffix()))
    }

    /// The signal for it.
    pub(crate) fn signal(self) -> Signal {
        match self {
            Self::Quit => Signal::QUIT,
            Self::Terminate => Signal::TERM,
            Self::Kill => Signal::KILL,
        }
    }
}

/// Ends and removes all runs of this process, and prevents it from starting anything more.
///
/// Called just before the process exits.
pub fn sweep_own() {
    let own = own();
    for entry in own.iter() {
        sweep_entry(entry);
    }
    #[expect(
        clippy::mem_forget,
        reason = "nothing may start any more, and the process exits"
    )]
    std::mem::forget(own);
}

/// Waits until standard input closes, which happens when the process that started us is gone. Then
/// cleans up what is left of its run.
pub fn guard(entry: &Path) {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    if let Ok(lock) = File::open(entry)
        && lock.lock().is_ok()
    {
        sweep_entry(entry);
    }
}

fn own() -> MutexGuard<'static, Vec<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn runs_dir() -> anyhow::Result<PathBuf> {
    let dir = host::cache_dir()?.join("runs");
    fs::create_dir_all(&dir).with_context(|| format!("{} could not be created", dir.display()))?;
    Ok(dir)
}

/// Records where the run is, locked for as long as this process lives.
fn enlist(path: &Path) -> anyhow::Result<(PathBuf, File)> {
    let runs = runs_dir()?;
    let name = path
        .file_name()
        .context("the temporary folder has no name")?;
    let entry = runs.join(name);
    let enlist = || -> io::Result<File> {
        let mut lock = File::create(&entry)?;
        lock.lock()?;
        lock.write_all(path.as_os_str().as_encoded_bytes())?;
        Ok(lock)
    };
    let lock = enlist().with_context(|| format!("{} could not be written", entry.display()))?;
    Ok((entry, lock))
}

fn start_guard(entry: &Path) -> anyhow::Result<Child> {
    let program = host::own_program().context("this program does not know its own path")?;
    Command::new(program)
        .args(["servers", GUARD])
        .arg(entry)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("the guard process could not be started")
}

fn sweep_leftovers() -> anyhow::Result<()> {
    let runs = runs_dir()?;
    let entries = fs::read_dir(&runs)
        .with_context(|| format!("{} could not be read", runs.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()));
    for entry in entries {
        // If the lock is held, its holder is alive. An empty entry is about to be written.
        let left =
            File::open(&entry).is_ok_and(|lock| lock.try_lock().is_ok() && sweep_entry(&entry));
        if left {
            eprintln!(
                "xtask: removed the leftovers of a killed run ({})",
                entry.display()
            );
        }
    }
    Ok(())
}

/// Sweeps the run that `entry` names; `false` if it names none.
fn sweep_entry(entry: &Path) -> bool {
    let mut text = String::new();
    let read = File::open(entry).and_then(|mut file| file.read_to_string(&mut text));
    if read.is_err() || text.is_empty() {
        return false;
    }
    sweep(Path::new(&text));
    let _ = fs::remove_file(entry);
    true
}

/// Ends all processes of the run in `path`, then removes its folder.
fn sweep(path: &Path) {
    let processes = saved_processes(path);
    for (process, ending) in &processes {
        process.signal_tree(ending.signal());
        // A stopped process reacts only to SIGKILL until it is continued.
        process.signal_tree(Signal::CONT);
    }
    for (process, _) in &processes {
        if !process.wait_ended(GRACE) {
            process.signal_tree(Signal::KILL);
            process.wait_ended(GRACE);
        }
    }
    // The last children of a server may still be writing.
    let gone = until(
        GRACE,
        || !matches!(fs::remove_dir_all(path), Err(error) if error.kind() != io::ErrorKind::NotFound),
    );
    if !gone {
        eprintln!(
            "xtask: {} could not be removed; please remove it",
            path.display()
        );
    }
}

fn saved_processes(path: &Path) -> Vec<(Process, Ending)> {
    let Ok(files) = fs::read_dir(path) else {
        return Vec::new();
    };
    files
        .filter_map(|file| {
            let file = file.ok()?;
            let ending = Ending::of_file(file.file_name().to_str()?)?;
            let process = fs::read_to_string(file.path()).ok()?.parse().ok()?;
            Some((process, ending))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_ends_what_was_saved_and_removes_the_folder() {
        let path = tempfile::tempdir().unwrap().keep();
        let mut child = Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        let process = Process::find(child.id()).unwrap();
        process
            .save(&path.join(Ending::Terminate.file("sleeper")))
            .unwrap();
        process.signal(Signal::STOP);
        sweep(&path);
        assert!(!process.is_running(), "also a stopped one");
        assert!(!path.exists());
        child.wait().unwrap();
    }

    #[test]
    fn an_entry_that_is_empty_or_gone_sweeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("entry");
        assert!(!sweep_entry(&entry));
        File::create(&entry).unwrap();
        assert!(!sweep_entry(&entry));
        assert!(entry.exists(), "its creator is about to write it");
    }
}
