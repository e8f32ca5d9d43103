//! The tests of the workspace. `cargo test` runs those with the standard harness, and the examples in the documentation.
//! Targets with their own `main`, which mostly wait for servers and leases, and those of the other workspaces run beside it.
//! The output of each run is kept, and printed whole once it has ended.

use crate::counts::Counts;
use crate::sqlx08;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use shedlock_rig::engine::{Ending, RunDir};
use shedlock_rig::host;
use shedlock_rig::process::Process;
use shedlock_rig::wait;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many run at once. Most of them wait more than they work.
const AT_ONCE: usize = 3;

/// How long a target may print nothing. One that hangs must not keep the others from being reported. Some build the whole
/// command first.
const SILENCE: Duration = Duration::from_secs(1_500);

/// How long a target that was killed may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// The pause between two looks at what runs.
const LOOK: Duration = Duration::from_millis(50);

/// Packages whose targets take longest, which start first.
const FIRST: [&str; 4] = [
    "shedlock-nats",
    "shedlock-sql",
    "shedlock-scenarios",
    "shedlock-cli",
];

/// Targets that depend on real time, or on how much capacity the machine has left, and run alone.
const ALONE: [(&str, &str); 3] = [
    // Slots are 50 ms apart, and count as late after a second.
    ("shedlock-scenarios", "restarts"),
    // Holders whose deadlines are half a second before the ends of their leases.
    ("shedlock", "real_time"),
    // The emulator answers one request after the other, and gets its share of two processors.
    ("shedlock-mongodb", "conformance"),
];

/// The arguments of cargo for all tests.
const ALL: [&str; 4] = ["test", "--workspace", "--all-features", "--no-fail-fast"];

/// An executable that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) package: String,
    version: String,
    pub(crate) target: String,
    manifest: PathBuf,
    path: PathBuf,
}

/// What is run at once, and whose output is printed whole.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    /// What cargo runs with these arguments.
    Cargo(Vec<String>),
    /// A target with its own `main`, or of another workspace.
    Own(Executable),
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
    kind: Vec<String>,
}

impl Executable {
    /// The executable that a line of cargo's output is about, if any.
    pub(crate) fn of_message(line: &str) -> Option<Self> {
        Self::with_kind(line).map(|(executable, _)| executable)
    }

    /// The same, and whether it is of the folder `tests`.
    fn with_kind(line: &str) -> Option<(Self, bool)> {
        let message: Message = serde_json::from_str(line).ok()?;
        if !message.profile?.test {
            return None;
        }
        let (package, version) = package_of(&message.package_id?)?;
        let target = message.target?;
        let executable = Self {
            package,
            version,
            target: target.name,
            manifest: message.manifest_path?,
            path: message.executable?,
        };
        Some((executable, target.kind.iter().any(|kind| kind == "test")))
    }

    fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(&self.manifest)
    }

    fn rank(&self) -> usize {
        let first = FIRST.iter().position(|package| *package == self.package);
        first.unwrap_or(FIRST.len())
    }

    /// Whether this target of the folder `tests` has its own `main`. No message of cargo contains it.
    fn has_own_main(&self) -> anyhow::Result<bool> {
        let manifest = fs::read_to_string(&self.manifest);
        let manifest = manifest.with_context(|| format!("no {}", self.manifest.display()))?;
        let name = format!("name = \"{}\"", self.target);
        let has = |section: &str, line: &str| section.lines().any(|it| it.trim() == line);
        let sections = manifest.split("\n[").filter(|it| it.starts_with("[test]]"));
        let mut own = sections.filter(|section| has(section, "harness = false"));
        Ok(own.any(|section| has(section, &name)))
    }

    /// The command as cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        steps::without_ours(&mut command);
        command
            .current_dir(self.folder())
            .env("CARGO_MANIFEST_DIR", self.folder())
            .env("CARGO_MANIFEST_PATH", &self.manifest)
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_PKG_VERSION", &self.version);
        command
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

impl Task {
    fn is_alone(&self) -> bool {
        matches!(self, Self::Own(it) if ALONE.contains(&(&*it.package, &*it.target)))
    }

    fn title(&self) -> String {
        match self {
            Self::Cargo(arguments) => {
                let shown = arguments.iter().take(2).map(String::as_str);
                format!("cargo test {}", shown.collect::<Vec<_>>().join(" "))
            }
            Self::Own(it) => format!("{} {}", it.package, it.target),
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Cargo(arguments) => {
                let mut command = steps::cargo();
                command.args(ALL).args(arguments);
                command
            }
            Self::Own(it) => it.command(),
        }
    }
}

/// What is to be run of what was built. `--test` selects targets of all packages by their names.
fn tasks(built: Vec<(Executable, bool)>) -> anyhow::Result<Vec<Task>> {
    let mut plain = BTreeSet::new();
    let mut own = Vec::new();
    for (executable, is_of_tests) in built {
        if !is_of_tests {
            continue;
        }
        if executable.has_own_main()? {
            own.push(executable);
        } else {
            plain.insert(executable.target);
        }
    }
    let twice = own.iter().find(|own| plain.contains(&own.target));
    ensure!(twice.is_none(), "with and without its own main: {twice:?}");
    own.sort_by_key(Executable::rank);
    // Cargo runs one after the other, which takes longer than all the rest: so there are two of it.
    let mut halves = [vec!["--lib", "--bins"], Vec::new()];
    for (number, target) in plain.iter().enumerate() {
        halves[number % 2].extend(["--test", target]);
    }
    let [first, second] = halves;
    let cargo = [first, second, vec!["--doc"]].into_iter();
    // Without words it would run all.
    let cargo = cargo.filter(|words| !words.is_empty());
    let cargo = cargo.map(|words| Task::Cargo(words.into_iter().map(str::to_owned).collect()));
    Ok(cargo.chain(own.into_iter().map(Task::Own)).collect())
}

