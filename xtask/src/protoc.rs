//! `protoc`, which the etcd client is built with.
//!
//! It is not a server, but is installed from the same sources in the same step.

use crate::{debian, host};
use anyhow::Context as _;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::Command;

/// The names of its `apt-get` packages: the compiler, and the definitions that every file may
/// import.
pub(crate) const PACKAGES: [&str; 2] = ["protobuf-compiler", "libprotobuf-dev"];

/// The start of the client's own files.
const TRY: &str = "syntax = \"proto3\";\nimport \"google/protobuf/descriptor.proto\";\n";

/// Whether a build will find it, and whether it works.
pub(crate) fn works() -> bool {
    compile().is_ok()
}

/// Fails, with instructions, if it does not work.
pub(crate) fn check() -> anyhow::Result<()> {
    compile().with_context(|| {
        format!(
            "no working `protoc`, which is needed to build the client of etcd: on Debian `{}`, \
             elsewhere install the protobuf compiler or name it in PROTOC",
            debian::by_hand(&PACKAGES)
        )
    })
}

fn compile() -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let source = folder.path().join("try.proto");
    fs::write(&source, TRY)
        .with_context(|| format!("{} could not be written", source.display()))?;
    // Found in the same way as by the build.
    let named = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty());
    let mut command = Command::new(named("PROTOC").unwrap_or_else(|| OsString::from("protoc")));
    command.arg("-I").arg(folder.path());
    if let Some(include) = named("PROTOC_INCLUDE") {
        command.arg("-I").arg(include);
    }
    command
        .arg("--descriptor_set_out")
        .arg(folder.path().join("out"))
        .arg(source);
    host::output(&mut command).map(drop)
}
