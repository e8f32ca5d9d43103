//! Every crontab of the documentation and of `--help`, pasted as it is into the crontab of a real cron. Only its times and
//! the URLs of its servers are replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use shedlock_documentation::{root, shedlock, succeed};
use shedlock_rig::Running;
use shedlock_rig::wait::eventually;

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
const HOST: &str = "mkdir -p /etc/shedlock /var/lib/prometheus/node-exporter \
     && mount --bind \"$0/bin\" /usr/local/bin && mount --bind \"$0/opt\" /opt \
     && mount --bind \"$0/etc\" /etc/shedlock && mount --bind \"$0/textfiles\" /var/lib/prometheus/node-exporter && ";
const DEBIAN: &str = "mkdir -p /var/spool/cron/crontabs /etc/cron.d && touch /etc/crontab \
     && mount --bind \"$0/crontabs\" /var/spool/cron/crontabs && mount -t tmpfs none /etc/cron.d \
     && mount --bind /dev/null /etc/crontab && mount -t tmpfs none /run && exec cron -f";
const BUSYBOX: &str = "exec busybox crond -f -c \"$0/crontabs\"";

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
        let commands = self
            .text
            .lines()
            .filter_map(|line| line.split_once(COMMANDS));
        commands.map(|(_, command)| command).collect()
    }

    /// The files that its lines write.
    fn textfiles(&self) -> Vec<&str> {
        let files = self
            .text
            .lines()
            .filter_map(|line| line.split_once(TEXTFILES));
        files.map(|(_, file)| file).collect()
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

/// Cron, with private folders for what it reads and writes.
struct Cron {
    crontab: Crontab,
    site: Site,
    process: Running,
}

impl Cron {
    fn start(crontab: &Crontab, program: &str) -> Self {
        let site = Site::new();
        for folder in ["bin", "opt", "etc", "textfiles", "crontabs"] {
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
        let file = site.path("crontabs/root");
        fs::write(&file, crontab.adapted(&site)).unwrap();
        succeed(Command::new("chmod").arg("600").arg(file));
        let mut cron = Command::new("unshare");
        cron.args(["--mount", "sh", "-c", &format!("{HOST}{program}")])
            .arg(site.path(""))
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        Self {
            crontab: crontab.clone(),
            site,
            process: Running::start(&mut cron).unwrap(),
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
    let mut started: Vec<Cron> = crontabs.iter().map(|it| Cron::start(it, DEBIAN)).collect();
    // busybox' cron reads no variables: the store is in the configuration file, as in the examples of `--help`.
    started.extend(crontabs.last().map(|it| Cron::start(it, BUSYBOX)));
    for cron in &mut started {
        cron.wait_for_all();
    }
}
