//! What axe-core finds, and whether a keyboard is enough.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::driver::Browser;
use crate::pages::{LINKED, PAGES};
use crate::places::Place;
use crate::site::{Mount, Site};

/// The paths of all pages.
fn paths() -> impl Iterator<Item = &'static str> {
    let linked = LINKED.iter().map(|(_, path)| *path);
    PAGES.iter().map(|(_, path, _)| *path).chain(linked)
}

pub(crate) fn axe(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.fill();
    let axe = browser.axe();
    let mut found = Vec::new();
    for scheme in ["light", "dark"] {
        browser.set_scheme(scheme);
        for path in paths().chain(["nowhere"]) {
            browser.open(&format!("{}{path}", site.url));
            browser.run::<Value>(&format!("{axe}; return null"));
            let result: Vec<String> = browser.run_async(
                "const done = arguments[0];
                 axe.run(document, {resultTypes: ['violations']}).then(
                   (it) => done(it.violations.flatMap((rule) => rule.nodes.map((node) =>
                     `${rule.id}: ${node.html}: ${node.failureSummary}`))),
                   (error) => done([String(error)]))",
            );
            found.extend(
                result
                    .into_iter()
                    .map(|it| format!("{scheme} {path}: {it}")),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Numbers everything that can be used in the order of the page, and returns how many there are.
const NUMBER: &str = "
    const all = [...document.querySelectorAll(
      'a[href], button, input:not([type=hidden]), select, [tabindex=\"0\"]')];
    all.forEach((it, at) => { it.dataset.number = at; });
    return all.length";

/// The number of what has the focus, and whether it is drawn around it.
const FOCUSED: &str = "
    const it = document.activeElement;
    const style = getComputedStyle(it);
    const box = it.getBoundingClientRect();
    return [Number(it.dataset.number ?? -1),
            style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 &&
              box.width > 0 && box.right > 0 && box.bottom > 0]";

pub(crate) fn keyboard(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.fill();
    for path in paths() {
        browser.open(&format!("{}{path}", site.url));
        let all: i64 = browser.run(NUMBER);
        let mut reached = Vec::new();
        for _ in 0..all {
            press(browser, "Tab");
            let (number, is_visible): (i64, bool) = browser.run(FOCUSED);
            assert!(is_visible, "{path}: the focus on {number} is not visible");
            reached.push(number);
        }
        let in_order: Vec<_> = (0..all).collect();
        assert_eq!(reached, in_order, "{path}");
        assert_eq!(BTreeSet::from_iter(&reached).len(), reached.len());
    }
    // The first stop skips the navigation.
    browser.open(&format!("{}now", site.url));
    press(browser, "Tab");
    press(browser, "Enter");
    let focused: String = browser.run("return document.activeElement.id");
    assert_eq!(focused, "main");
    press(browser, "Tab");
    let is_in_main: bool =
        browser.run("return document.getElementById('main').contains(document.activeElement)");
    assert!(is_in_main);
}

fn press(browser: &Browser<'_>, key: &str) {
    let (code, text) = match key {
        "Tab" => (9, ""),
        _ => (13, "\r"),
    };
    for event in ["keyDown", "keyUp"] {
        let event = json!({
            "type": event, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text
        });
        browser.devtools("Input.dispatchKeyEvent", event);
    }
}
