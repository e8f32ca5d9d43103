//! *Stores*: what `shedlock doctor` finds, and how long a round trip takes.

use askama::Template;
use axum::Extension;
use axum::response::Response;
use futures_util::future::join_all;
use shedlock_core::{Finding, Level};

use super::{Frame, Shared};
use crate::Access;
use crate::components::{Badge, Text};
use crate::failure::render;
use crate::reading::health;

#[derive(Template)]
#[template(path = "stores.html")]
struct Page {
    frame: Frame,
    stores: Vec<Row>,
}

struct Row {
    name: Text,
    kind: String,
    round_trip: Option<String>,
    findings: Vec<Found>,
}

struct Found {
    badge: Badge,
    check: &'static str,
    message: Text,
    remedy: Option<Text>,
}

impl Found {
    fn of(finding: &Finding) -> Self {
        let (class, word) = match finding.level {
            Level::Ok => ("ok", "ok"),
            Level::Warning => ("warn", "warning"),
            _ => ("bad", "error"),
        };
        Self {
            badge: Badge { class, word },
            check: finding.check,
            message: Text::long(&finding.message),
            remedy: finding.remedy.as_deref().map(Text::long),
        }
    }
}

pub(crate) async fn stores(dashboard: Shared, Extension(access): Extension<Access>) -> Response {
    let reads = dashboard.places.iter().map(|place| async move {
        let health = health(place).await;
        Row {
            name: Text::of(&place.name),
            kind: health.kind.unwrap_or_default(),
            round_trip: health
                .round_trip
                .map(|it| format!("{:.2} ms", it.as_secs_f64() * 1_000.0)),
            findings: health.findings.iter().map(Found::of).collect(),
        }
    });
    render(&Page {
        stores: join_all(reads).await,
        frame: Frame::of("stores", "Stores", &dashboard, &access, None),
    })
}
