//! What other users of a host can read or change.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

use super::common::{Sandbox, done};

/// The file that the command writes while a name of it can be foreseen leads to another file.
#[test]
fn a_link_in_the_place_of_a_temporary_file_is_not_followed() {
    let sandbox = Sandbox::migrated();
    done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    fs::write(sandbox.path("target"), "kept").unwrap();
    // The shell's own number is that of the command that replaces it.
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let script =
        format!("umask 022; ln -s target \"out.prom.$$\"; exec {exe} metrics --textfile out.prom");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(sandbox.path(""));
    let written = done(shell.env("SHEDLOCK_STORE", sandbox.store()));
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(sandbox.read("target"), "kept");
    let file = fs::symlink_metadata(sandbox.path("out.prom")).unwrap();
    assert!(file.is_file());
    assert_eq!(file.mode() & 0o777, 0o644);
    assert!(sandbox.read("out.prom").contains("shedlock_"));
    let names = fs::read_dir(sandbox.path("")).unwrap();
    let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
    // The link that was there before.
    assert_eq!(names.filter(|it| it.starts_with("out.prom.")).count(), 1);
}

#[test]
fn a_link_in_the_place_of_a_manual_page_is_replaced() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("man")).unwrap();
    fs::write(sandbox.path("target"), "kept").unwrap();
    symlink("../target", sandbox.path("man/shedlock-run.1")).unwrap();
    let written = done(&mut sandbox.bare(&["man", "--dir", "man"]));
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(sandbox.read("target"), "kept");
    assert!(
        sandbox
            .read("man/shedlock-run.1")
            .contains(".TH shedlock-run")
    );
}
