//! From the unstable Debian, or from the last one that had it: extracted with its libraries.

use crate::engine::Found;
use crate::host;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool that extracts it, and its package.
pub(crate) const MMDEBSTRAP: &str = "mmdebstrap";

/// A server that can be extracted.
pub(crate) struct Extract {
    /// The program to install by hand.
    pub(crate) program: &'static str,
    /// The name of its `apt-get` package.
    pub(crate) package: &'static str,
    /// The distribution that has it.
    pub(crate) suite: &'static str,
    /// Our folder inside the cache.
    pub(crate) folder: &'static str,
}

impl Extract {
    /// Extracts it, if the registry currently has it.
    ///
    /// The unstable distribution changes and cannot be pinned, and old ones leave the mirrors. Callers must be able to
    /// do without.
    pub(crate) fn extract(&self) -> anyhow::Result<()> {
        if !host::is_debian() || !host::is_root() {
            bail!("it is extracted only on Debian as root");
        }
        let mmdebstrap = host::find_program(MMDEBSTRAP).context("mmdebstrap is not installed")?;
        let root = self.root()?;
        eprintln!(
            "xtask: extracting {} of Debian {} into {}",
            self.package,
            self.suite,
            root.display()
        );
        super::complete(&root, |part| {
            let mut extract = Command::new(mmdebstrap);
            extract
                .args(["--quiet", "--variant=extract"])
                .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
                .arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
                .arg(format!("--include=base-files,{}", self.package))
                .arg(self.suite)
                .arg(part)
                .args(mirror());
            host::output(&mut extract).map(drop)
        })
    }

    /// The installed program of this name, otherwise the extracted one, if any.
    pub(crate) fn installed_or_extracted(&self, program: &str) -> anyhow::Result<Option<Found>> {
        match Found::installed(program) {
            Some(found) => Ok(Some(found)),
            None => self.find(&format!("usr/bin/{program}")),
        }
    }

    /// The program at this path in our folder, if it exists with all its dependencies. It is run
    /// with the loader of that folder, which is `{root}`.
    pub(crate) fn find(&self, program: &str) -> anyhow::Result<Option<Found>> {
        let root = self.root()?;
        Ok(words(&root, program).map(|words| {
            let mut found = Found::default().with("root", root.display());
            found.0.set_all("program", words);
            found
        }))
    }

    fn root(&self) -> anyhow::Result<PathBuf> {
        Ok(host::cache_dir()?.join(self.folder))
    }
}

fn words(root: &Path, program: &str) -> Option<Vec<String>> {
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
        let is_loader = path.file_name()?.to_str()?.starts_with("ld-linux");
        (is_loader && host::is_program(&path)).then_some(path)
    })?;
    let shown = |path: &Path| path.display().to_string();
    Some(vec![
        shown(&loader),
        "--library-path".to_owned(),
        shown(&libraries),
        shown(&program),
    ])
}

/// The Debian mirror that this machine uses, if apt reports it.
fn mirror() -> Option<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    targets.args(["Origin: Debian", "Label: Debian"]);
    let said = host::output(&mut targets).ok()?;
    let mirror = said.lines().next()?;
    Some(mirror.trim_end_matches('/').to_owned())
}
