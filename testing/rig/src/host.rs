//! The machine: its programs, its distribution, its cache folder.

use anyhow::Context as _;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Whether this process is root: servers then run as their own user, and packages install.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How many bytes this user can still write to the disk of a folder.
pub fn free_space(folder: &Path) -> anyhow::Result<u64> {
    let disk = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot read the disk of {}", folder.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether packages are installed with `apt-get` here.
pub fn is_debian_like() -> bool {
    let ids = os_release();
    ids.iter().any(|id| id == "debian") && find_program("apt-get").is_some()
}

/// Whether this is Debian itself and not a distribution derived from it.
pub fn is_debian() -> bool {
    os_release().first().is_some_and(|id| id == "debian")
}

/// `ID` and the words of `ID_LIKE` of `/etc/os-release`. Empty if the file does not exist.
fn os_release() -> Vec<String> {
    fs::read_to_string("/etc/os-release")
        .map(|text| ids(&text))
        .unwrap_or_default()
}

fn ids(os_release: &str) -> Vec<String> {
    let value = |key: &str| {
        os_release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(|value| value.trim_matches(['"', '\'']).to_owned())
            .unwrap_or_default()
    };
    [value("ID"), value("ID_LIKE")]
        .iter()
        .flat_map(|value| {
            value
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A program of this name, in `PATH` or in the folders of daemons that a user's `PATH` lacks.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

/// The file of this program. Determined once, at startup: a build of the workspace replaces the file, and the system
/// then reports the one that is gone.
pub fn own_program() -> Option<&'static Path> {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    OWN.get_or_init(|| env::current_exe().ok()).as_deref()
}

/// Whether `file` exists and is executable.
pub fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The folder that outlives a run: downloads, and the entries of running servers.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    let dir = cache_dir_from(|name| env::var_os(name))?;
    fs::create_dir_all(&dir).with_context(|| {
        format!(
            "the cache folder {} could not be created; set SHEDLOCK_CACHE to a writable folder",
            dir.display()
        )
    })?;
    Ok(dir)
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<PathBuf> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let dir = set("SHEDLOCK_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("shedlock-xtask")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache").join("shedlock-xtask")))
        .context("no cache folder: set SHEDLOCK_CACHE, XDG_CACHE_HOME or HOME")?;
    std::path::absolute(&dir).with_context(|| format!("{} is not a path", dir.display()))
}

/// A user of this machine that a server runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's id.
    pub uid: u32,
    /// The id of the user's own group.
    pub gid: u32,
}

impl Account {
    /// The account that a server must run as: its own user if we are root, otherwise (`None`) the current user.
    pub fn for_server(user: &str) -> anyhow::Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let id = |flag| -> anyhow::Result<u32> {
            let said = output(Command::new("id").args([flag, user]))?;
            said.trim()
                .parse()
                .with_context(|| format!("`id {flag} {user}` printed `{said}`"))
        };
        Ok(Some(Self {
            uid: id("-u")?,
            gid: id("-g")?,
        }))
    }

    /// Lets `command` run as this user.
    pub fn apply(self, command: &mut Command) {
        use std::os::unix::process::CommandExt as _;
        command.uid(self.uid).gid(self.gid);
    }

    /// Makes this user the owner of `path`.
    pub fn own(self, path: &Path) -> anyhow::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("{} could not be given to user {}", path.display(), self.uid))
    }
}

/// Runs `command` to its end and returns its output, or its error message if it failed.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{shown} could not be started"))?;
    if !output.status.success() {
        let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        anyhow::bail!(
            "{shown} ended with {}: {}",
            output.status,
            last_lines(&said, 15)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last lines of a text, where programs report why they failed.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_distribution_is_distinguished_from_debian() {
        assert_eq!(ids("NAME=x\nID=debian\n"), ["debian"]);
        assert_eq!(
            ids("ID_LIKE=\"ubuntu debian\"\nID=mint\n"),
            ["mint", "ubuntu", "debian"]
        );
        assert_eq!(ids("VERSION_ID=1\n"), Vec::<String>::new());
    }

    #[test]
    fn the_cache_folder_is_the_first_that_is_named_and_absolute() {
        let dir = |set: &[(&str, &str)]| {
            cache_dir_from(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            })
            .ok()
        };
        let all = [
            ("SHEDLOCK_CACHE", "/c"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(dir(&all), Some("/c".into()));
        assert_eq!(dir(&all[1..]), Some("/x/shedlock-xtask".into()));
        assert_eq!(dir(&all[2..]), Some("/h/.cache/shedlock-xtask".into()));
        assert_eq!(
            dir(&[("SHEDLOCK_CACHE", ""), ("HOME", "/h")]),
            dir(&all[2..])
        );
        assert!(dir(&[("SHEDLOCK_CACHE", "c")]).unwrap().is_absolute());
        assert_eq!(dir(&[]), None);
    }

    #[test]
    fn a_failed_command_reports_its_output() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("why") && said.contains('3'), "{said}");
    }
}
