//! Stands for the login that a real service has: sessions in a database, hashed passwords, single sign-on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Form, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use serde::Deserialize;

/// A user who has signed in.
#[derive(Clone, Copy)]
pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) may_operate: bool,
}

const USERS: [User; 2] = [
    User {
        name: "alice",
        may_operate: true,
    },
    User {
        name: "bob",
        may_operate: false,
    },
];

const PAGE: &str = "<!doctype html><html lang=\"en\"><title>Sign in</title>\
    <form method=\"post\"><label>Name <input name=\"name\"></label> \
    <label>Password <input name=\"password\" type=\"password\"></label> \
    <button>Sign in</button></form></html>";

/// Who has signed in, by the random text in their cookie.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, User>>>);

impl Sessions {
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
        let mut cookies = cookies.split("; ");
        let session = cookies.find_map(|cookie| cookie.strip_prefix("session="))?;
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(session).copied()
    }

    fn start(&self, user: User) -> Result<String, getrandom::Error> {
        let session = format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session.clone(), user);
        Ok(session)
    }
}

#[derive(Deserialize)]
pub(crate) struct Credentials {
    name: String,
    password: String,
}

pub(crate) async fn page() -> Html<&'static str> {
    Html(PAGE)
}

pub(crate) async fn sign_in(
    State(sessions): State<Sessions>,
    Form(credentials): Form<Credentials>,
) -> Response {
    let user = USERS.iter().find(|user| user.name == credentials.name);
    let Some(user) = user.filter(|_| credentials.password == "example") else {
        return (StatusCode::UNAUTHORIZED, Html(PAGE)).into_response();
    };
    match sessions.start(*user) {
        // On a real service, with `Secure` too.
        Ok(session) => {
            let cookie = format!("session={session}; Path=/; HttpOnly; SameSite=Lax");
            ([(header::SET_COOKIE, cookie)], Redirect::to("/jobs/now")).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Sends everyone who has not signed in to the login, and puts the user into the request.
pub(crate) async fn require(
    State(sessions): State<Sessions>,
    mut request: Request,
    next: Next,
) -> Response {
    match sessions.user(request.headers()) {
        Some(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        None => Redirect::to("/login").into_response(),
    }
}
