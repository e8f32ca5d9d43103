//! What `sslmode` means over each driver, on a server whose authority the system does not know.

use shedlock_core::{Error, ErrorKind};
use shedlock_rig::given::needs_store;
use shedlock_rig::{Certificates, PostgresServer};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;

use crate::common::{unique, with_option};

/// What the server sees of a connection.
const PLAIN: &str = "plain";
const ENCRYPTED: &str = "encrypted";
const IDENTIFIED: &str = "with a certificate";
/// The client does not connect.
const REFUSED: &str = "the server's certificate was issued by an authority that is not trusted";

struct Room {
    server: PostgresServer,
    certificates: Certificates,
}

impl Room {
    fn new() -> Self {
        needs_store("postgres");
        let server = PostgresServer::start(&[]).unwrap();
        let certificates = Certificates::make().unwrap();
        server.encrypt(&certificates).unwrap();
        Self {
            server,
            certificates,
        }
    }

    /// The URL with these options. The value of an option that ends in `.pem` or `.key` is a file of the test.
    fn url(&self, application: &str, options: &[(&str, &str)]) -> String {
        let named = with_option(self.server.url(), "application_name", application);
        options.iter().fold(named, |url, (option, value)| {
            let is_file = [".pem", ".key"].iter().any(|end| value.ends_with(end));
            match is_file {
                true => with_option(&url, option, &self.certificates.path(value)),
                false => with_option(&url, option, value),
            }
        })
    }

    /// How the server sees the connections of this application.
    fn seen(&self, application: &str) -> String {
        let statement = format!(
            "SELECT DISTINCT CASE WHEN NOT ssl THEN '{PLAIN}' WHEN client_dn IS NULL THEN '{ENCRYPTED}' \
             ELSE '{IDENTIFIED}' END FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE application_name = '{application}'"
        );
        self.server.sql(&statement).unwrap()
    }

    /// What becomes of an application that connects with these options over this driver.
    async fn outcome(&self, driver: Driver, options: &[(&str, &str)]) -> String {
        let application = unique("app");
        let url = self.url(&application, options);
        // Held until the server was asked.
        let connected: Result<Box<dyn Send>, Error> = match driver {
            Driver::Sqlx => PostgresProvider::connect(&url)
                .await
                .map(|it| Box::new(it) as _),
            Driver::Tokio => TokioPostgresProvider::connect(&url)
                .await
                .map(|it| Box::new(it) as _),
        };
        match connected {
            Ok(_provider) => self.seen(&application),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Configuration, "{error:#}");
                let text = format!("{error:#}");
                let advice = "; set sslrootcert in the URL to the file of the authority";
                assert!(text.contains(&format!("{REFUSED}{advice}")), "{text}");
                REFUSED.to_owned()
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Driver {
    Sqlx,
    Tokio,
}

#[tokio::test]
async fn sslmode_means_what_the_drivers_say() {
    let room = Room::new();
    let verified = [("sslmode", "verify-full"), ("sslrootcert", "ca.pem")];
    let identity = [("sslcert", "client.pem"), ("sslkey", "client.key")];
    let stranger = [("sslmode", "prefer"), ("sslrootcert", "client.pem")];
    for (options, by_sqlx, by_tokio) in [
        (&[("sslmode", "disable")][..], PLAIN, PLAIN),
        // The default is `prefer`.
        (&[], ENCRYPTED, ENCRYPTED),
        (&stranger, ENCRYPTED, REFUSED),
        (&[("sslmode", "require")], ENCRYPTED, REFUSED),
        (&[("sslmode", "verify-full")], REFUSED, REFUSED),
        (&verified, ENCRYPTED, ENCRYPTED),
        (&[verified, identity].concat(), IDENTIFIED, IDENTIFIED),
    ] {
        for (driver, expected) in [(Driver::Sqlx, by_sqlx), (Driver::Tokio, by_tokio)] {
            let outcome = room.outcome(driver, options).await;
            assert_eq!(outcome, expected, "{driver:?} {options:?}");
        }
    }
}
