//! The crontabs, run by cron and by the shell that cron starts.

use std::fs;
use std::process::{Command, Stdio};

use shedlock_documentation::succeed;
use shedlock_rig::Running;
use shedlock_rig::wait::eventually;

use super::{Site, recipe};

const CRONTABS: [&str; 2] = ["crontab", "crontab-secret"];

/// The times of the recipe, which are repeated as its schedule.
const TIMES: &str = "*/10 * * * *";

#[test]
fn a_line_runs_its_command_once_for_each_slot() {
    for name in CRONTABS {
        let site = Site::new();
        let crontab = site.adapted(&recipe(name));
        let lines: Vec<&str> = crontab.lines().filter(|it| !it.starts_with('#')).collect();
        let [variable, line] = lines[..] else {
            panic!("{name}: {lines:?}")
        };
        let (variable, value) = variable.split_once('=').unwrap();
        let command = line.strip_prefix(TIMES).unwrap().trim_start();
        assert!(
            command.contains(&format!("--schedule '{TIMES}'")),
            "{command}"
        );
        // The slot may change between two starts.
        for _ in 0..3 {
            let mut shell = Command::new("/bin/sh");
            shell
                .env_clear()
                .env(variable, value)
                .env("HOME", site.path(""));
            assert_eq!(succeed(shell.args(["-c", command])), "");
        }
        assert!(
            (1..=2).contains(&site.reports()),
            "{name}: {}",
            site.reports()
        );
    }
}

/// Cron, with private folders for what it reads and writes.
struct Cron(Running);

impl Cron {
    fn start(site: &Site, crontab: &str) -> Self {
        let folder = site.path("crontabs");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("root"), crontab).unwrap();
        succeed(Command::new("chmod").arg("600").arg(folder.join("root")));
        let script = "mkdir -p /var/spool/cron/crontabs /etc/cron.d && touch /etc/crontab \
             && mount --bind \"$0\" /var/spool/cron/crontabs && mount -t tmpfs none /etc/cron.d \
             && mount --bind /dev/null /etc/crontab && mount -t tmpfs none /run && exec cron -f";
        let mut cron = Command::new("unshare");
        cron.args(["--mount", "sh", "-c", script])
            .arg(&folder)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        Self(Running::start(&mut cron).unwrap())
    }

    fn runs(&mut self) {
        if let Some(status) = self.0.ended() {
            let said = self.0.errors.rest();
            panic!("cron ended with {status}: {said}; on Debian: apt-get install cron");
        }
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "what was not run is what a reader of the run wants to see"
)]
fn cron_reads_the_crontabs_and_runs_their_commands() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("cron runs as root only: the lines were run by /bin/sh alone");
        return;
    }
    let mut started = CRONTABS.map(|name| {
        let site = Site::new();
        let each_minute = site.adapted(&recipe(name)).replace(TIMES, "* * * * *");
        let cron = Cron::start(&site, &each_minute);
        (site, cron)
    });
    for (site, cron) in &mut started {
        eventually("cron runs the command", || {
            cron.runs();
            site.reports() > 0
        });
    }
}
