//! Every link between the repository's Markdown files leads somewhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use shedlock_documentation::root;

/// A Markdown file: its links, and the anchors of its headings.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let root = root();
    let mut pages = BTreeMap::new();
    collect(root, &mut pages);
    assert!(pages.len() > 50, "only {} Markdown files", pages.len());
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            if let Some(why) = problem(path, link, &pages) {
                let path = path.strip_prefix(root).unwrap().display();
                broken.push(format!("{path}: {link}: {why}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, pages);
        } else if name.ends_with(".md") {
            let page = Page::read(&fs::read_to_string(&path).unwrap());
            pages.insert(path, page);
        }
    }
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let again = (1..).map(|n| format!("{anchor}-{n}"));
                    let anchor = std::iter::once(anchor.clone())
                        .chain(again)
                        .find(|anchor| !page.anchors.contains(anchor));
                    page.anchors.extend(anchor);
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// As GitHub derives it from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

fn problem(from: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<String> {
    // Those to other sites, and those to items, which rustdoc checks.
    let is_item = !link.contains(['/', '.', '#']) || link.contains("::");
    if link.contains("://") || link.starts_with("mailto:") || is_item {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        from.to_owned()
    } else {
        normal(&from.parent()?.join(file))
    };
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let is_known = |page: &Page| anchor.is_empty() || page.anchors.contains(anchor);
    match pages.get(&target) {
        Some(page) if !is_known(page) => Some(format!("no heading has the anchor {anchor}")),
        _ => None,
    }
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

#[test]
fn a_broken_link_is_found() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = Page::read(
        "# One `two`, three\n\n[a](#one-two-three) [b](#four) [c](none.md) [d](Self::new)\n",
    );
    assert_eq!(page.links.len(), 4);
    let found = |link: &str| {
        let pages = BTreeMap::from([(here.clone(), Page::read("# One `two`, three\n"))]);
        problem(&here, link, &pages)
    };
    assert!(found("none.md").is_some() && found("Self::new").is_none());
    assert!(page.anchors.contains("one-two-three"));
}
