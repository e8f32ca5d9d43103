//! What the command prints if a store refuses it or cannot be reached: the same on each store, without the words of its
//! client.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use url::Url;

use crate::common::{Done, Sandbox, closed_port, done, now};
use crate::places::Place;

/// Words of clients and lines of a server's source code, which say nothing to a reader.
const OF_CLIENTS: [&str; 10] = [
    "error returned from database",
    "error communicating",
    " at line ",
    " - AuthenticationFailed",
    "ResponseError",
    "IO error",
    "error sending request",
    "client error",
    "deadline has elapsed",
    "Command failed",
];

fn list(store: &str) -> Done {
    done(&mut Sandbox::new().bare(&["list", "--store", store]))
}

/// The error of `list`, with what to do, each part of it once.
fn refusal(store: &str) -> String {
    let ended = list(store);
    assert_eq!(ended.code, 69, "{store}: {ended:?}");
    let lines = ended.stderr.lines();
    // The other one is about a password on the command line.
    let is_warning =
        |line: &str| line.contains("warning: ") || line.contains("--store: other users");
    let errors: Vec<_> = lines.filter(|line| !is_warning(line)).collect();
    let [error] = errors[..] else {
        panic!("{store}: {ended:?}");
    };
    let words = OF_CLIENTS.into_iter().find(|words| error.contains(words));
    assert_eq!(words, None, "{error}");
    assert!(error.contains("; "), "{error}");
    let reason = error.split("; ").next().unwrap_or_default();
    let parts: Vec<_> = reason.split(": ").collect();
    let is_double = |at: usize| parts[..at].contains(&parts[at]);
    assert!(!(1..parts.len()).any(is_double), "{error}");
    error.to_owned()
}

/// The URL of the place with another server.
fn elsewhere(place: &Place, host: &str, port: u16) -> Result<String, String> {
    let mut url = Url::parse(&place.server()?).map_err(|error| error.to_string())?;
    url.set_host(Some(host))
        .map_err(|error| error.to_string())?;
    url.set_port(Some(port)).map_err(|()| "no port")?;
    Ok(url.into())
}

pub(crate) fn a_server_that_cannot_be_reached_is_reported_alike(
    place: &Place,
) -> Result<(), String> {
    let (_closed, here) = closed_port();
    let closed = here.port();
    let refused = refusal(&elsewhere(place, "127.0.0.1", closed)?);
    assert!(
        refused.contains(&format!("127.0.0.1:{closed}")),
        "{refused}"
    );
    // ZooKeeper's client does not report it.
    let says = match place.kind() {
        "zookeeper" => "refused",
        _ => ": Connection refused (os error 111); nothing was written; check that ",
    };
    assert!(refused.contains(says), "{refused}");

    let unknown = refusal(&elsewhere(place, "no-such-host.invalid", closed)?);
    assert!(
        unknown.contains(": cannot resolve the host name: "),
        "{unknown}"
    );
    let remedy = "; nothing was written; check the host name in the URL, then retry";
    assert!(unknown.ends_with(remedy), "{unknown}");
    Ok(())
}

