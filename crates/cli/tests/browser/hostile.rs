//! Names and errors are untrusted: they are shown as text, whatever they contain.

use std::time::Duration;

use serde_json::Value;
use shedlock::{JobChange, JournalEntry};

use crate::common::calendar;
use crate::driver::Browser;
use crate::pages::{PAGES, assert_quiet};
use crate::places::Place;
use crate::site::{Mount, Site, run};

/// Markup of each kind, with a mark that reverses the direction of text.
const MARKUP: &str = "<img src=x onerror=document.title='owned'>\"'&lt;</td></table>\u{202e}gpj";

pub(crate) fn names_and_errors(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.fill();
    let now = calendar();
    let name = &MARKUP[..60];
    let long = format!("{MARKUP}\n{}", "long error ".repeat(10_000));
    let mut job = JobChange::new(name);
    job.schedule = Some(MARKUP.to_owned());
    site.record(&[
        JournalEntry::Job(job),
        run(name, now, Duration::from_secs(1), Some(&long)),
        run(
            &"w".repeat(250),
            now,
            Duration::from_secs(1),
            Some(&"w".repeat(100_000)),
        ),
    ]);
    site.shedlock(&[
        "pause",
        name,
        "--create",
        "--reason",
        "<b>bold</b> & \"quoted\"",
    ]);
    browser.requests();
    browser.set_width(390);
    for (_, page, _) in PAGES {
        browser.open(&format!("{}{page}", site.url));
        assert_is_text(browser);
    }
    browser.open(&format!("{}now", site.url));
    browser.follow("main a[href*='onerror']");
    assert_is_text(browser);
    assert_eq!(browser.heading(), name);
    let shown = browser.text();
    assert!(shown.contains("<b>bold</b>"), "{shown}");
    browser.follow("a.button[href*='do=resume']");
    assert_is_text(browser);
    assert_eq!(browser.heading(), format!("Resume: {name}"));
    browser.follow("form.act button");
    assert_eq!(browser.heading(), name);
    assert_is_text(browser);
    assert_quiet(browser, &site);
}

/// No element came from data, nothing changes the direction of the page, and the page is neither
/// wider than its window nor endless.
fn assert_is_text(browser: &Browser<'_>) {
    let found: Value = browser.run(
        "return [document.querySelectorAll('main img, main b, main script').length,
                 document.title === 'owned',
                 /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText),
                 document.documentElement.scrollWidth <= innerWidth,
                 document.body.innerText.length < 50000]",
    );
    let url = browser.url();
    assert_eq!(
        found,
        serde_json::json!([0, false, false, true, true]),
        "{url}"
    );
}
