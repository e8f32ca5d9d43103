//! A service that runs a scheduled job, and shows the dashboard to users who have signed in.
//!
//! ```sh
//! cargo run -p example-dashboard      # locks and journal in ./locks.db
//! ```
//!
//! Open <http://127.0.0.1:8080/> and sign in as `alice`, who may operate, or as `bob`, who may read. Both have the
//! password `example`. Ctrl-c ends it.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

mod login;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Redirect;
use axum::routing::get;
use axum::{Router, middleware};
use login::{Sessions, User};
use shedlock::scheduler::{Handle, Scheduler, shutdown_signal};
use shedlock::{Executor, JournalWriter, LockProvider, scheduled, scheduler_lock};
use shedlock_ui::{Access, Dashboard};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[scheduled(every = "10s")]
#[scheduler_lock(name = "mails", lock_at_most_for = "30s")]
async fn send_mails() -> Result<(), Error> {
    println!("mails sent by {}", std::process::id());
    Ok(())
}

/// The routes of the service: its login, and the dashboard behind it.
fn app(provider: Arc<dyn LockProvider>, scheduler: Handle) -> Result<Router, shedlock::Error> {
    let sessions = Sessions::default();
    let dashboard = Dashboard::builder()
        .store("main", provider)
        .scheduler("main", scheduler)
        .access(|request| match request.extensions.get::<User>() {
            Some(user) if user.may_operate => Access::operate(user.name),
            Some(_) => Access::Read,
            None => Access::None,
        })
        .build()?;
    // The login is outermost, so that the dashboard finds the user in the request.
    let signed_in = middleware::from_fn_with_state(sessions.clone(), login::require);
    Ok(Router::new()
        .route("/", get(async || Redirect::to("/jobs/now")))
        .route("/login", get(login::page).post(login::sign_in))
        .with_state(sessions)
        .nest("/jobs", dashboard.router().layer(signed_in)))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = std::env::var("SHEDLOCK_STORE").unwrap_or_else(|_| "sqlite:locks.db".to_owned());
    let provider = shedlock::connect(&store).await?;
    provider.migrate().await?;
    let journal = provider.journal().ok_or("this store keeps no journal")?;
    journal.migrate().await?;

    // What the dashboard shows of runs is what the executor records.
    let writer = JournalWriter::new(journal);
    let executor = Executor::new(provider.clone()).journal(&writer);
    let scheduler = Scheduler::new(executor).job(send_mails::job()).start()?;

    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("sign in at http://{address}/");
    let signal = async {
        if let Err(error) = shutdown_signal().await {
            println!("cannot wait for signals: {error}");
        }
    };
    axum::serve(listener, app(provider, scheduler.clone())?)
        .with_graceful_shutdown(signal)
        .await?;
    scheduler.shutdown(Duration::from_secs(10)).await?;
    writer.flush(Duration::from_secs(2)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, Response, StatusCode, header};
    use shedlock::{Actor, AuditRequest, LockName, LockState};
    use tower::ServiceExt as _;

    use super::*;

    async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
        app.clone().oneshot(request).await.unwrap()
    }

    fn form(path: &str, cookie: &str, text: &str) -> Request<Body> {
        Request::post(path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::COOKIE, cookie)
            .header("sec-fetch-site", "same-origin")
            .body(Body::from(text.to_owned()))
            .unwrap()
    }

    fn page(path: &str, cookie: &str) -> Request<Body> {
        let request = Request::get(path).header(header::COOKIE, cookie);
        request.body(Body::empty()).unwrap()
    }

    async fn cookie_of(app: &Router, user: &str) -> String {
        let reply = send(
            app,
            form("/login", "", &format!("name={user}&password=example")),
        )
        .await;
        let cookie = reply.headers()[header::SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn only_those_who_signed_in_see_the_dashboard_and_only_some_may_operate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks.db");
        let url = format!("sqlite:{}", file.display());
        let provider = shedlock::connect(&url).await.unwrap();
        provider.migrate().await.unwrap();
        let journal = provider.journal().unwrap();
        journal.migrate().await.unwrap();
        let executor = Executor::new(provider.clone());
        let scheduler = Scheduler::new(executor).start().unwrap();
        let app = app(provider.clone(), scheduler).unwrap();

        let stranger = send(&app, page("/jobs/now", "session=guessed")).await;
        assert_eq!(stranger.headers()[header::LOCATION], "/login");
        let wrong = send(&app, form("/login", "", "name=alice&password=wrong")).await;
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);

        let (alice, bob) = (cookie_of(&app, "alice").await, cookie_of(&app, "bob").await);
        let seen = send(&app, page("/jobs/now", &bob)).await;
        assert_eq!(seen.status(), StatusCode::OK);
        let text = to_bytes(seen.into_body(), 1_000_000).await.unwrap();
        assert!(String::from_utf8_lossy(&text).contains("read-only"));

        let pause = "do=pause&name=mails&reason=maintenance&create=yes";
        let refused = send(&app, form("/jobs/act", &bob, pause)).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let done = send(&app, form("/jobs/act", &alice, pause)).await;
        assert_eq!(done.status(), StatusCode::SEE_OTHER);
        let name = LockName::new("mails").unwrap();
        let lock = provider.inspect(&name).await.unwrap().unwrap();
        assert_eq!(lock.state, LockState::Paused);
        let audit = journal.audit(&AuditRequest::new()).await.unwrap();
        assert_eq!(audit[0].actor, Actor::Authenticated("alice".to_owned()));
    }
}
