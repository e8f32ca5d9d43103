//! Requests that fail.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use shedlock_core::{Error, ErrorKind};

use shedlock_support::redact;

use crate::assets::{ICON, STYLE};
use crate::components::Text;

/// Why there is no result.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The field of the form that it is about; empty if it is about all of it. The form is shown again with it.
    pub(crate) field: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "failure.html")]
struct Page<'a> {
    icon: &'a str,
    style: &'a str,
    title: &'a str,
    message: Text,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            field: None,
        }
    }

    /// About this field of the form.
    pub(crate) fn at(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// Nothing was done, because of the state of the lock.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorKind::Internal | ErrorKind::WrongContext => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, redact(&format!("{error:#}")).into_owned())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let page = Page {
            icon: &ICON.name,
            style: &STYLE.name,
            title,
            message: Text::long(&self.message),
        };
        (self.status, render(&page)).into_response()
    }
}

/// The text of a page.
pub(crate) fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
