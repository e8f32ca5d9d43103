//! Each action, clicked through as an operator does, and what the command reports afterwards.

use crate::driver::Browser;
use crate::pages::assert_quiet;
use crate::places::Place;
use crate::site::{Mount, Site};

/// Opens the form of an action from the page of a job.
fn open_form(browser: &Browser<'_>, site: &Site, name: &str, action: &str) {
    browser.open(&format!("{}job?name={name}", site.url));
    browser.follow(&format!("a.button[href*='do={action}']"));
}

/// Sends the form. The page of the job reports the action.
fn send(browser: &Browser<'_>, site: &Site, name: &str, report: &str) {
    browser.follow("form.act button");
    assert_eq!(browser.heading(), name);
    assert!(browser.url().starts_with(&format!("{}job?", site.url)));
    let status = browser.find("[role=status]");
    assert_eq!(browser.text_of(&status), report);
}

/// What the audit must say about the last action.
fn assert_recorded(site: &Site, name: &str, action: &str, detail: &str, reason: Option<&str>) {
    let audit = site.audit(name);
    let last = &audit[0];
    assert_eq!(last["action"], action, "{audit:?}");
    assert_eq!(last["reason"].as_str(), reason, "{audit:?}");
    let text = last["detail"].as_str().unwrap();
    assert!(text.contains(detail), "{audit:?}");
    assert!(last["by"].as_str().unwrap().contains('@'), "{audit:?}");
}

pub(crate) fn each_action(browser: &Browser<'_>, place: &Place, mount: Mount) {
    let mut site = Site::start(place, mount);
    browser.requests();

    let run = [
        "run",
        "-n",
        "report",
        "--every",
        "1h",
        "--slot-tolerance",
        "1h",
    ];
    let run = [&run[..], &["--lock-at-most-for", "1m", "--", "true"]].concat();
    site.shedlock(&run);
    open_form(browser, &site, "report", "pause");
    browser.write("input[name=reason]", "moving the mail server");
    browser.write("input[name=for]", "2h");
    send(browser, &site, "report", "Paused.");
    let paused = site.lock("report");
    assert_eq!(paused["state"], "paused");
    let owner = paused["owner"].as_str().unwrap();
    assert!(owner.ends_with("paused: moving the mail server"), "{owner}");
    assert_recorded(
        &site,
        "report",
        "pause",
        "until ",
        Some("moving the mail server"),
    );
    assert!(browser.text().contains("moving the mail server"));

    open_form(browser, &site, "report", "resume");
    browser.tick("input[name=catch_up]");
    send(browser, &site, "report", "Resumed.");
    assert_eq!(site.lock("report")["state"], "free");
    assert_recorded(&site, "report", "resume", "--catch-up", None);

    open_form(browser, &site, "report", "slot-reset");
    browser.write("input[name=to]", "2026-01-02T03:04:05Z");
    send(browser, &site, "report", "The last slot was reset.");
    assert_eq!(site.lock("report")["last_slot"], "2026-01-02T03:04:05Z");
    assert_recorded(&site, "report", "slot-reset", "2026-01-02T03:04:05Z", None);

    site.hold("import mails/α");
    let name = "import mails/α";
    let before = site.lock(name)["locked_until"].as_str().unwrap().to_owned();
    browser.open(&format!("{}locks", site.url));
    browser.follow("main a[href*='import']");
    browser.follow("a.button[href*='do=extend']");
    browser.write("input[name=for]", "3h");
    send(browser, &site, name, "The lease was extended.");
    let after = site.lock(name)["locked_until"].as_str().unwrap().to_owned();
    assert!(after > before, "{before}, then {after}");
    assert_recorded(&site, name, "extend", "", None);

    browser.follow("a.button[href*='do=unlock']");
    browser.write("input[name=typed]", name);
    send(browser, &site, name, "Unlocked.");
    assert_eq!(site.lock(name)["state"], "free");
    assert_recorded(&site, name, "unlock", "", None);

    browser.follow("header nav a[href^='audit']");
    let audit = browser.text();
    for action in ["paused", "resumed", "slot reset", "extended", "freed"] {
        assert!(audit.contains(action), "no {action} in {audit}");
    }
    assert_quiet(browser, &site);
}

/// An action that cannot be done changes nothing, and the page says why.
pub(crate) fn refusals(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.hold("import");
    let refused = |why: &str| {
        browser.follow("form.act button");
        let alert = browser.find("[role=alert]");
        let text = browser.text_of(&alert);
        assert!(text.contains(why), "{text}");
        assert_eq!(site.lock("import")["state"], "held");
        assert_eq!(site.audit("import").len(), 0);
    };
    open_form(browser, &site, "import", "unlock");
    browser.write("input[name=typed]", "Import");
    refused("type it exactly");
    open_form(browser, &site, "import", "pause");
    refused("a task holds the lock");
    open_form(browser, &site, "import", "extend");
    browser.write("input[name=for]", "soon");
    refused("soon");
    // Chromium does not send a form without the name.
    open_form(browser, &site, "import", "unlock");
    browser.tick("form.act button");
    assert_eq!(browser.heading(), "Unlock: import");

    // A page of another origin cannot send the form, even with everything right.
    let act = format!("{}act", site.url);
    let other = site.url.replace("127.0.0.1", "localhost");
    browser.open(&format!("{other}now"));
    browser.devtools("Page.setBypassCSP", serde_json::json!({"enabled": true}));
    browser.open(&format!("{other}now"));
    let script = format!(
        "const form = document.createElement('form');
         form.method = 'post'; form.action = '{act}';
         for (const [name, value] of [['name', 'import'], ['do', 'unlock'], ['typed', 'import']]) {{
           const field = document.createElement('input');
           field.name = name; field.value = value; form.append(field);
         }}
         form.className = 'act';
         form.append(document.createElement('button'));
         document.getElementById('main').append(form);
         return null"
    );
    browser.run::<serde_json::Value>(&script);
    refused("the request did not come from a page of this dashboard");
}
