//! Tests of how test executables are run.

use super::*;
use std::os::unix::process::CommandExt as _;

fn executable(folder: &Path, package: &str, target: &str) -> Executable {
    Executable {
        package: package.to_owned(),
        version: "0.1.0".to_owned(),
        target: target.to_owned(),
        manifest: folder.join("Cargo.toml"),
        path: folder.join(target),
    }
}

#[test]
fn only_what_cargo_built_for_tests_is_run() {
    let message = |test: bool, executable: &str| {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/core#shedlock-core@0.1.0",
            "manifest_path":"/w/core/Cargo.toml","profile":{{"opt_level":"0","test":{test}}},
            "target":{{"kind":["test"],"name":"lost","src_path":"/w/core/tests/lost.rs"}},
            "executable":{executable}}}"#
        )
    };
    let found = Executable::of_message(&message(true, "\"/t/lost\"")).unwrap();
    assert_eq!(found.folder(), Path::new("/w/core"));
    assert_eq!((&*found.version, &*found.target), ("0.1.0", "lost"));
    assert_eq!(Executable::of_message(&message(false, "\"/t/lost\"")), None);
    assert_eq!(Executable::of_message(&message(true, "null")), None);
    let others = r#"{"reason":"build-finished","success":true}"#;
    assert_eq!(Executable::of_message(others), None);
    assert_eq!(Executable::of_message("   Compiling shedlock-core"), None);
}

#[test]
fn a_package_is_named_by_its_id_or_by_its_folder() {
    let core = package_of("path+file:///w/core#shedlock-core@0.1.0").unwrap();
    assert_eq!(core, ("shedlock-core".to_owned(), "0.1.0".to_owned()));
    let xtask = package_of("path+file:///w/xtask#0.0.0").unwrap();
    assert_eq!(xtask, ("xtask".to_owned(), "0.0.0".to_owned()));
}

#[test]
fn cargo_runs_the_targets_without_a_main_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"sql\"\n\n[[test]]\nname = \"kit\"\nharness = false\n\n[[test]]\nname = \"late\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    let of = |target: &str| executable(folder.path(), "sql", target);
    let built = || ["lib", "kit", "late", "quick"].map(|name| (of(name), name != "lib"));
    let cargo = |words: &[&str]| Task::Cargo(words.iter().map(|it| (*it).to_owned()).collect());
    let expected = [
        cargo(&["--lib", "--bins", "--test", "late"]),
        cargo(&["--test", "quick"]),
        cargo(&["--doc"]),
        Task::Own(of("kit")),
    ];
    assert_eq!(tasks(built().into()).unwrap(), expected);
    // Another package's target, which `--test kit` would run as well.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("Cargo.toml"), "[package]\n").unwrap();
    let mut built = built().to_vec();
    built.push((executable(other.path(), "nats", "kit"), true));
    assert!(tasks(built).is_err());
}

#[test]
fn each_one_runs_once_and_what_it_prints_is_printed_whole() {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, ends: &str| {
        let path = folder.path().join(name);
        let text = format!(
            "#!/bin/sh\necho \"test $CARGO_PKG_NAME in $PWD told $TOLD\"\necho on stderr >&2\n{ends}\n"
        );
        // Another process writes the executable file. While this one had it open, a test beside
        // this one could start a program, which would inherit it and make it "busy".
        let source = folder.path().join(format!("{name}.txt"));
        fs::write(&source, text).unwrap();
        let mut install = Command::new("install");
        install.args(["-m", "755"]).args([&source, &path]);
        assert!(install.status().unwrap().success());
        Task::Own(executable(folder.path(), name, name))
    };
    let passes = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'\n\
                  echo '7 cases left out on variants (2): …'";
    let mut tasks: Vec<_> = (0..5)
        .map(|number| program(&format!("good-{number}"), passes))
        .collect();
    tasks.push(program("bad", "kill -9 $$"));
    // It and its child are silent for longer than is allowed.
    tasks.push(program("hangs", "sleep 300 & sleep 300"));
    let mut counts = Counts::default();
    let told = |command: &mut Command| {
        command.env("TOLD", "all");
    };
    let start = Start {
        folder: folder.path(),
        environment: &told,
        spawn: &|_, command| Ok(command.process_group(0).spawn()?),
        forget: &|_| (),
        silence: Duration::from_secs(20),
    };
    assert!(!run_all(tasks, &start, &mut counts).unwrap());
    assert_eq!(counts.failed_in(), "bad bad, hangs hangs");
    let Counts {
        passed,
        ignored,
        left_out,
        ..
    } = counts;
    assert_eq!((passed, ignored, left_out), (15, 5, 35));
    let said = counts.failures();
    let folder = fs::canonicalize(folder.path()).unwrap();
    let expected = format!("test bad in {} told all\non stderr\n", folder.display());
    assert!(said.contains(&expected), "{said}");
    assert!(!said.contains("good"), "{said}");
    assert!(
        said.contains("hangs hangs hung: it was killed after 20 s"),
        "{said}"
    );
}
