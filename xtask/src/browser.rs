//! Chromium, its driver and axe-core, for the tests of the dashboard in a real browser.

use crate::{debian, host};
use anyhow::Context as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The variable of the tests, the program, and its `apt-get` package.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("SHEDLOCK_TEST_CHROMIUM", "chromium", "chromium"),
    (
        "SHEDLOCK_TEST_CHROMEDRIVER",
        "chromedriver",
        "chromium-driver",
    ),
];

/// A bare machine has no font to draw pages with.
const FONT: &str = "fonts-dejavu-core";

/// The variable that contains the path of axe-core, which checks pages for accessibility.
const AXE_VARIABLE: &str = "SHEDLOCK_TEST_AXE";

/// Its version in npm's registry, and the SHA-256 of that package.
const AXE: (&str, &str) = (
    "4.14.1",
    "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
);

/// The variables' value if there is no browser: the tests then do not run.
const UNAVAILABLE: &str = "unavailable";

/// What the tests need, under the names of their variables.
type Found = Vec<(&'static str, PathBuf)>;

/// Installs what is missing. Returns which browser the tests will run in, or why they will not run.
pub(crate) fn provide(no_install: bool) -> Result<String, String> {
    if find().is_err() && !no_install {
        install();
    }
    find().map(|_| format!("{}, axe-core {}", version(), AXE.0))
}

/// The variables for the tests. Without a browser they report that they do not run.
pub(crate) fn exports() -> Vec<(String, String)> {
    let found = find().unwrap_or_else(|_| {
        let names = PROGRAMS.iter().map(|(name, ..)| *name);
        let names = names.chain([AXE_VARIABLE]);
        names.map(|name| (name, UNAVAILABLE.into())).collect()
    });
    let text = |(name, path): (&str, PathBuf)| (name.to_owned(), path.to_string_lossy().into());
    found.into_iter().map(text).collect()
}

fn find() -> Result<Found, String> {
    let mut found = Vec::new();
    for (variable, program, _) in PROGRAMS {
        let path = host::find_program(program).ok_or_else(|| {
            let packages = PROGRAMS.map(|(_, _, package)| package);
            format!(
                "no `{program}`: on Debian `{}`, elsewhere install Chromium and its driver so that \
                 both are in PATH",
                debian::by_hand(&packages)
            )
        })?;
        found.push((variable, path));
    }
    let axe = axe().map_err(|error| format!("{error:#}"))?;
    if !axe.is_file() {
        return Err(format!(
            "axe-core {} was not downloaded: install npm, and run this again with access to its \
             registry",
            AXE.0
        ));
    }
    found.push((AXE_VARIABLE, axe));
    Ok(found)
}

fn install() {
    let programs = PROGRAMS.map(|(_, program, package)| (program, package));
    let missing = programs.into_iter().chain([("npm", "npm")]);
    let missing = missing.filter(|(program, _)| host::find_program(program).is_none());
    let mut missing: Vec<_> = missing.map(|(_, package)| package).collect();
    if missing.contains(&"chromium") {
        missing.push(FONT);
    }
    if !missing.is_empty()
        && debian::can_install()
        && let Err(error) = debian::install(&missing)
    {
        eprintln!("xtask: {error:#}");
    }
    if let Err(error) = download_axe() {
        eprintln!("xtask: axe-core could not be downloaded: {error:#}");
    }
}

fn axe() -> anyhow::Result<PathBuf> {
    let name = format!("axe-core-{}.min.js", AXE.0);
    Ok(host::cache_dir()?.join(name))
}

fn download_axe() -> anyhow::Result<()> {
    let axe = axe()?;
    if axe.is_file() {
        return Ok(());
    }
    // In the folder of the file, which it is then moved to.
    let scratch = tempfile::tempdir_in(host::cache_dir()?).context("no temporary folder")?;
    let (version, expected) = AXE;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--ignore-scripts"]);
    pack.arg(format!("axe-core@{version}"));
    host::output(pack.current_dir(scratch.path()))?;
    let package = format!("axe-core-{version}.tgz");
    let mut sum = Command::new("sha256sum");
    let sum = host::output(sum.arg(&package).current_dir(scratch.path()))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    anyhow::ensure!(
        sum == expected,
        "{package} has the SHA-256 {sum} instead of {expected}: it is not the package of that version"
    );
    let mut extract = Command::new("tar");
    extract.arg("-xzf").arg(&package).arg("package/axe.min.js");
    host::output(extract.current_dir(scratch.path()))?;
    fs::rename(scratch.path().join("package/axe.min.js"), &axe)
        .with_context(|| format!("{} could not be written", axe.display()))
}

fn version() -> String {
    let version = host::output(Command::new("chromium").arg("--version"));
    let version = version.unwrap_or_else(|_| "Chromium".to_owned());
    version.lines().next().unwrap_or_default().trim().to_owned()
}
