//! Helpers for tests over a real server.

#![allow(dead_code, reason = "each test target uses a part of it")]

use mongodb::Client;
use mongodb::options::ClientOptions;
use shedlock_conformance::BoxError;

/// The database of all tests. Each test creates its own collections.
pub(crate) const DATABASE: &str = "shedlock_test";

/// The URL of the throwaway server.
pub(crate) fn server() -> String {
    shedlock_rig::given::server("mongodb")
}

/// The URL of our database with these options.
pub(crate) fn url(server: &str, options: &str) -> String {
    let hosts = server.strip_prefix("mongodb://").unwrap_or(server);
    let hosts = hosts.split(['/', '?']).next().unwrap_or_default();
    format!("mongodb://{hosts}/{DATABASE}?{options}")
}

/// A client that connects directly: the server behind a proxy would otherwise report its own address. Its timeouts are
/// short, except for the server of all tests, which may only be busy. It polls the server, because the emulator keeps each
/// watching client until its next heartbeat, long after the client has ended, and has room for only 1000. It polls often
/// enough to notice within a few seconds that its own connection has stopped responding.
pub(crate) async fn client(at: &str) -> Result<Client, BoxError> {
    let limit = match url(at, "") == url(&server(), "") {
        true => 15_000,
        false => 1_500,
    };
    let options = format!(
        "directConnection=true&serverSelectionTimeoutMS={limit}&connectTimeoutMS={limit}\
         &heartbeatFrequencyMS=5000&serverMonitoringMode=poll&retryWrites=false"
    );
    let options = ClientOptions::parse(url(at, &options)).await?;
    Ok(Client::with_options(options)?)
}
