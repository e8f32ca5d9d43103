//! The test executables of the workspace, built once and run in parallel, together with the tests in the documentation.
//!
//! Most of them wait for servers and leases more than they compute. So two run at a time, but never two of one package:
//! resources that these share, such as a server, belong to one executable at a time. The output of each is kept, and
//! printed whole once it has ended.

use crate::counts::Counts;
use crate::steps::{self, Outcome};
use anyhow::Context as _;
use serde::Deserialize;
use shedlock_rig::engine::{Ending, RunDir};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many run at once. With more, those that kill processes and cut connections starve.
const AT_ONCE: usize = 2;

/// How many tests of an executable run at once, unless it chooses itself. This may exceed the number of processors,
/// because most tests wait.
const THREADS: &str = "4";

/// Packages with the most work, which start first.
const FIRST: [&str; 4] = [
    "shedlock-sql",
    "shedlock-scenarios",
    "shedlock-nats",
    "shedlock-cli",
];

/// Executables that depend on real time, or on how much capacity the machine has left, and run alone.
const ALONE: [(&str, &str); 2] = [
    // Slots are 50 ms apart, and count as late after a second.
    ("shedlock-scenarios", "fleet"),
    // Holders whose deadlines are half a second before the ends of their leases.
    ("shedlock", "real_time"),
];

/// The arguments of cargo for all tests.
const ALL: [&str; 4] = ["test", "--workspace", "--all-features", "--no-fail-fast"];

/// How many of the slowest are listed at the end.
const LISTED: usize = 10;

/// An executable that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) package: String,
    version: String,
    pub(crate) target: String,
    /// The name that cargo would print when it runs it.
    source: PathBuf,
    manifest: PathBuf,
    path: PathBuf,
}

/// What is run at once, and whose output is printed whole.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Executable(Executable),
    /// The tests in the documentation, which cargo runs.
    Documentation,
}

/// One of cargo's messages. Only messages about executables are used.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    profile: Option<BuildProfile>,
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct BuildProfile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

impl Executable {
    /// The executable that a line of cargo's output is about, if any.
    pub(crate) fn of_message(line: &str) -> Option<Self> {
        let message: Message = serde_json::from_str(line).ok()?;
        if !message.profile?.test {
            return None;
        }
        let (package, version) = package_of(&message.package_id?)?;
        let target = message.target?;
        Some(Self {
            package,
            version,
            target: target.name,
            source: target.src_path,
            manifest: message.manifest_path?,
            path: message.executable?,
        })
    }

    fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(&self.manifest)
    }

    fn is_alone(&self) -> bool {
        ALONE.contains(&(&*self.package, &*self.target))
    }

    fn rank(&self) -> usize {
        let first = FIRST.iter().position(|package| *package == self.package);
        first.unwrap_or(FIRST.len())
    }

    fn title(&self) -> String {
        let source = self.source.strip_prefix(self.folder());
        let source = source.unwrap_or(&self.source);
        format!("{} {}", self.package, source.display())
    }

    /// The command as cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        steps::without_ours(&mut command);
        if env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", THREADS);
        }
        command
            .current_dir(self.folder())
            .env("CARGO_MANIFEST_DIR", self.folder())
            .env("CARGO_MANIFEST_PATH", &self.manifest)
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_PKG_VERSION", &self.version);
        command
    }
}

impl Task {
    fn is_alone(&self) -> bool {
        matches!(self, Self::Executable(executable) if executable.is_alone())
    }

    /// Whether both need resources that one task at a time may use.
    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Executable(one), Self::Executable(other)) => one.package == other.package,
            _ => false,
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Executable(executable) => executable.title(),
            Self::Documentation => "documentation".to_owned(),
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Executable(executable) => executable.command(),
            Self::Documentation => {
                let mut command = steps::cargo();
                command.args(ALL).arg("--doc");
                command
            }
        }
    }
}

/// Name and version from cargo's id of a package: `path+file:///a/core#shedlock-core@0.1.0`. The id omits the name if
/// the folder has it.
fn package_of(id: &str) -> Option<(String, String)> {
    let (place, fragment) = id.rsplit_once('#')?;
    let (name, version) = fragment.split_once('@').unwrap_or_else(|| {
        let folder = place.rsplit('/').next().unwrap_or_default();
        (folder, fragment)
    });
    Some((name.to_owned(), version.to_owned()))
}

