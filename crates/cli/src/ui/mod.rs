//! `shedlock ui`: the dashboard.

mod auth;
mod brake;
mod later;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsAcceptor;
use shedlock::Actor;
use shedlock_ui::{Access, Dashboard};

use crate::args::UiArgs;
use crate::connections::{Limiter, limit_headers};
use crate::exit::{Failure, INTERNAL};
use crate::metrics::Serving;
use crate::run::Signals;
use crate::store::{Source, Store, chosen_place, warn_of_exposed_file, warn_of_exposed_source};
use crate::terminal::Terminal;
use crate::user;
use auth::{User, Users};
use later::Later;

/// How long requests that are being served may take after the end was requested.
const GRACE: Duration = Duration::from_secs(10);

/// By which names browsers reach a loopback address.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Serves the dashboard until a signal ends it.
pub(crate) async fn ui(args: &UiArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    if let Some(user) = &args.hash_password {
        terminal.print(&auth::line_for(user)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    refuse_open_address(args)?;
    warn_of_exposed_files(args, terminal);
    refuse_open_header(args)?;
    let users = args.auth_file.as_deref();
    let users = users.map(|file| Users::read(file, args.behind_proxy));
    let users = users.transpose()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(tls::config(cert, key)?),
        _ => None,
    };
    let stores = stores(args, terminal)?;
    for store in &stores {
        store.open_or_go_on().await?;
    }
    let router = router(args, &stores, users)?;
    let not_at = |error| cannot_listen(args.listen, "--listen", &error);
    let listener = TcpListener::bind(args.listen).map_err(not_at)?;
    listener.set_nonblocking(true).map_err(not_at)?;
    let address = listener.local_addr().map_err(not_at)?;
    let _metrics = serve_metrics(args, stores, terminal)?;
    let handle = Handle::new();
    let end = end_at_signal(handle.clone())?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let prefix = args.prefix.as_deref().unwrap_or_default();
    terminal.notice(&format!(
        "the dashboard is at {scheme}://{address}{prefix}/"
    ));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum_server::from_tcp(listener).map_err(not_at)?;
    let server = limit_headers(server.handle(handle), !args.behind_proxy);
    let limiter = Limiter::new(args.behind_proxy);
    let served = match tls {
        // A connection counts from the start of its handshake, which has a limit of its own.
        Some(tls) => {
            let acceptor = RustlsAcceptor::new(tls).acceptor(limiter);
            server.acceptor(acceptor).serve(service).await
        }
        None => server.acceptor(limiter).serve(service).await,
    };
    end.abort();
    served.map_err(|error| {
        Failure::new(
            INTERNAL,
            format!("the dashboard has failed: {error}; start it again"),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves the metrics of the store of --store at the address of --metrics-listen, if it is set.
fn serve_metrics(
    args: &UiArgs,
    stores: Vec<Later>,
    terminal: Terminal,
) -> Result<Option<Serving>, Failure> {
    let (Some(address), Some(store)) = (args.metrics_listen, stores.into_iter().next()) else {
        return Ok(None);
    };
    let serving = Serving::at(address, store.endpoints());
    let (serving, address) =
        serving.map_err(|error| cannot_listen(address, "--metrics-listen", &error))?;
    terminal.notice(&format!("the metrics are at http://{address}/metrics"));
    Ok(Some(serving))
}

fn cannot_listen(address: SocketAddr, option: &str, error: &std::io::Error) -> Failure {
    let message =
        format!("cannot listen on {address}: {error}; choose another address with {option}");
    Failure::new(INTERNAL, message)
}

/// The dashboard at its path, for its users.
fn router(args: &UiArgs, stores: &[Later], users: Option<Users>) -> Result<Router, Failure> {
    let dashboard = dashboard(args, stores, users.is_some())?.router();
    let router = match &args.prefix {
        Some(prefix) => under(prefix, dashboard),
        None => dashboard,
    };
    Ok(match users {
        Some(users) => users.protect(router),
        None => router,
    })
}

/// The dashboard under a prefix, and where it is for whoever asks for another path.
fn under(prefix: &str, dashboard: Router) -> Router {
    let elsewhere = format!(
        "There is nothing here: this dashboard is at {prefix}/ (--prefix). If a proxy removes the prefix from the path, start \
         `shedlock ui` without --prefix.\n"
    );
    let elsewhere = move || async move { (StatusCode::NOT_FOUND, elsewhere) };
    Router::new()
        .nest_service(prefix, dashboard)
        .fallback(elsewhere)
}

/// Warns of secrets that others on this host may read.
fn warn_of_exposed_files(args: &UiArgs, terminal: Terminal) {
    if let Some(file) = &args.auth_file {
        let what = "the hashes of passwords";
        warn_of_exposed_file("--auth-file", file, what, |_| true, terminal);
    }
    if let Some(file) = &args.tls_key {
        warn_of_exposed_file("--tls-key", file, "the private key", |_| true, terminal);
    }
}

/// Refuses to let everyone in the network operate, or to send passwords in clear text.
fn refuse_open_address(args: &UiArgs) -> Result<(), Failure> {
    let is_encrypted = args.tls_cert.is_some() || args.behind_proxy;
    let is_open = !args.listen.ip().is_loopback();
    let why = match args.auth_file {
        _ if !is_open => return Ok(()),
        Some(_) if is_encrypted => return Ok(()),
        None if args.read_only => return Ok(()),
        Some(_) => {
            "passwords would be sent in clear text; add --tls-cert and --tls-key, or --behind-proxy if \
             a proxy encrypts the connections"
        }
        None => {
            "everyone who can reach this address could free locks; add --auth-file, and --tls-cert with \
             --tls-key or --behind-proxy; or add --read-only"
        }
    };
    Err(Failure::usage(format!(
        "--listen {}: the dashboard was not started: {why}",
        args.listen
    )))
}

/// Refuses to believe anyone in the network who claims to be a proxy.
fn refuse_open_header(args: &UiArgs) -> Result<(), Failure> {
    match &args.user_header {
        Some(header) if !args.listen.ip().is_loopback() => Err(Failure::usage(format!(
            "--user-header {header}: the dashboard was not started: everyone who can reach {} could send this header; \
             listen on a loopback address, with the proxy on this host (or in this pod)",
            args.listen
        ))),
        _ => Ok(()),
    }
}

/// The user whom the proxy has signed in, if it names exactly one.
fn user_of_proxy(request: &Parts, header: &HeaderName) -> Option<String> {
    const LONGEST: usize = 256;
    let mut names = request.headers.get_all(header).iter();
    let (Some(name), None) = (names.next(), names.next()) else {
        return None;
    };
    let name = std::str::from_utf8(name.as_bytes()).ok()?.trim();
    let is_name = !name.is_empty() && name.len() <= LONGEST && !name.contains(char::is_control);
    is_name.then(|| name.to_owned())
}

/// The store of --store, and the others.
fn stores(args: &UiArgs, terminal: Terminal) -> Result<Vec<Later>, Failure> {
    let name = match &args.store_name {
        Some(name) => name.clone(),
        None => chosen_place(&args.store)?,
    };
    let own = args.store.clone();
    let open = move || {
        let own = own.clone();
        async move { Store::open_existing(&own, terminal).await }
    };
    let mut stores = vec![Later::new(&name, open, terminal)];
    let urls = args.also_store.iter().map(|(name, url)| {
        let source = Source::url(url, &format!("--also-store {name}"));
        (name, source)
    });
    let files = args.also_store_file.iter().map(|(name, file)| {
        let source = Source::file(Path::new(file), &format!("--also-store-file {name}"));
        (name, source)
    });
    for (name, source) in urls.chain(files) {
        warn_of_exposed_source(&source, terminal);
        let open = move || {
            let source = source.clone();
            async move { Store::open_source(source, terminal).await }
        };
        stores.push(Later::new(name, open, terminal));
    }
    Ok(stores)
}

fn dashboard(args: &UiArgs, stores: &[Later], has_users: bool) -> Result<Dashboard, Failure> {
    let mut builder = Dashboard::builder();
    for store in stores {
        let later = store.clone();
        builder = builder.store_later(store.name(), move || later.clone().opened());
    }
    let may_operate = !args.read_only;
    let local = user::at_host();
    let header = args.user_header.clone();
    builder = builder.access(move |request: &Parts| {
        let user = match &header {
            Some(header) => match user_of_proxy(request, header) {
                Some(name) => Some(User { name, may_operate }),
                None => return Access::None,
            },
            None => request.extensions.get::<User>().cloned(),
        };
        match user {
            _ if !may_operate => Access::Read,
            Some(user) if user.may_operate => Access::operate(&user.name),
            Some(_) => Access::Read,
            None if has_users => Access::None,
            None => Access::Operate(Actor::Claimed(local.clone())),
        }
    });
    let own = args.listen.ip().is_loopback().then_some(LOOPBACK);
    let own = own.into_iter().flatten().map(str::to_owned);
    let hosts: Vec<String> = own.chain(args.allow_host.iter().cloned()).collect();
    if !hosts.is_empty() {
        builder = builder.allow_hosts(hosts);
    }
    Ok(builder.build()?)
}

/// Ends the server at the first signal.
fn end_at_signal(handle: Handle<SocketAddr>) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let signals = Signals::listen_to_ends();
    let mut signals = signals
        .map_err(|error| Failure::new(INTERNAL, format!("cannot listen for signals: {error}")))?;
    Ok(tokio::spawn(async move {
        signals.next().await;
        handle.graceful_shutdown(Some(GRACE));
    }))
}
