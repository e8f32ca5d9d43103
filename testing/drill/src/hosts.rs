//! Hosts with cron: each in a mount namespace of its own, with its own crontab and configuration.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use shedlock_rig::{Cron, Running};

/// What each run does: a line with its job, its slot, its token and its host, then two seconds of work.
const SCRIPT: &str = r#"slot=${SHEDLOCK_SLOT:-$(date -u +%Y-%m-%dT%H:%M:00Z)}
echo "$1 $slot ${SHEDLOCK_FENCING_TOKEN:-0} $2" >>"$0.runs"
sleep 2
"#;

/// How a host gets the URL of the store, as in docs/recipes.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A variable in the crontab of Debian's cron.
    Variable,
    /// The same, with the name of a file.
    File,
    /// The configuration file, which is the one way with busybox' cron.
    Configuration,
}

#[derive(Debug)]
struct Host {
    name: String,
    folder: PathBuf,
    way: Way,
    is_bare: bool,
    cron: Option<Running>,
}

/// Three hosts with the same jobs.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    command: PathBuf,
    script: PathBuf,
}

impl Hosts {
    /// Starts them. `command` is `shedlock`, outside of the home of root, which each host has of its own.
    pub(crate) fn start(
        folder: &Path,
        command: &Path,
        store: &str,
        jobs: &[&str],
        plant_bare: bool,
    ) -> anyhow::Result<Self> {
        let script = folder.join("job");
        fs::write(&script, SCRIPT)?;
        let ways = [Way::Variable, Way::File, Way::Configuration];
        let hosts = ways.into_iter().enumerate().map(|(number, way)| {
            let name = format!("host-{}", number + 1);
            Host {
                folder: folder.join(&name),
                name,
                way,
                is_bare: plant_bare && number == 0,
                cron: None,
            }
        });
        let mut started = Self {
            hosts: hosts.collect(),
            command: command.to_owned(),
            script,
        };
        for host in &started.hosts {
            host.configure(store)?;
        }
        started.set_jobs(store, jobs)?;
        for host in &mut started.hosts {
            host.start_cron()?;
        }
        Ok(started)
    }

    /// Replaces the crontabs.
    pub(crate) fn set_jobs(&self, store: &str, jobs: &[&str]) -> anyhow::Result<()> {
        for host in &self.hosts {
            let lines = jobs.iter().map(|job| self.line(host, job));
            let crontab = host.variable(store) + &lines.collect::<String>();
            host.kind().install(&host.folder, &crontab)?;
        }
        Ok(())
    }

    fn line(&self, host: &Host, job: &str) -> String {
        let task = format!("/bin/sh {} {job} {}", self.script.display(), host.name);
        if host.is_bare {
            return format!("* * * * *  {task}\n");
        }
        format!(
            "* * * * *  {} run -q -n {job} --lock-at-most-for 50s --lock-wait 30s --schedule '* * * * *' -- {task} \
             >>{} 2>&1\n",
            self.command.display(),
            host.folder.join("said").display()
        )
    }

    /// The lines of all runs so far.
    pub(crate) fn runs(&self) -> anyhow::Result<String> {
        let runs = self.script.with_extension("runs");
        fs::read_to_string(runs).context("no job has run")
    }

    /// Fails if a cron has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        for host in &mut self.hosts {
            let ended = host.cron.as_mut().and_then(Running::ended);
            if let Some(status) = ended {
                anyhow::bail!("the cron of {} has ended: {status}", host.name);
            }
        }
        Ok(())
    }

    /// What the command has said to people on all hosts: each line, and how often.
    pub(crate) fn said(&self) -> BTreeMap<String, usize> {
        let mut said = BTreeMap::new();
        for host in &self.hosts {
            let lines = fs::read_to_string(host.folder.join("said")).unwrap_or_default();
            for line in lines.lines() {
                *said.entry(line.to_owned()).or_default() += 1;
            }
        }
        said
    }
}

impl Host {
    fn configure(&self, store: &str) -> anyhow::Result<()> {
        for folder in ["home", "etc"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let file = match self.way {
            Way::Variable => return Ok(()),
            Way::File => private(&self.folder.join("store"), &format!("{store}\n")),
            Way::Configuration => private(
                &self.folder.join("etc/config.toml"),
                &format!("store = {store:?}\n"),
            ),
        };
        file.context("cannot configure a host")
    }

    fn variable(&self, store: &str) -> String {
        match self.way {
            Way::Variable => format!("SHEDLOCK_STORE={store}\n"),
            Way::File => format!(
                "SHEDLOCK_STORE_FILE={}\n",
                self.folder.join("store").display()
            ),
            Way::Configuration => String::new(),
        }
    }

    const fn kind(&self) -> Cron {
        match self.way {
            Way::Configuration => Cron::Busybox,
            Way::Variable | Way::File => Cron::Debian,
        }
    }

    fn start_cron(&mut self) -> anyhow::Result<()> {
        let mounts = [("home", "/root"), ("etc", "/etc/shedlock")];
        let log = fs::File::create(self.folder.join("cron.log"))?;
        self.cron = Some(self.kind().start(&self.folder, &mounts, log.into())?);
        Ok(())
    }
}

/// Writes a file that only its owner can read.
fn private(file: &Path, text: &str) -> std::io::Result<()> {
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))
}
