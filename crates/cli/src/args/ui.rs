//! The command line of `ui`.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::HeaderName;
use clap::Args;

use super::{StoreArgs, exit_codes, values};

/// Serve a dashboard of the jobs and locks, for a browser
///
/// Shows what runs, what is overdue or has failed, the runs of each job, and what operators did. It
/// needs a journal (`shedlock migrate`); without one it shows locks only.
///
/// With default settings it listens on this host alone, and everyone who can log in to this host may
/// pause, resume, extend and unlock. On any other address it needs --auth-file, and TLS (--tls-cert
/// and --tls-key) or a proxy that does it (--behind-proxy); or --read-only. If a proxy on this host signs
/// users in, --user-header takes their names from it.
///
/// Ends with 0 at SIGTERM, SIGINT, SIGQUIT or SIGHUP, after the requests that are being served.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(None))]
pub(crate) struct UiArgs {
    /// The address and port to listen on
    #[arg(long, value_name = "IP:PORT", value_parser = values::socket, default_value = "127.0.0.1:8460")]
    pub(crate) listen: SocketAddr,
    /// Serve the metrics of all jobs for Prometheus here, under /metrics
    ///
    /// The same as `shedlock metrics` prints, of the store of --store, also while that store is down. They show
    /// the names of jobs, and need no user.
    #[arg(long, value_name = "IP:PORT", value_parser = values::socket)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The path under which the dashboard is served, like /shedlock
    ///
    /// A proxy that removes the prefix needs no option: all URLs are relative.
    #[arg(long, value_name = "PATH", value_parser = values::path_prefix)]
    pub(crate) prefix: Option<String>,
    /// A host name by which browsers may open the dashboard; may be repeated
    ///
    /// On a loopback address, only localhost, 127.0.0.1 and [::1] are served by default: otherwise a
    /// web page could reach the dashboard through a name that points at this host (DNS rebinding). On
    /// any other address, all names are served unless this option is set.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Let only the users of this file in
    ///
    /// A line has the form of `htpasswd -nB USER`: the name, a colon and a bcrypt hash of the password.
    /// `shedlock ui --hash-password USER` prints one. If `:read` follows, the user may only read. The
    /// file is read when the command starts. Actions are recorded with the user's name. After five
    /// refused sign-ins within a minute, an address is refused for a minute.
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Take the user from this header, which a proxy on this host sets after it has signed them in
    ///
    /// Such as X-Forwarded-User or Remote-User. Actions are recorded with that name, and a request without
    /// the header, or with several, is refused. The proxy must remove the header from what clients send.
    /// Everyone who can open a connection on this host can claim to be anyone, so --listen must be a
    /// loopback address.
    #[arg(long, value_name = "HEADER", value_parser = values::header_name, requires = "behind_proxy", conflicts_with = "auth_file")]
    pub(crate) user_header: Option<HeaderName>,
    /// Read a password from stdin, print a line for --auth-file, and end
    #[arg(long, value_name = "USER")]
    pub(crate) hash_password: Option<String>,
    /// Only show: no one can pause, resume, extend or unlock
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Confirm that a proxy in front of this address encrypts the connections
    ///
    /// The proxy must add the address of the client to X-Forwarded-For: refused sign-ins are logged, and
    /// slowed down, by the last address in it. The proxy may open all connections (1,000, or half as many
    /// as the process may have open files), and keep them idle for 75 s; without this option, an address
    /// may have 100, each idle for 15 s.
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,
    /// The certificate chain for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Show the store of --store under this name [default: its location]
    #[arg(long, value_name = "NAME")]
    pub(crate) store_name: Option<String>,
    /// Show another store too, under this name; may be repeated
    ///
    /// For a URL with a password, use --also-store-file. Its journal is the one beside its locks.
    #[arg(long, value_name = "NAME=URL", value_parser = values::named)]
    pub(crate) also_store: Vec<(String, String)>,
    /// The same, with the URL in a file
    #[arg(long, value_name = "NAME=FILE", value_parser = values::named)]
    pub(crate) also_store_file: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
