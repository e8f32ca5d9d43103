//! Each page at each place, with nothing from another place, with and without JavaScript.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use serde_json::json;

use crate::common::eventually;
use crate::driver::Browser;
use crate::places::Place;
use crate::site::{Mount, Site};

/// The pages in the navigation: the link's text, the page, and a text on it.
pub(crate) const PAGES: [(&str, &str, &str); 6] = [
    ("Now", "now", "Needs attention"),
    ("Jobs", "jobs", "sync-inventory"),
    ("Locks", "locks", "import-mails"),
    ("Runs", "runs", "connection refused"),
    ("Stores", "stores", "Round trip"),
    ("Audit", "audit", "search cluster"),
];

/// Pages that others link to.
pub(crate) const LINKED: [(&str, &str); 7] = [
    ("job", "job?store=main&name=sync-inventory"),
    ("paused", "job?store=main&name=rebuild-index"),
    ("pause", "act?store=main&name=sync-inventory&do=pause"),
    ("resume", "act?store=main&name=rebuild-index&do=resume"),
    ("unlock", "act?store=main&name=import-mails&do=unlock"),
    ("extend", "act?store=main&name=import-mails&do=extend"),
    ("reset", "act?store=main&name=import-mails&do=slot-reset"),
];

pub(crate) fn each_page(browser: &Browser<'_>, place: &Place, mount: Mount) {
    let mut site = Site::start(place, mount);
    site.fill();
    // What Chromium itself did at its start.
    browser.requests();
    browser.open(&site.url);
    for (link, page, text) in PAGES {
        browser.follow(&format!("header nav a[href^='{page}']"));
        assert_eq!(browser.heading(), link);
        assert!(browser.url().starts_with(&format!("{}{page}", site.url)));
        let shown = browser.text();
        assert!(shown.contains(text), "{page}: {shown}");
        let here = browser.find("header nav [aria-current]");
        assert_eq!(browser.text_of(&here), link);
    }
    // The style sheet has been applied, and the script has run.
    let title: String = browser.run("return document.querySelector('main time').title");
    assert!(!title.is_empty(), "no local time");
    assert_style(browser);

    browser.follow("header nav a[href^='now']");
    let now = browser.text();
    for words in [
        "nightly-backup\toverdue\tfor ",
        "rebuild-index\tpaused\t",
        "disk of the search cluster is being replaced",
        "sync-inventory\tfailed\t",
        " ago: cannot reach warehouse:443: connection refused",
        "import-mails\theld for ",
    ] {
        assert!(now.contains(words), "no {words:?} in {now}");
    }
    assert!(!now.contains("payroll-export"), "{now}");
    browser.follow("main a[href*='nightly-backup']");
    assert_eq!(browser.heading(), "nightly-backup");
    browser.follow("main a[href^='runs']");
    assert_eq!(browser.heading(), "Runs");
    browser.write("input[name=name]", "nightly-backup");
    browser.follow("form.filter button");
    let rows: usize = browser.run("return document.querySelectorAll('tbody tr').length");
    assert_eq!(rows, 8);
    assert_quiet(browser, &site);

    browser.open(&format!("{}nowhere", site.url));
    assert!(browser.text().contains("there is no such page"));
    browser.follow("header nav a");
    assert_eq!(browser.heading(), "Now");
    // That the page does not exist is logged by Chromium.
    assert_eq!(browser.console().len(), 1);
}

fn assert_style(browser: &Browser<'_>) {
    let back: String =
        browser.run("return getComputedStyle(document.querySelector('thead th')).backgroundColor");
    assert_ne!(back, "rgba(0, 0, 0, 0)", "no style sheet");
}

/// Nothing was requested from another origin, refused by the Content-Security-Policy or wrong in a
/// script.
pub(crate) fn assert_quiet(browser: &Browser<'_>, site: &Site) {
    let origin = site.origin();
    let requests = browser.requests();
    assert!(!requests.is_empty());
    for url in requests {
        assert!(url.starts_with(&origin), "{url} is not of {origin}");
    }
    assert_eq!(browser.console(), [""; 0]);
}

/// A page that is open shows what happens, without a click.
pub(crate) fn live(browser: &Browser<'_>, place: &Place) {
    let site = Site::start(place, Mount::Root);
    browser.requests();
    browser.open(&format!("{}jobs", site.url));
    assert!(browser.text().contains("No job has run yet."));
    site.shedlock(&[
        "run",
        "-n",
        "first",
        "--lock-at-most-for",
        "1m",
        "--",
        "true",
    ]);
    eventually("the new job", || browser.text().contains("first\tok"));
    // The times that were added are the reader's own, too.
    let title: String = browser.run("return document.querySelector('main time').title");
    assert!(!title.is_empty(), "no local time");
    assert_quiet(browser, &site);
}

pub(crate) fn without_javascript(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.fill();
    browser.devtools(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    browser.open(&site.url);
    for (link, page, text) in PAGES {
        let element = browser.find(&format!("header nav a[href^='{page}']"));
        browser.click(&element);
        eventually("the page", || {
            browser.source().contains(&format!("<h1>{link}</h1>"))
        });
        assert!(browser.source().contains(text), "{page}");
    }
    browser.open(&format!("{}act?name=rebuild-index&do=resume", site.url));
    browser.click(&browser.find("form.act button"));
    eventually("the job", || browser.source().contains("Resumed."));
    assert_eq!(site.lock("rebuild-index")["state"], "free");
    // The script did not run: it adds the reader's time.
    let time = browser.find("main time");
    assert_eq!(browser.attribute(&time, "title"), None);
}

pub(crate) fn a_foreign_host_is_refused(_: &Browser<'_>, place: &Place) {
    let site = Site::start(place, Mount::Root);
    let status = |host: &str| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, site.port)).unwrap();
        let request = format!("GET /now HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("evil.example"), "403");
    assert_eq!(status(&format!("localhost:{}", site.port)), "200");
}
