//! The Dockerfile: what can be checked without building the image.

use std::fs;
use std::path::Path;

use shedlock_documentation::root;

use super::recipe;

/// The arguments of the instructions with this name.
fn instructions(name: &str) -> Vec<String> {
    let joined = recipe("Dockerfile").replace("\\\n", " ");
    let lines = joined
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_image_is_built_with_the_command_of_the_readme_and_the_oldest_rust() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let build = "cargo build --release --package shedlock-cli";
    assert!(
        readme.contains(&format!("`{build}`")),
        "README builds it differently"
    );
    assert_eq!(instructions("RUN")[0], format!("{build} --locked"));
    assert!(root().join("Cargo.lock").is_file());
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let oldest = manifest
        .lines()
        .find_map(|it| it.strip_prefix("rust-version = "))
        .unwrap();
    let image = format!("rust:{}-slim-bookworm AS build", oldest.trim_matches('"'));
    assert_eq!(instructions("FROM")[0], image);
}

#[test]
fn the_binary_is_where_the_other_recipes_expect_it() {
    let copies = instructions("COPY");
    assert_eq!(copies[0], ". .");
    let words: Vec<&str> = copies[1].split(' ').collect();
    let ["--from=build", built, installed] = words[..] else {
        panic!("{words:?}")
    };
    let folder = &instructions("WORKDIR")[0];
    assert_eq!(
        Path::new(built),
        Path::new(folder).join("target/release/shedlock")
    );
    assert_eq!(instructions("ENTRYPOINT"), [format!("[\"{installed}\"]")]);
    for other in [
        "crontab",
        "shedlock-report.service",
        "cronjob.yaml",
        "deployment.yaml",
    ] {
        assert!(recipe(other).contains(installed), "{other}");
    }
    // The user of the pods.
    let user = &instructions("USER")[0];
    let (user, group) = user.split_once(':').unwrap();
    for other in ["cronjob.yaml", "deployment.yaml"] {
        assert!(
            recipe(other).contains(&format!("runAsUser: {user}\n")),
            "{other}"
        );
        assert!(
            recipe(other).contains(&format!("runAsGroup: {group}\n")),
            "{other}"
        );
    }
}