/// What a server refuses, by the name of the store: what is appended to its URL or replaces a part of it, and the error.
pub(crate) fn what_a_server_refuses_is_reported_once(place: &Place) -> Result<(), String> {
    let server = place.server()?;
    let (user, password) = ("stranger-9", "geheim");
    let login = |url: &str| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = rest.rsplit('@').next().unwrap_or(rest);
        let scheme = url.split(':').next().unwrap_or_default();
        format!("{scheme}://{user}:{password}@{host}")
    };
    let database = |name: &str| {
        let mut url = Url::parse(&server).expect("a URL");
        url.set_path(name);
        String::from(url)
    };
    let user_advice = "check the user and the password in the URL";
    let database_advice = "check the database in the URL";
    let no_file = |option: &str| {
        format!(
            "cannot read file \"/none/ca.pem\" of option {option:?} in the URL: No such file or \
             directory (os error 2); check the path and who may read it"
        )
    };
    let mut cases = match place.name {
        "postgres" => vec![
            (
                login(&server),
                format!(
                    "the server rejected the connection: role \"{user}\" does not exist; \
                     {user_advice}"
                ),
            ),
            (
                database("nope"),
                format!(
                    "the server rejected the connection: database \"nope\" does not exist; \
                     {database_advice}"
                ),
            ),
            (
                format!("{server}?schema=nope"),
                "schema \"nope\" does not exist; create it, or correct ?schema= or ?table= in the \
                 store's URL"
                    .to_owned(),
            ),
            (
                format!("{server}?sslmode=verify-full&sslrootcert=/none/ca.pem"),
                no_file("sslrootcert"),
            ),
        ],
        "mariadb" | "mysql" => vec![
            (
                login(&server),
                format!(
                    "the server rejected the connection: Access denied for user '{user}'@'localhost' \
                     (using password: YES); {user_advice}"
                ),
            ),
            (
                database("nope"),
                format!("the server rejected the connection: Unknown database 'nope'; \
                     {database_advice}"),
            ),
            (
                format!("{server}?schema=nope"),
                "schema \"nope\" does not exist; create it, or correct ?schema= or ?table= in the \
                 store's URL"
                    .to_owned(),
            ),
            (
                format!("{server}?ssl-mode=VERIFY_CA&ssl-ca=/none/ca.pem"),
                no_file("ssl-ca"),
            ),
        ],
        "redis" | "valkey" => vec![
            (
                login(&server),
                "login refused: Password authentication failed; check the user, the password and the database"
                    .to_owned(),
            ),
            (
                server.replacen("redis://", "redis-cluster://", 1),
                "the server is not part of a cluster: This instance has cluster support disabled; \
                 use a URL that begins with redis:// (with TLS rediss://), or the client's Client"
                    .to_owned(),
            ),
            (
                database("99"),
                "the server has no database of this number: DB index is out of range; correct the \
                 number in the URL, or raise `databases` in the server's configuration"
                    .to_owned(),
            ),
        ],
        "consul" => vec![(
            server.replacen("consul://", "consuls://", 1),
            "the TLS connection failed: the server's reply is not TLS; check the host and the port \
             in the URL, or use the URL's scheme without TLS"
                .to_owned(),
        )],
        "etcd" => vec![(
            login(&server),
            "authentication is not enabled on the store; remove the user and the password from the URL"
                .to_owned(),
        )],
        "mongodb" => vec![(
            login(&server),
            "login refused: authentication failed; check the user, the password, authSource and \
             authMechanism"
                .to_owned(),
        )],
        "nats" => vec![(
            format!("{server}?bucket=nope"),
            "the bucket \"nope\" does not exist; create it with `shedlock migrate --store …`"
                .to_owned(),
        )],
        "zookeeper" => vec![(
            format!("{server}/no/such/root"),
            "the chroot does not exist; check its spelling, or create it with `shedlock migrate \
             --store …`"
                .to_owned(),
        )],
        _ => Vec::new(),
    };
    if place.name == "mysql" {
        // Its server has a certificate that no authority has issued.
        let says = "the TLS connection failed: the server's certificate was issued by an authority \
                    that is not trusted; set ssl-ca in the URL to the file of the authority that issued \
                    the server's certificate";
        cases.push((format!("{server}?ssl-mode=VERIFY_CA"), says.to_owned()));
    }
    for (store, says) in cases {
        let error = refusal(&store);
        assert!(error.ends_with(&format!(": {says}")), "{error}");
        assert!(!error.contains(password), "{error}");
        // `doctor` has the advice on a line of its own, and `run` the same error.
        let (what, remedy) = says.rsplit_once("; ").unwrap_or_default();
        let doctor = done(&mut Sandbox::new().bare(&["doctor", "--store", &store]));
        let lines: Vec<_> = doctor.stdout.lines().collect();
        assert!(lines[0].ends_with(what), "{doctor:?}");
        assert_eq!(lines[1].trim_start(), format!("-> {remedy}"), "{doctor:?}");
        let run = [
            "run",
            "-n",
            "a",
            "--lock-at-most-for",
            "1m",
            "--store",
            &store,
            "--",
            "true",
        ];
        let run = done(&mut Sandbox::new().bare(&run));
        assert!(
            run.stderr.trim_end().ends_with(&format!(": {says}")),
            "{run:?}"
        );
        // The same without an option that selects the store.
        let list = done(Sandbox::new().bare(&["list"]).env("SHEDLOCK_STORE", &store));
        let says = says.replace(" --store …", "");
        assert!(
            list.stderr.trim_end().ends_with(&format!(": {says}")),
            "{list:?}"
        );
    }
    Ok(())
}

/// A server of another kind: the advice is not just to retry.
pub(crate) fn a_server_of_another_kind_is_suspected(place: &Place) -> Result<(), String> {
    let other = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = other
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    std::thread::spawn(move || {
        for connection in other.incoming().flatten() {
            let mut connection = connection;
            let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let error = refusal(&elsewhere(place, "127.0.0.1", port)?);
    let advice = error.split("; ").skip(1).collect::<Vec<_>>().join("; ");
    let is_suspected = [
        "port",
        "ports",
        "address is right",
        "this URL is",
        "hosts in the URL are right",
    ];
    assert!(
        is_suspected.iter().any(|words| advice.contains(words)),
        "{error}"
    );
    for words in ["expected to read", "sqlx", "Parse error at"] {
        assert!(!error.contains(words), "{error}");
    }
    Ok(())
}

/// A server that accepts connections and never replies.
pub(crate) fn a_silent_server_is_waited_for_no_longer_than_asked(
    place: &Place,
) -> Result<(), String> {
    let silent = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = silent
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let store = elsewhere(place, "127.0.0.1", port)?;
    // Only the wait is short.
    let option = match place.kind() {
        "postgres" | "mysql" => "timeout",
        "zookeeper" => "session_timeout",
        _ => "response_timeout",
    };
    let store = format!(
        "{store}{}{option}=2m",
        if store.contains('?') { '&' } else { '?' }
    );
    let sandbox = Sandbox::new();
    let long = ["--connect-timeout", "1m"];
    let options = [&["--lock-wait", "2s", "--store", &store], &long[..]].concat();
    let began = now();
    let ended = done(&mut sandbox.run_with("a", "60s", &options, "echo ran"));
    let took = now() - began;
    assert_eq!((ended.code, ended.stdout.as_str()), (69, ""), "{ended:?}");
    assert!(took >= Duration::from_secs(2), "{took:?}");
    // A second is documented, and the machine may be busy.
    assert!(took < Duration::from_secs(20), "{took:?}: {ended:?}");
    assert!(ended.stderr.contains("(--lock-wait 2s)"), "{ended:?}");
    Ok(())
}
