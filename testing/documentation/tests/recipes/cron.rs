//! Every crontab of the documentation and of `--help`, pasted as it is into the crontab of a real cron. Only its times and
//! the URLs of its servers are replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use shedlock_documentation::{root, shedlock, succeed};
use shedlock_rig::wait::eventually;
use shedlock_rig::{Cron, Running};

use super::Site;

const PAGES: [&str; 4] = [
    "README.md",
    "crates/cli/README.md",
    "docs/recipes.md",
    "docs/alerts/README.md",
];

/// How each line starts its command.
const PROGRAM: &str = "/usr/local/bin/shedlock ";
/// Where the commands are that a line runs.
const COMMANDS: &str = " -- /opt/";
const TEXTFILES: &str = "/var/lib/prometheus/node-exporter/";

/// What the host has where the lines look for it.
const MOUNTS: [(&str, &str); 4] = [
    ("bin", "/usr/local/bin"),
    ("opt", "/opt"),
    ("etc", "/etc/shedlock"),
    ("textfiles", "/var/lib/prometheus/node-exporter"),
];

/// A crontab that someone may paste.
#[derive(Clone)]
struct Crontab {
    from: String,
    text: String,
}

impl Crontab {
    /// Those lines of a text that belong into a crontab, if there are some.
    fn of<'a>(from: &str, lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let lines = lines.map(str::trim_start);
        let belongs = |line: &&str| line.contains(PROGRAM) || line.starts_with("SHEDLOCK_");
        let lines: Vec<_> = lines.filter(belongs).collect();
        let has_times = |line: &&str| line.starts_with(|first: char| "*0123456789".contains(first));
        lines.iter().any(has_times).then(|| Self {
            from: from.to_owned(),
            text: lines.join("\n") + "\n",
        })
    }

    /// Each minute, and with servers that can be had here.
    fn adapted(&self, site: &Site) -> String {
        let adapt = |line: &str| match line.split_once(PROGRAM) {
            Some((_, rest)) => format!("* * * * *  {PROGRAM}{rest}\n"),
            None => {
                line.replace("postgres://app@db/app", &site.store())
                    .replace("https://hc-ping.com", "http://127.0.0.1:9")
                    + "\n"
            }
        };
        self.text.lines().map(adapt).collect()
    }

    /// The commands that its lines run.
    fn commands(&self) -> Vec<&str> {
        self.after(COMMANDS)
    }

    /// The files that its lines write.
    fn textfiles(&self) -> Vec<&str> {
        self.after(TEXTFILES)
    }

    /// The rest of each line that has this.
    fn after(&self, mark: &str) -> Vec<&str> {
        let split = self.text.lines().filter_map(|line| line.split_once(mark));
        split.map(|(_, rest)| rest).collect()
    }
}

/// All crontabs of the pages, and that of the examples of `run --help`.
fn crontabs() -> Vec<Crontab> {
    let mut crontabs = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let blocks = text.split("```").skip(1).step_by(2);
        let found = blocks.filter_map(|block| Crontab::of(page, block.lines().skip(1)));
        let before = crontabs.len();
        crontabs.extend(found);
        assert!(crontabs.len() > before, "no crontab in {page}");
    }
    let help = succeed(Command::new(shedlock()).args(["run", "--help"]));
    let examples = help.split("Examples:").nth(1).unwrap();
    crontabs.push(Crontab::of("run --help", examples.lines()).unwrap());
    crontabs
}

/// A host with nothing but this crontab.
struct Host {
    crontab: Crontab,
    site: Site,
    process: Running,
}

impl Host {
    fn start(crontab: &Crontab, cron: Cron) -> Self {
        let site = Site::new();
        for (folder, _) in MOUNTS {
            fs::create_dir(site.path(folder)).unwrap();
        }
        symlink(shedlock(), site.path("bin/shedlock")).unwrap();
        for command in crontab.commands() {
            let done = site.shown(&format!("{command}.done"));
            let command = site.path(&format!("opt/{command}"));
            fs::write(&command, format!("#!/bin/sh\necho done >> {done}\n")).unwrap();
            succeed(Command::new("chmod").arg("755").arg(&command));
        }
        let store = site.store();
        fs::write(site.path("etc/store"), format!("{store}\n")).unwrap();
        fs::write(site.path("etc/config.toml"), format!("store = {store:?}\n")).unwrap();
        let folder = site.path("");
        cron.install(&folder, &crontab.adapted(&site)).unwrap();
        let process = cron.start(&folder, &MOUNTS, Stdio::piped()).unwrap();
        Self {
            crontab: crontab.clone(),
            site,
            process,
        }
    }

    fn wait_for_all(&mut self) {
        if let Some(status) = self.process.ended() {
            let said = self.process.errors.rest();
            panic!(
                "cron ended with {status}: {said}; on Debian: apt-get install cron busybox-static"
            );
        }
        let Self { crontab, site, .. } = self;
        for command in crontab.commands() {
            let what = format!("cron runs {command} of {}", crontab.from);
            let done = site.path(&format!("{command}.done"));
            eventually(&what, || done.exists());
        }
        for file in crontab.textfiles() {
            let written = site.path(&format!("textfiles/{file}"));
            eventually("cron writes the metrics", || written.exists());
        }
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "what was not run is what a reader of the run wants to see"
)]
fn cron_runs_each_line_that_is_pasted_into_a_crontab() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("cron runs as root only: the lines of the recipes were run by /bin/sh alone");
        return;
    }
    let crontabs = crontabs();
    let debian = crontabs.iter().map(|it| Host::start(it, Cron::Debian));
    let mut started: Vec<Host> = debian.collect();
    // busybox' cron reads no variables: the store is in the configuration file, as in the examples of `--help`.
    started.extend(crontabs.last().map(|it| Host::start(it, Cron::Busybox)));
    for host in &mut started {
        host.wait_for_all();
    }
}
