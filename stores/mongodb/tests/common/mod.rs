//! What the tests over a real server share.

#![allow(dead_code, reason = "each test target uses a part of it")]

use mongodb::Client;
use mongodb::options::ClientOptions;
use shedlock_conformance::BoxError;

/// The database of all tests; each makes collections of its own.
pub(crate) const DATABASE: &str = "shedlock_test";

/// The URL of the throw-away server.
pub(crate) fn server() -> String {
    shedlock_conformance::support::server("SHEDLOCK_TEST_MONGODB_URL")
}

/// The URL of our database behind these options.
pub(crate) fn url(server: &str, options: &str) -> String {
    let hosts = server.strip_prefix("mongodb://").unwrap_or(server);
    let hosts = hosts.split(['/', '?']).next().unwrap_or_default();
    format!("mongodb://{hosts}/{DATABASE}?{options}")
}

/// A client that gives up soon, and asks the server for itself alone: the one that a proxy stands
/// before would tell its own address else. It polls the server, since the double keeps whatever watches
/// it until its next beat, when it is long gone, and has room for 1000; and often enough to find out in a
/// few seconds that the connection it polls over has fallen silent.
pub(crate) async fn client(server: &str) -> Result<Client, BoxError> {
    let options = "directConnection=true&serverSelectionTimeoutMS=1500&connectTimeoutMS=1500\
                   &heartbeatFrequencyMS=5000&serverMonitoringMode=poll&retryWrites=false";
    let options = ClientOptions::parse(url(server, options)).await?;
    Ok(Client::with_options(options)?)
}
