//! The dashboard of a large fleet: how long the server takes for each page, and whether reading the journal delays the
//! jobs.

mod fill;
mod load;
mod pages;

use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use hdrhistogram::Histogram;
use tower::ServiceExt as _;

use crate::site::{Durability, Site};
use crate::store::Store;

/// Latencies in microseconds.
type Latencies = Histogram<u64>;

/// Fills a journal, and measures all of it.
pub(crate) async fn run(is_quick: bool) -> anyhow::Result<()> {
    let Some(site) = Site::find(Store::POSTGRES, Durability::AsShipped).await? else {
        bail!("the dashboard needs a PostgreSQL; run `cargo xtask bench --dashboard`");
    };
    eprintln!("bench: {}, filling the journal", site.version());
    fill::fill(&site).await?;
    println!(
        "{}: {} jobs, {} runs\n",
        site.version(),
        fill::JOBS,
        fill::JOBS * fill::RUNS
    );
    pages::measure(&site).await?;
    let lasts = Duration::from_secs(if is_quick { 10 } else { 60 });
    load::measure(&site, lasts).await
}

fn latencies() -> anyhow::Result<Latencies> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// This quantile in milliseconds.
fn millis_at(latencies: &Latencies, quantile: f64) -> f64 {
    Duration::from_micros(latencies.value_at_quantile(quantile)).as_secs_f64() * 1_000.0
}

/// Requests a page, and reads all of it.
async fn get(router: &Router, url: &str) -> anyhow::Result<()> {
    let request = Request::get(url).body(Body::empty())?;
    let reply = router.clone().oneshot(request).await?;
    let status = reply.status();
    let body = to_bytes(reply.into_body(), usize::MAX).await;
    let body = body.with_context(|| format!("{url} ended too early"))?;
    if !status.is_success() {
        bail!("{url}: {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
