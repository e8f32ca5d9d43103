//! The dashboard in a real Chromium, with real stores behind it: `shedlock ui` as users start it.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]
#![allow(clippy::print_stderr, reason = "of a test program")]

mod accessibility;
mod actions;
#[path = "../command/common.rs"]
mod common;
mod driver;
mod hostile;
mod pages;
#[allow(dead_code, reason = "each test program uses its part of it")]
#[path = "../stores/places.rs"]
mod places;
mod proxy;
mod screenshots;
mod site;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use driver::{Browser, Driver, Programs};
use places::Place;
use shedlock_rig::given;
use site::Mount;

/// Each needs a processor.
const BROWSERS: usize = 2;

fn main() -> ExitCode {
    given::needs("a browser");
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(BROWSERS);
    let programs = match Programs::find() {
        Ok(Some(programs)) => Arc::new(programs),
        Ok(None) => {
            eprintln!(
                "NOT TESTED: there is no browser; `cargo xtask test` reports what is missing"
            );
            return ExitCode::SUCCESS;
        }
        // Reported by each test.
        Err(_) => Arc::default(),
    };
    // The HTTP client of the driver wants one, though the driver speaks plain HTTP.
    let provider = rustls::crypto::ring::default_provider();
    provider.install_default().expect("it is the first one");
    let driver = Arc::new(Driver::new(programs));
    let places = places::all().into_iter();
    let places = places.filter(|it| ["sqlite", "postgres", "redis"].contains(&it.name));
    let mut trials = Vec::new();
    for place in places {
        let mut add = |name: &str, test: fn(&Browser<'_>, &Place)| {
            let driver = driver.clone();
            let name = format!("{name}_{}", place.name);
            trials.push(Trial::test(name.clone(), move || {
                Ok(in_browser(&driver, &name, |it| test(it, &place))?)
            }));
        };
        add("pages_at_the_root", |it, place| {
            pages::each_page(it, place, Mount::Root);
        });
        add("actions_at_the_root", |it, place| {
            actions::each_action(it, place, Mount::Root);
        });
        // The store makes no difference to the rest, but each is behind a prefix once.
        match place.name {
            "sqlite" => {
                add("names_and_errors_are_text", hostile::names_and_errors);
                add("works_without_javascript", pages::without_javascript);
                add("live", pages::live);
                add("foreign_hosts", pages::a_foreign_host_is_refused);
                add("keyboard", accessibility::keyboard);
                add("screenshots", screenshots::each_page);
            }
            "postgres" => {
                add("pages_under_a_prefix", |it, place| {
                    pages::each_page(it, place, Mount::Prefix);
                });
                add("actions_behind_a_proxy", |it, place| {
                    actions::each_action(it, place, Mount::Proxy);
                });
                add("axe", accessibility::axe);
            }
            _ => {
                add("pages_behind_a_proxy", |it, place| {
                    pages::each_page(it, place, Mount::Proxy);
                });
                add("actions_under_a_prefix", |it, place| {
                    actions::each_action(it, place, Mount::Prefix);
                });
                add("refusals", actions::refusals);
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    driver.stop();
    conclusion.exit_code()
}

/// Runs a test in a browser of its own. A failed one leaves a picture of the page.
fn in_browser(driver: &Driver, name: &str, test: impl FnOnce(&Browser<'_>)) -> Result<(), String> {
    let browser = driver.open()?;
    let result = catch_unwind(AssertUnwindSafe(|| test(&browser)));
    if result.is_err() {
        browser.keep_evidence(name);
    }
    browser.close();
    result.or_else(|panic| resume_unwind(panic))
}
