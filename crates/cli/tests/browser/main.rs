//! The dashboard in a real browser: Chromium, which chromedriver drives.
//!
//! Screenshots of each page are in `target/tmp/dashboard`.

#![cfg(feature = "ui")]
#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;
mod driver;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;

use common::{Sandbox, done, signal};
use driver::{Browser, Driver, Look};
use fantoccini::Locator;
use rustix::process::Signal;

const PAGES: [(&str, &str); 8] = [
    ("now", "Now"),
    ("jobs", "Jobs"),
    ("job?name=payroll", "payroll"),
    ("locks", "Locks"),
    ("runs", "Runs"),
    ("stores", "Stores"),
    ("audit", "Audit"),
    ("act?name=payroll&do=pause", "Pause: payroll"),
];

/// What is wrong with the page, as a list of texts.
const CHECK: &str = include_str!("check.js");

/// A dashboard that stops with the test.
struct Dashboard {
    child: Child,
    url: String,
}

impl Dashboard {
    fn start(sandbox: &Sandbox, options: &[&str]) -> Self {
        let arguments = [&["ui", "--listen", "127.0.0.1:0"][..], options].concat();
        let mut child = sandbox.shedlock(&arguments).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://"), "not started: {line}");
        Self { child, url }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A store with jobs in each state.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    done(&mut sandbox.shedlock(&["migrate", "--journal"]));
    for _ in 0..3 {
        done(&mut sandbox.run("payroll", "1m", "true"));
    }
    let every = ["--every", "1h"];
    done(&mut sandbox.run_with("invoices", "1m", &every, "echo no >&2; exit 3"));
    let schedule = ["--schedule", "* * * * *"];
    done(&mut sandbox.run_with("heartbeat", "1m", &schedule, "true"));
    done(&mut sandbox.run("<b>\u{202e}gnol-yrev-", "1m", "exit 1"));
    let why = [
        "pause",
        "payroll",
        "--reason",
        "the bank is down",
        "--for",
        "2h",
    ];
    assert_eq!(done(&mut sandbox.shedlock(&why)).code, 0);
    sandbox
}

fn test(run: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run);
}

async fn heading(browser: &Browser) -> String {
    let heading = browser.find(Locator::Css("h1")).await.unwrap();
    heading.text().await.unwrap()
}

/// Follows the link or presses the button with this text.
async fn press(browser: &Browser, text: &str) {
    let path = format!("//*[self::a or self::button][normalize-space()='{text}']");
    let found = browser.find(Locator::XPath(&path)).await;
    found.unwrap().click().await.unwrap();
}

async fn fill(browser: &Browser, field: &str, text: &str) {
    let field = format!("[name={field}]");
    let found = browser.find(Locator::Css(&field)).await.unwrap();
    found.send_keys(text).await.unwrap();
}

#[test]
fn each_page_is_right_at_both_widths_in_light_and_dark() {
    let sandbox = sandbox();
    let driver = Driver::start();
    let dashboard = Dashboard::start(&sandbox, &[]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    fs::create_dir_all(&folder).unwrap();
    test(async {
        for width in [390, 1440] {
            let browser = driver.open(&Look::of_width(width)).await;
            for scheme in ["light", "dark"] {
                browser.prefer(scheme).await;
                for (page, title) in PAGES {
                    let at = format!("{page} at {width}, {scheme}");
                    browser
                        .goto(&format!("{}{page}", dashboard.url))
                        .await
                        .unwrap();
                    assert_eq!(heading(&browser).await, title, "{at}");
                    let name = page.replace(['?', '&', '='], "-");
                    let file = folder.join(format!("{name}-{width}-{scheme}.png"));
                    fs::write(file, browser.screenshot().await.unwrap()).unwrap();
                    let wrong = browser.execute(CHECK, Vec::new()).await.unwrap();
                    assert_eq!(wrong, serde_json::json!([]), "{at}");
                    assert_eq!(browser.console().await, Vec::<String>::new(), "{at}");
                }
            }
            browser.end().await;
        }
    });
}

#[test]
fn an_operator_needs_no_javascript_and_no_root_path() {
    let sandbox = sandbox();
    let driver = Driver::start();
    let dashboard = Dashboard::start(&sandbox, &["--prefix", "/ops/shedlock"]);
    test(async {
        let browser = driver.open(&Look::without_scripts()).await;
        browser.goto(&dashboard.url).await.unwrap();
        assert_eq!(heading(&browser).await, "Now");
        press(&browser, "payroll").await;
        press(&browser, "Resume…").await;
        press(&browser, "Resume").await;
        let notice = browser.find(Locator::Css("[role=status]")).await.unwrap();
        assert_eq!(notice.text().await.unwrap(), "Resumed.");
        assert_eq!(sandbox.lock("payroll")["state"], "free");
        press(&browser, "Pause…").await;
        fill(&browser, "reason", "audit").await;
        fill(&browser, "for", "30m").await;
        press(&browser, "Pause").await;
        assert_eq!(sandbox.lock("payroll")["pause_reason"], "audit");
        press(&browser, "Resume…").await;
        press(&browser, "Resume").await;

        let script = "echo x > up; exec sleep 60";
        let mut holder = sandbox.run("payroll", "1m", script).spawn().unwrap();
        sandbox.await_lines("up", 1);
        press(&browser, "Jobs").await;
        press(&browser, "payroll").await;
        press(&browser, "Extend…").await;
        fill(&browser, "for", "1h").await;
        press(&browser, "Extend").await;
        press(&browser, "Unlock…").await;
        fill(&browser, "typed", "payroll").await;
        press(&browser, "Unlock").await;
        let notice = browser.find(Locator::Css("[role=status]")).await.unwrap();
        assert_eq!(notice.text().await.unwrap(), "Unlocked.");
        assert_eq!(sandbox.lock("payroll")["state"], "free");
        signal(holder.id(), Signal::TERM);
        holder.wait().unwrap();

        press(&browser, "Audit").await;
        let page = browser.source().await.unwrap();
        for action in ["paused", "resumed", "extended", "freed"] {
            assert!(page.contains(&format!("<bdi>{action}</bdi>")), "{page}");
        }
        let here = browser.current_url().await.unwrap();
        assert_eq!(here.path(), "/ops/shedlock/audit");
        browser.end().await;
    });
}

#[test]
fn a_live_page_shows_what_happens_while_it_is_open() {
    let sandbox = sandbox();
    let driver = Driver::start();
    let dashboard = Dashboard::start(&sandbox, &[]);
    test(async {
        let browser = driver.open(&Look::of_width(1440)).await;
        browser
            .goto(&format!("{}jobs", dashboard.url))
            .await
            .unwrap();
        done(&mut sandbox.run("new-job", "1m", "true"));
        let wait = browser.wait().at_most(std::time::Duration::from_secs(30));
        let link = wait
            .for_element(Locator::LinkText("new-job"))
            .await
            .unwrap();
        assert!(link.is_displayed().await.unwrap());
        // The reader's own time.
        let time = browser.find(Locator::Css("main time")).await.unwrap();
        assert!(time.attr("title").await.unwrap().is_some());
        assert_eq!(browser.console().await, Vec::<String>::new());
        browser.end().await;
    });
}
