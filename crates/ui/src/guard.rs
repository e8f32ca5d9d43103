//! What every request passes: the host allow-list, the access callback, and the origin check. Every
//! response gets the security headers.

use std::net::Ipv6Addr;
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
    let asked = host(request)?;
    if request.uri.query().is_some_and(|it| it.contains("%00")) {
        return Err(Failure::bad(
            "the request was refused: there is a null character in its URL, and no store can look for \
             one; remove it",
        ));
    }
    if let Some(hosts) = &dashboard.hosts {
        let host = asked.map(name_of).unwrap_or_default();
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
        if !is_same_origin(request, asked) {
            return Err(Failure::forbidden(why_not_same(request, asked)));
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

/// The host and port that the client asked for. A request that could be read in two ways is refused: a proxy may have
/// read it in the other.
fn host(request: &Parts) -> Result<Option<&str>, Failure> {
    let refused = |why: &str| {
        Failure::bad(format!(
            "the request was refused: {why}; send one Host header with a name or an address, and a port if it has one"
        ))
    };
    let mut headers = request.headers.get_all(header::HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err(refused("it has several Host headers"));
    }
    let header = header.map(|it| it.to_str().unwrap_or_default());
    let authority = request.uri.authority().map(Authority::as_str);
    if let (Some(header), Some(authority)) = (header, authority)
        && !header.eq_ignore_ascii_case(authority)
    {
        return Err(refused("its Host header is not the host of its URL"));
    }
    let host = header.or(authority);
    if host.is_some_and(|host| parts(host).is_none()) {
        return Err(refused("its Host header is not a host and port"));
    }
    Ok(host)
}

/// A host and its port. A name may end with a dot, which is a part of it, so that such a name is allowed only as such.
fn parts(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':')?),
            };
            (address, port)
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let is_of_name = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    if name.is_empty() || !(host.starts_with('[') || name.bytes().all(is_of_name)) {
        return None;
    }
    match port {
        None => Some((name, None)),
        Some(port) if port.bytes().all(|it| it.is_ascii_digit()) => {
            Some((name, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}

/// The host without its port, in lower case.
fn name_of(host: &str) -> String {
    parts(host).map_or_else(String::new, |(name, _)| name.to_ascii_lowercase())
}

/// Whether a page of this dashboard sent the request. Browsers send both headers, and no page can
/// set them; what sends neither is no browser, and has no form to fill in.
fn is_same_origin(request: &Parts, host: Option<&str>) -> bool {
    if let Some(site) = text(&request.headers, "sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(&request.headers, "origin") else {
        return false;
    };
    let Some((_, origin)) = origin.split_once("://") else {
        return false;
    };
    host.is_some_and(|host| host.eq_ignore_ascii_case(origin))
}

/// The header that differs if a proxy replaces the host. Browsers send no `Sec-Fetch-Site` to a name without TLS.
fn why_not_same(request: &Parts, host: Option<&str>) -> String {
    let origin = text(&request.headers, "origin").filter(|it| it.contains("://"));
    let has_site = text(&request.headers, "sec-fetch-site").is_some();
    match (origin, host) {
        (Some(origin), Some(host)) if !has_site => format!(
            "nothing was changed: the page is at {origin}, but the request came for the host {host}: if a proxy is in front of \
             this dashboard, let it pass the header Host with its port (nginx: proxy_set_header Host $http_host)"
        ),
        _ => "nothing was changed: the request did not come from a page of this dashboard; open \
              the dashboard, and use its forms"
            .to_owned(),
    }
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
            ("ops.example.", "ops.example."),
        ] {
            assert_eq!(name_of(host), name);
        }
    }

    #[test]
    fn a_host_that_can_be_read_in_two_ways_is_none() {
        for host in [
            "",
            ":80",
            "localhost:",
            "localhost:80a",
            "localhost:+80",
            "localhost:99999",
            "localhost:80:80",
            "localhost:80@evil.example",
            "user@localhost",
            "localhost/x",
            "localhost,evil.example",
            "[::1",
            "[::1]80",
            "[localhost]",
            "::1",
            "a b",
        ] {
            assert_eq!(parts(host), None, "{host}");
        }
    }
}
