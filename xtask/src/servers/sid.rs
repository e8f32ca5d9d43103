//! Servers that the current Debian lacks: from the unstable distribution, or from the last one that had them. Each is
//! extracted with its libraries into our own folders. Nothing is installed.

use crate::host;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool that extracts it, and its package.
pub(crate) const PACKAGE: &str = "mmdebstrap";

/// A server that can be extracted.
pub(crate) struct Extract {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The program to install by hand.
    pub(super) program: &'static str,
    /// The name of its `apt-get` package.
    pub(super) package: &'static str,
    /// The distribution that has it.
    pub(super) suite: &'static str,
    /// Our folder inside the cache.
    pub(super) folder: &'static str,
}

impl Extract {
    /// The folder that it is extracted to.
    pub(crate) fn root(&self) -> anyhow::Result<PathBuf> {
        Ok(host::cache_dir()?.join(self.folder))
    }

    /// Extracts it, if the registry currently has it.
    ///
    /// The unstable distribution changes and cannot be pinned, and old ones leave the mirrors. Callers must be able to
    /// do without.
    pub(crate) fn extract(&self) -> anyhow::Result<()> {
        if !host::is_debian() || !host::is_root() {
            bail!("it is extracted only on Debian as root");
        }
        let mmdebstrap = host::find_program(PACKAGE).context("mmdebstrap is not installed")?;
        let root = self.root()?;
        let part = root.with_extension("part");
        // A killed run may have left a partial extraction.
        let _ = fs::remove_dir_all(&part);
        eprintln!(
            "xtask: extracting {} of Debian {} into {}",
            self.package,
            self.suite,
            root.display()
        );
        host::output(
            Command::new(mmdebstrap)
                .args(["--quiet", "--variant=extract"])
                .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
                .arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
                .arg(format!("--include=base-files,{}", self.package))
                .arg(self.suite)
                .arg(&part)
                .args(mirror()),
        )?;
        fs::rename(&part, &root).with_context(|| format!("{} could not be renamed", part.display()))
    }
}

/// A program in a folder with a complete system, run with that system's loader.
pub(crate) struct Extracted {
    root: PathBuf,
    program: PathBuf,
    loader: PathBuf,
    libraries: PathBuf,
}

impl Extracted {
    /// The program at this path inside `root`, if it exists with all its dependencies.
    pub(crate) fn find(root: &Path, program: &str) -> Option<Self> {
        let program = root.join(program);
        if !host::is_program(&program) {
            return None;
        }
        let libraries = root.join("usr/lib").read_dir().ok()?.find_map(|entry| {
            let path = entry.ok()?.path();
            path.join("libc.so.6").exists().then_some(path)
        })?;
        let loader = libraries.read_dir().ok()?.find_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.to_owned();
            (name.starts_with("ld-linux") && host::is_program(&path)).then_some(path)
        })?;
        Some(Self {
            root: root.to_owned(),
            program,
            loader,
            libraries,
        })
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The program, to which arguments can be added.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.loader);
        command
            .arg("--library-path")
            .arg(&self.libraries)
            .arg(&self.program);
        command
    }
}

/// The Debian mirror that this machine uses, if apt reports it.
fn mirror() -> Option<String> {
    let said = host::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Origin: Debian",
        "Label: Debian",
    ]))
    .ok()?;
    said.lines()
        .next()
        .map(|line| line.trim_end_matches('/').to_owned())
}
