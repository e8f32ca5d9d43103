//! Consul.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;

use super::common::eventually;
use super::{cannot_run, doctor};

const MASTER: &str = "6d8f3f7e-41f3-4a43-9a8e-3b0e4c1f5a10";

/// Sends this to the agent as the administrator. A server that has just started replies 500 until its
/// rules are in force.
fn create(server: &str, what: &str, body: &Value) -> Value {
    let address = server.strip_prefix("consul://").unwrap();
    let body = body.to_string();
    let request = format!(
        "PUT /v1/acl/{what} HTTP/1.0\r\nX-Consul-Token: {MASTER}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut created = None;
    eventually("rules of the server", || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        if head.contains(" 500 ") {
            return false;
        }
        created = Some(serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}")));
        true
    });
    created.unwrap()
}

/// Creates a token with these permissions.
fn token(server: &str, name: &str, rules: &str) -> String {
    create(server, "policy", &json!({ "Name": name, "Rules": rules }));
    let token = create(server, "token", &json!({ "Policies": [{ "Name": name }] }));
    token["SecretID"].as_str().unwrap().to_owned()
}

#[test]
fn no_permission_that_a_token_lacks_is_missed() {
    if server_if_any("consul").is_none() {
        return;
    }
    let rules = format!(
        "-hcl=acl {{ enabled = true default_policy = \"deny\" tokens {{ master = \"{MASTER}\" }} }}"
    );
    let server = OwnServer::start("consul", &[&rules]).unwrap();
    let write = r#"key_prefix "shedlock/" { policy = "write" }"#;
    let writer = token(server.url(), "writer", write);
    let reader = token(server.url(), "reader", &write.replace("write", "read"));
    let of = |token: &str| server.url().replacen("://", &format!("://:{token}@"), 1);
    doctor(&of(&writer)).is_healthy();
    let lacks = "policy = \"write\"";
    for (url, words) in [
        (of(&reader), lacks),
        (server.url().to_owned(), lacks),
        (
            format!("{}/elsewhere", of(&writer)),
            "key_prefix \"elsewhere/\"",
        ),
        (of("no-such-token"), "ACL not found"),
    ] {
        doctor(&url).has_only("setup", "error", words);
        cannot_run(&url, "a", words);
    }
}