/// Builds everything and runs it. `environment` is passed to the tests.
pub(crate) fn run(
    run: &RunDir,
    environment: &(dyn Fn(&mut Command) + Sync),
    counts: &mut Counts,
) -> anyhow::Result<Outcome> {
    let mut build = steps::cargo();
    build
        .args(ALL)
        .args(["--no-run", "--message-format=json-render-diagnostics"]);
    environment(&mut build);
    let mut executables = Vec::new();
    let built = steps::read(run, &mut build, |line| {
        executables.extend(Executable::of_message(line));
    })?;
    if built != Outcome::Passed {
        return Ok(built);
    }
    executables.sort_by_key(Executable::rank);
    let complete = |name: &str, command: &mut Command| {
        let mut child = run.spawn(name, Ending::Terminate, command)?;
        let status = child.wait().context("a test could not be waited for")?;
        run.forget(name, Ending::Terminate);
        Ok(status)
    };
    let start = Start {
        folder: run.path(),
        environment,
        complete: &complete,
    };
    let mut tasks: Vec<_> = executables.into_iter().map(Task::Executable).collect();
    tasks.push(Task::Documentation);
    let failed = Lanes::new(tasks).run(&start, counts)?;
    Ok(if failed.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(failed.join(", "))
    })
}

/// How an executable is run.
struct Start<'a> {
    /// The folder for their output.
    folder: &'a Path,
    environment: &'a (dyn Fn(&mut Command) + Sync),
    /// Runs a process of this name to its end.
    complete: &'a (dyn Fn(&str, &mut Command) -> anyhow::Result<ExitStatus> + Sync),
}

impl Start<'_> {
    /// Runs one. Also returns its output on both streams.
    fn run(&self, name: &str, task: &Task) -> anyhow::Result<(Ended, String)> {
        let title = task.title();
        // If it hangs, this line shows which one.
        println!("    begins: {title}");
        let path = self.folder.join(format!("{name}.log"));
        let log = File::create(&path).with_context(|| format!("no {}", path.display()))?;
        let mut command = task.command();
        (self.environment)(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("a log file could not be shared")?)
            .stderr(log);
        let begun = Instant::now();
        let status = (self.complete)(name, &mut command)?;
        let printed = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
        let mut printed = String::from_utf8_lossy(&printed).into_owned();
        if !status.success() {
            printed += &format!("{title} ended with {status}\n");
        }
        let ended = Ended {
            title,
            seconds: begun.elapsed().as_secs_f64(),
            passed: status.success(),
        };
        Ok((ended, printed))
    }
}

/// The tasks that are still to run, and those that are running.
#[derive(Default)]
struct Queue {
    waiting: Vec<Task>,
    running: Vec<Task>,
}

impl Queue {
    /// The next task that may run next to the current ones. It counts as running from then on.
    fn next(&mut self) -> Option<Task> {
        if self.running.iter().any(Task::is_alone) {
            return None;
        }
        let is_free = |one: &Task| {
            if one.is_alone() {
                return self.running.is_empty() && self.waiting.iter().all(Task::is_alone);
            }
            !self.running.iter().any(|it| it.excludes(one))
        };
        let index = self.waiting.iter().position(is_free)?;
        let next = self.waiting.remove(index);
        self.running.push(next.clone());
        Some(next)
    }
}

struct Lanes {
    queue: Mutex<Queue>,
    has_ended: Condvar,
}

/// A task that has run.
struct Ended {
    title: String,
    seconds: f64,
    passed: bool,
}

impl Lanes {
    fn new(waiting: Vec<Task>) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting,
                running: Vec::new(),
            }),
            has_ended: Condvar::new(),
        }
    }

    /// Runs them all. Returns those that failed.
    fn run(&self, start: &Start<'_>, counts: &mut Counts) -> anyhow::Result<Vec<String>> {
        let ended = Mutex::new((Vec::new(), counts));
        let lane = |number: usize| -> anyhow::Result<()> {
            let name = format!("tests-{number}");
            while let Some(task) = self.take() {
                let one = start.run(&name, &task);
                self.give_back(&task);
                let (one, printed) = one?;
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                let verdict = if one.passed { "ok" } else { "FAILED" };
                println!("\n--- {}: {verdict}, {:.1} s", one.title, one.seconds);
                print!("{printed}");
                ended.1.add_all(&printed, &one.title, one.passed);
                ended.0.push(one);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..AT_ONCE)
                .map(|number| scope.spawn(move || lane(number)))
                .collect();
            lanes.into_iter().try_for_each(|lane| {
                let ended = lane.join();
                ended.map_err(|_| anyhow::anyhow!("a thread that runs tests panicked"))?
            })
        })?;
        let (mut ended, _) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by(|a: &Ended, b| b.seconds.total_cmp(&a.seconds));
        println!("\nThe longest of {} tasks:", ended.len());
        for one in ended.iter().take(LISTED) {
            println!("{:7.1} s  {}", one.seconds, one.title);
        }
        let failed = ended.into_iter().filter(|one| !one.passed);
        Ok(failed.map(|one| one.title).collect())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one, as soon as it may run. `None` once nothing is left to start.
    fn take(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if let Some(next) = queue.next() {
                return Some(next);
            }
            if queue.waiting.is_empty() {
                return None;
            }
            queue = self
                .has_ended
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, task: &Task) {
        self.queue().running.retain(|one| one != task);
        self.has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
