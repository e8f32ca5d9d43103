//! What every request passes: the host allow-list, the access callback, and the origin check. Every
//! response gets the security headers.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::Access;
use crate::dashboard::Inner;
use crate::failure::Failure;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// `Referrer-Policy: no-referrer` would make browsers send `Origin: null` with forms.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) async fn guard(
    State(dashboard): State<Arc<Inner>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut response = match permit(&dashboard, &parts) {
        Ok(access) => {
            parts.extensions.insert(access);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        // An asset may be kept.
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

fn permit(dashboard: &Inner, request: &Parts) -> Result<Access, Failure> {
    if let Some(hosts) = &dashboard.hosts {
        let host = host(request).map(name_of).unwrap_or_default();
        if !hosts.contains(&host) {
            return Err(Failure::forbidden(format!(
                "this dashboard does not serve the host {host:?}; open it by one of its own names, or \
                 allow this one (--allow-host)"
            )));
        }
    }
    let access = (dashboard.access)(request);
    if access == Access::None {
        return Err(Failure::forbidden(
            "you may not see this dashboard; sign in as a user who may",
        ));
    }
    if request.method == Method::POST {
        if !is_same_origin(request) {
            return Err(Failure::forbidden(
                "nothing was changed: the request did not come from a page of this dashboard; open \
                 the dashboard, and use its forms",
            ));
        }
        if access.actor().is_none() {
            return Err(Failure::forbidden(
                "nothing was changed: you may only read; sign in as a user who may operate",
            ));
        }
    }
    Ok(access)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The host and port that the client asked for.
fn host(request: &Parts) -> Option<&str> {
    let authority = request.uri.authority().map(Authority::as_str);
    text(&request.headers, "host").or(authority)
}

/// The host without its port, in lower case.
fn name_of(host: &str) -> String {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.to_ascii_lowercase()
}

/// Whether a page of this dashboard sent the request. Browsers send both headers, and no page can
/// set them; what sends neither is no browser, and has no form to fill in.
fn is_same_origin(request: &Parts) -> bool {
    if let Some(site) = text(&request.headers, "sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(&request.headers, "origin") else {
        return false;
    };
    let Some((_, origin)) = origin.split_once("://") else {
        return false;
    };
    host(request).is_some_and(|host| host.eq_ignore_ascii_case(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_not_part_of_a_host_name() {
        for (host, name) in [
            ("Localhost:8080", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]:8080", "::1"),
            ("[::1]", "::1"),
            ("", ""),
        ] {
            assert_eq!(name_of(host), name);
        }
    }
}
