//! The alerts that reach a person: what Alertmanager sends to a webhook.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::post;
use jiff::Timestamp;
use serde_json::Value;
use tokio::net::TcpListener;

/// What an alert is about: one of a job, or one of the exporter that reports it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alert {
    pub(crate) name: String,
    /// Empty if it is about no job.
    pub(crate) job: String,
    /// Empty if it is about no exporter.
    instance: String,
}

impl Alert {
    #[cfg(test)]
    pub(crate) fn of(name: &str, job: &str) -> Self {
        Self {
            name: name.to_owned(),
            job: job.to_owned(),
            instance: String::new(),
        }
    }

    fn read(alert: &Value) -> Self {
        let label = |name: &str| {
            let label = alert["labels"][name].as_str();
            label.unwrap_or_default().to_owned()
        };
        Self {
            name: label("alertname"),
            job: label("job_name"),
            instance: label("instance"),
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.job.is_empty() {
            &self.instance
        } else {
            &self.job
        };
        write!(f, "{} {of}", self.name)
    }
}

/// An alert that was raised or resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at: Timestamp,
    pub(crate) alert: Alert,
    pub(crate) is_raised: bool,
}

/// What has arrived at the webhook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts(Arc<Mutex<Vec<Change>>>);

impl Alerts {
    /// Receives what is sent to this address.
    pub(crate) fn receive(port: u16) -> anyhow::Result<Self> {
        let alerts = Self::default();
        let heard = alerts.clone();
        let route = post(move |body: String| async move { heard.hear(&body) });
        let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", route)).await });
        Ok(alerts)
    }

    fn hear(&self, body: &str) {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        for alert in body["alerts"].as_array().into_iter().flatten() {
            self.change(Alert::read(alert), alert["status"] == "firing");
        }
    }

    /// Alertmanager repeats what it has sent.
    fn change(&self, alert: Alert, is_raised: bool) {
        if self.raised().contains(&alert) == is_raised {
            return;
        }
        let verb = if is_raised { "raised" } else { "resolved" };
        crate::world::say(&format!("  {alert} {verb}"));
        let change = Change {
            at: Timestamp::now(),
            alert,
            is_raised,
        };
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(change);
    }

    /// All changes so far.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.clone()
    }

    /// The alerts that are raised now.
    pub(crate) fn raised(&self) -> BTreeSet<Alert> {
        let mut raised = BTreeSet::new();
        for change in self.changes() {
            if change.is_raised {
                raised.insert(change.alert);
            } else {
                raised.remove(&change.alert);
            }
        }
        raised
    }
}
