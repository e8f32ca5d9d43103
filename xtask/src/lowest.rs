//! `cargo xtask lowest`: the libraries build with the lowest versions that their manifests accept. A service with an older
//! lock file keeps its versions when it adds them.

use crate::host;
use crate::sqlx08;
use crate::steps;
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// What a service depends on. Programs have lock files of their own.
const MEMBERS: &str = r#"members = ["crates/core", "crates/macros", "crates/scheduler", "crates/shedlock", "stores/*"]
exclude = ["crates/cli", "crates/conformance", "stores/sqlx08"]"#;

/// What others depend on declares that it works with the lowest tokio, and does not since this version.
const BEFORE: [&str; 2] = ["tokio-util", "0.7.13"];

/// Copies the libraries, without what only their tests need, and builds them.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let folder = steps::target_folder().join("lowest");
    copy(&steps::workspace_root(), &folder)?;
    let target = folder.join("target");
    for workspace in sqlx08::PUBLISHED {
        build(&folder.join(workspace), &target)
            .with_context(|| format!("the workspace {workspace:?}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a workspace with the lowest versions.
fn build(workspace: &Path, target: &Path) -> anyhow::Result<()> {
    let cargo = |args: &[&str]| {
        let mut cargo = steps::cargo();
        cargo.current_dir(workspace).args(args);
        // Only a nightly cargo has the option to resolve so, or one that passes for it.
        let is_update = args.contains(&"-Z");
        cargo.env("CARGO_TARGET_DIR", target);
        cargo.envs(is_update.then_some(("RUSTC_BOOTSTRAP", "1")));
        let status = cargo.status().context("cannot start cargo")?;
        ensure!(status.success(), "`cargo {}` failed", args.join(" "));
        anyhow::Ok(())
    };
    let lock = workspace.join("Cargo.lock");
    if lock.exists() {
        fs::remove_file(&lock)?;
    }
    cargo(&["update", "-Z", "direct-minimal-versions", "--quiet"])
        .context("a manifest accepts a version that another dependency does not: raise it")?;
    let [package, version] = BEFORE;
    if fs::read_to_string(&lock)?.contains(&format!("name = \"{package}\"")) {
        cargo(&["update", "--quiet", package, "--precise", version])?;
    }
    cargo(&["check", "--workspace", "--all-features"])
}

/// Copies what git keeps of the libraries, or would keep. Files that have not changed keep their times, so that they are not
/// built again.
fn copy(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut list = Command::new("git");
    list.current_dir(root).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "Cargo.toml",
        "README.md",
        "crates",
        "stores",
    ]);
    for file in host::output(&mut list)?.lines() {
        let (from, to) = (root.join(file), folder.join(file));
        let mut content = fs::read(&from).with_context(|| from.display().to_string())?;
        if file.ends_with("Cargo.toml") {
            content = manifest(&String::from_utf8(content)?).into_bytes();
        }
        write(&to, &content)?;
    }
    Ok(())
}

fn write(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(file).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().context("a file in a folder")?)?;
    Ok(fs::write(file, content)?)
}

/// A manifest without dependencies for development, and without what needs them; the workspace's with the libraries alone.
fn manifest(text: &str) -> String {
    let mut kept = String::new();
    let mut is_kept = true;
    for line in text.lines() {
        if line.starts_with('[') {
            let is_for_tests = ["[[test]]", "[[example]]", "[[bench]]"].contains(&line);
            is_kept = !is_for_tests && !line.contains("dev-dependencies");
        }
        let is_of_all = ["exclude = ", "default-members = "]
            .iter()
            .any(|key| line.starts_with(key));
        match line.starts_with("members = ") {
            true => kept.push_str(MEMBERS),
            false if is_kept && !is_of_all => kept.push_str(line),
            false => continue,
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::manifest;

    #[test]
    fn what_only_tests_need_is_left_out() {
        let text = "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n\n[target.'cfg(unix)'.dev-dependencies]\nc = \"1\"\n\n\
                    [[test]]\nname = \"d\"\n\n[lints]\nworkspace = true\n";
        let kept =
            "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n\n[lints]\nworkspace = true\n";
        assert_eq!(manifest(text), kept);
        let of_all =
            manifest("[workspace]\nmembers = [\"all/*\"]\nexclude = [\"b\"]\nresolver = \"3\"\n");
        assert!(!of_all.contains("all/*") && of_all.ends_with("resolver = \"3\"\n"));
    }
}
