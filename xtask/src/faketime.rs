//! libfaketime: wrong wall clocks for the torture's processes and for the command in its tests.

use crate::{debian, host};
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that contains the library's path for the torture, whose clocks are correct otherwise.
pub(crate) const VARIABLE: &str = "SHEDLOCK_TORTURE_FAKETIME";

/// The variable that contains the library's path for the other tests.
const VARIABLE_OF_TESTS: &str = "SHEDLOCK_TEST_FAKETIME";

/// The variables' value if the library is not available.
pub(crate) const UNAVAILABLE: &str = "unavailable";

const PACKAGES: [&str; 1] = ["libfaketime"];
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// The library, installed if it is missing and can be installed. Otherwise the command that
/// installs it.
pub(crate) fn library(no_install: bool) -> Result<PathBuf, String> {
    let mut found = find();
    if found.is_none() && !no_install && debian::can_install() {
        if let Err(error) = debian::install(&PACKAGES) {
            eprintln!("xtask: {error:#}");
        }
        found = find();
    }
    found.ok_or_else(|| {
        format!(
            "libfaketime is not installed: on Debian `{}`",
            debian::by_hand(&PACKAGES)
        )
    })
}

/// The variable for the tests that run the command with a wrong clock. They fail without the library.
pub(crate) fn export() -> (String, String) {
    let library = find().unwrap_or_else(|| UNAVAILABLE.into());
    let library = library.to_string_lossy().into_owned();
    (VARIABLE_OF_TESTS.to_owned(), library)
}

/// Searches the places where distributions put it: `/usr/lib/x86_64-linux-gnu`, `/usr/lib64`.
fn find() -> Option<PathBuf> {
    let of_this_machine = fs::read_dir("/usr/lib").ok()?;
    let folders = of_this_machine
        .filter_map(|entry| Some(entry.ok()?.path()))
        .chain(["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from));
    let mut libraries = folders.map(|folder| folder.join(LIBRARY));
    libraries.find(|library| is_of_this_machine(library))
}

/// If several architectures are installed side by side, whether this one is that of the current
/// program.
fn is_of_this_machine(library: &Path) -> bool {
    let machine = |path: &Path| {
        let head = fs::read(path).ok()?;
        // The class of an ELF file, and the machine it is for.
        Some((*head.get(4)?, [*head.get(18)?, *head.get(19)?]))
    };
    let ours = host::own_program().and_then(machine);
    machine(library).is_some_and(|theirs| Some(theirs) == ours)
}
