//! What README shows is done here as a reader would do it: pasted, and run in two terminals.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use shedlock_documentation::{cargo, in_checkout, root, shedlock, succeed};
use shedlock_rig::Running;
use shedlock_rig::wait::{PATIENCE, eventually};

/// The fenced blocks of README: the language, and the text.
fn blocks() -> Vec<(String, String)> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut blocks = Vec::new();
    let mut language = None;
    for event in Parser::new(&readme) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(of))) => {
                language = Some(of.into_string());
                blocks.push((language.clone().unwrap(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => language = None,
            Event::Text(text) if language.is_some() => blocks.last_mut().unwrap().1 += &text,
            _ => {}
        }
    }
    blocks
}

/// The blocks in this language, in order.
fn blocks_in(language: &str) -> Vec<String> {
    let blocks = blocks().into_iter().filter(|(of, _)| of == language);
    blocks.map(|(_, text)| text).collect()
}

/// A folder that is kept between runs, so that what is built in it is built once.
fn kept(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The published crates: their names, and folders with what would be uploaded.
fn packages() -> Vec<(String, PathBuf)> {
    let metadata = succeed(cargo().args(["metadata", "--no-deps", "--format-version", "1"]));
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let published = metadata["packages"].as_array().unwrap().iter();
    let published = published.filter(|package| package["publish"].is_null());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let published: Vec<_> = published
        .map(|package| (text(&package["name"]), text(&package["version"])))
        .collect();
    let folder = kept("packages");
    let mut package = cargo();
    package
        .args([
            "package",
            "--no-verify",
            "--allow-dirty",
            "--offline",
            "--quiet",
        ])
        .arg("--target-dir")
        .arg(&folder);
    for (name, _) in &published {
        package.args(["--package", name]);
    }
    succeed(&mut package);
    let unpack = |(name, version): (String, String)| {
        let to = folder.join("package");
        let archive = to.join(format!("{name}-{version}.crate"));
        // Files of an earlier run, which this one may have renamed.
        let _ = fs::remove_dir_all(to.join(format!("{name}-{version}")));
        succeed(
            // Files with the time of today: in an archive all have the same, so that cargo would use what it has built from
            // an earlier one.
            Command::new("tar")
                .args(["--touch", "-xf"])
                .arg(archive)
                .arg("-C")
                .arg(&to),
        );
        (name.clone(), to.join(format!("{name}-{version}")))
    };
    published.into_iter().map(unpack).collect()
}

/// A terminal in which this command was typed.
fn terminal(command: &mut Command) -> Running {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command).unwrap()
}

/// Replaces what differs from run to run: owner and time.
fn shape(line: &str) -> String {
    let mut words: Vec<_> = line.split_whitespace().collect();
    for word in &mut words {
        if word.matches('/').count() == 2 {
            *word = "OWNER";
        } else if word.starts_with("20") && word.ends_with('Z') {
            *word = "TIME";
        }
    }
    words.join(" ")
}

/// A manifest with these dependencies, of which ours are the packaged crates.
fn manifest(dependencies: &str) -> String {
    let mut manifest =
        "[package]\nname = \"try-it\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n".to_owned();
    manifest += dependencies;
    manifest += "\n[patch.crates-io]\n";
    for (name, folder) in packages() {
        manifest += &format!("{name} = {{ path = {folder:?} }}\n");
    }
    manifest += "\n[workspace]\n";
    manifest
}

#[test]
fn the_first_program_runs_against_the_packaged_crates_as_shown() {
    let [program, pool] = &blocks_in("toml")[..] else {
        panic!("how is each of these manifests tried?")
    };
    let folder = kept("try-it");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), &blocks_in("rust,no_run")[0]).unwrap();
    // The versions that were downloaded for the workspace.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest(pool)).unwrap();
    let resolved = ["tree", "--offline", "--quiet", "--depth", "1"];
    succeed(cargo().current_dir(&folder).args(resolved));
    fs::write(folder.join("Cargo.toml"), manifest(program)).unwrap();
    succeed(
        cargo()
            .current_dir(&folder)
            .args(["build", "--offline", "--quiet"])
            .args(["--target-dir", "target"]),
    );

    let empty = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = Command::new(folder.join("target/debug/try-it"));
        command.current_dir(empty.path());
        command
    };
    let [first, second] = <[String; 2]>::try_from(blocks_in("text")).unwrap();
    let terminal = terminal(&mut run());
    let line = terminal.output.next(PATIENCE).unwrap();
    assert_eq!(line.unwrap() + "\n", first);
    let printed = succeed(&mut run());
    assert_eq!(shape(&printed), shape(&second), "{printed}");
}

#[test]
fn the_command_runs_as_shown_and_the_second_one_is_skipped() {
    let blocks = blocks_in("sh");
    let [lines] = &blocks[..] else {
        panic!("how is each of these run? {blocks:?}")
    };
    let home = tempfile::tempdir().unwrap();
    let paste = || {
        let mut shell = in_checkout("sh");
        shell
            .args(["-euc", lines])
            .env("HOME", home.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("SHEDLOCK_STORE");
        for name in ["CARGO_HOME", "RUSTUP_HOME"] {
            let default = format!(".{}", name[..name.len() - 5].to_lowercase());
            let set = std::env::var_os(name).map(PathBuf::from);
            let own = std::env::home_dir().unwrap().join(default);
            shell.env(name, set.unwrap_or(own));
        }
        shell
    };
    // So that the second one does not wait for cargo until the first one has ended.
    shedlock();
    let mut terminals = [(); 2].map(|()| terminal(&mut paste()));
    // One of them runs its command; the other one is skipped, and ends before.
    let mut skipped = None;
    eventually("the end of one", || {
        skipped = terminals.iter_mut().position(|it| it.ended().is_some());
        skipped.is_some()
    });
    let skipped = terminals[skipped.unwrap()].errors.rest();
    assert!(skipped.contains("skipped"), "{skipped}");
    assert!(skipped.contains("held by "), "{skipped}");
    let database = home.path().join(".local/state/shedlock/locks.db");
    assert!(database.is_file(), "README names {}", database.display());
}

#[test]
fn the_line_of_the_crontab_runs_its_command() {
    let blocks = blocks_in("crontab");
    let [lines] = &blocks[..] else {
        panic!("how is each of these run? {blocks:?}")
    };
    let (variable, line) = lines.split_once('\n').unwrap();
    assert!(variable.starts_with("SHEDLOCK_STORE="), "{variable}");
    let command: String = line
        .split_whitespace()
        .skip(5)
        .collect::<Vec<_>>()
        .join(" ");
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    let shedlock = shedlock();
    succeed(Command::new(shedlock).args(["migrate", "--store", &store]));
    let command = command.replace("/usr/local/bin/shedlock", &shedlock.display().to_string());
    let command = command.replace("/opt/report", "echo reported");
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).env("SHEDLOCK_STORE", store);
    assert_eq!(succeed(&mut shell), "reported\n");
    // Its slot is taken.
    assert_eq!(succeed(&mut shell), "");
}

#[test]
fn every_block_is_compiled_or_run() {
    for (language, text) in blocks() {
        let known = ["toml", "rust", "rust,no_run", "text", "sh", "crontab"];
        assert!(
            known.contains(&&*language),
            "nothing tests this block: {text}"
        );
    }
}
