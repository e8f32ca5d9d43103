//! How long the server takes for each page, without a network.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use axum::Router;
use shedlock_core::LockProvider;
use shedlock_ui::Dashboard;

use super::{get, latencies, micros, millis_at};
use crate::site::Site;

/// How often each page is requested.
const REQUESTS: u32 = 50;

/// A page that reads all of the store: for each request, or once for all within 5 s.
const NOW: &str = "now";

const PAGES: [&str; 16] = [
    NOW,
    "jobs",
    "jobs?after=job-05000",
    "job?name=job-05000",
    "locks",
    "runs",
    "runs?job=job-05000",
    "runs?outcome=failed",
    "runs?outcome=lost",
    "stores",
    "audit",
    "api/jobs",
    "api/jobs?limit=1000",
    "api/locks",
    "api/runs",
    "api/stores",
];

pub(super) fn router(provider: &Arc<dyn LockProvider>) -> anyhow::Result<Router> {
    let dashboard = Dashboard::builder().store("main", provider.clone());
    Ok(dashboard.build()?.router())
}

pub(super) async fn measure(site: &Site) -> anyhow::Result<()> {
    let provider = site.provider(10).await?;
    let router = router(&provider)?;
    println!("| page | p50, ms | p99, ms |\n|---|---|---|");
    let mut pages: Vec<String> = PAGES.map(|page| format!("/{page}")).into();
    pages.push(format!("/runs?since={}", an_hour_ago()?));
    for page in &pages {
        let [p50, p99] = time(page, || Ok(router.clone())).await?;
        println!("| `{page}` | {p50} | {p99} |");
    }
    // A dashboard of its own has nothing to share.
    let first = || self::router(&provider);
    let [p50, p99] = time(&format!("/{NOW}"), first).await?;
    println!("| `/now`, read for each request | {p50} | {p99} |\n");
    Ok(())
}

/// Both quantiles of this page, in milliseconds.
async fn time(
    page: &str,
    router: impl Fn() -> anyhow::Result<Router>,
) -> anyhow::Result<[String; 2]> {
    let mut seen = latencies()?;
    for request in 0..=REQUESTS {
        let router = router()?;
        let start = Instant::now();
        get(&router, page).await?;
        // The first one fills the caches of the database.
        if request > 0 {
            seen.saturating_record(micros(start.elapsed()));
        }
    }
    Ok([0.5, 0.99].map(|quantile| format!("{:.1}", millis_at(&seen, quantile))))
}

/// As a day with its time, for a URL.
fn an_hour_ago() -> anyhow::Result<String> {
    let then = SystemTime::now().checked_sub(Duration::from_secs(3_600));
    let then = then.context("the clock is at 1970")?;
    Ok(shedlock_journal::view::second(then))
}