/// Builds everything and runs it. `environment` is passed to the tests.
pub(crate) fn run(
    run: &RunDir,
    environment: &(dyn Fn(&mut Command) + Sync),
    counts: &mut Counts,
) -> anyhow::Result<Outcome> {
    let mut cargo = steps::cargo();
    cargo.args(ALL);
    environment(&mut cargo);
    let built = match build(run, &mut cargo)? {
        Ok(built) => built,
        Err(outcome) => return Ok(outcome),
    };
    let others = match sqlx08::tests(run)? {
        Ok(others) => others.into_iter().map(Task::Own),
        Err(outcome) => return Ok(outcome),
    };
    let start = Start {
        folder: run.path(),
        environment,
        spawn: &|name, command| run.spawn(name, Ending::Terminate, command),
        forget: &|name| run.forget(name, Ending::Terminate),
        silence: SILENCE,
    };
    let tasks = tasks(built)?.into_iter().chain(others).collect();
    Ok(if run_all(tasks, &start, counts)? {
        Outcome::Passed
    } else {
        Outcome::Failed(counts.failed_in())
    })
}

/// Builds the tests that this command of cargo would run. Returns each, and whether it is of the folder `tests`.
pub(crate) fn build(
    run: &RunDir,
    cargo: &mut Command,
) -> anyhow::Result<Result<Vec<(Executable, bool)>, Outcome>> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut built = Vec::new();
    let outcome = steps::read(run, cargo, |line| {
        built.extend(Executable::with_kind(line));
    })?;
    Ok(match outcome {
        Outcome::Passed => Ok(built),
        _ => Err(outcome),
    })
}

/// Runs them all, those that run alone at the end. Returns whether all passed.
fn run_all(tasks: Vec<Task>, start: &Start<'_>, counts: &mut Counts) -> anyhow::Result<bool> {
    let (alone, together): (Vec<_>, Vec<_>) = tasks.into_iter().partition(Task::is_alone);
    let ended = Mutex::new((counts, true));
    for (tasks, at_once) in [(together, AT_ONCE), (alone, 1)] {
        let waiting = Mutex::new(tasks.into_iter());
        let lane = |number: usize| -> anyhow::Result<()> {
            let name = format!("tests-{number}");
            loop {
                // Not locked while a task runs.
                let task = locked(&waiting).next();
                let Some(task) = task else { return Ok(()) };
                let (passed, printed) = start.run(&name, &task)?;
                let (counts, all_passed) = &mut *locked(&ended);
                print!("{printed}");
                counts.add_all(&printed, &task.title(), passed);
                *all_passed &= passed;
            }
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..at_once)
                .map(|number| scope.spawn(move || lane(number)))
                .collect();
            lanes.into_iter().try_for_each(|lane| {
                let ended = lane.join();
                ended.map_err(|_| anyhow::anyhow!("a thread that runs tests panicked"))?
            })
        })?;
    }
    let (_, all_passed) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(all_passed)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a task is run.
struct Start<'a> {
    /// The folder for their output.
    folder: &'a Path,
    environment: &'a (dyn Fn(&mut Command) + Sync),
    /// Starts a process of this name in a process group of its own.
    spawn: &'a (dyn Fn(&str, &mut Command) -> anyhow::Result<Child> + Sync),
    /// Called once it has ended.
    forget: &'a (dyn Fn(&str) + Sync),
    /// How long it may print nothing.
    silence: Duration,
}

impl Start<'_> {
    /// Runs one. Returns whether it passed, and its output on both streams.
    fn run(&self, name: &str, task: &Task) -> anyhow::Result<(bool, String)> {
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
        let mut child = (self.spawn)(name, &mut command)?;
        let (status, hung) = self.wait(&mut child, &path)?;
        (self.forget)(name);
        let seconds = begun.elapsed().as_secs_f64();
        let printed = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
        let printed = String::from_utf8_lossy(&printed);
        let mut printed = format!("\n--- {title}: {status}, {seconds:.1} s\n{printed}");
        if let Some(threads) = hung {
            let silence = self.silence.as_secs();
            printed += &format!(
                "\n{threads}{title} hung: it was killed after {silence} s without output\n"
            );
        }
        if !status.success() {
            printed += &format!("{title} ended with {status}\n");
        }
        Ok((status.success(), printed))
    }

    /// Waits until it ends, or kills it because it prints nothing any more. Returns how it ended and, if it hung, what
    /// all threads of the machine were doing.
    fn wait(&self, child: &mut Child, log: &Path) -> anyhow::Result<(ExitStatus, Option<String>)> {
        let mut printed = 0;
        let mut heard = Instant::now();
        let mut hangs = None;
        loop {
            let ended = child.try_wait().context("a test could not be waited for")?;
            if let Some(status) = ended {
                return Ok((status, hangs));
            }
            let size = fs::metadata(log).map_or(printed, |it| it.len());
            if size != printed {
                (printed, heard) = (size, Instant::now());
            }
            if heard.elapsed() > self.silence && hangs.is_none() {
                hangs = Some(threads());
                if let Some(process) = Process::find(child.id()) {
                    process.kill_tree(GRACE);
                }
            }
            wait::pause(LOOK);
        }
    }
}

/// A list of all threads: which are stopped, and what the others wait for.
fn threads() -> String {
    let mut list = Command::new("ps");
    list.args(["-eLo", "pid,ppid,tid,stat,wchan:24,comm"]);
    host::output(&mut list).unwrap_or_else(|error| format!("{error:#}\n"))
}

#[cfg(test)]
mod tests;
