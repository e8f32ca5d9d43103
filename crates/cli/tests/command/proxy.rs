//! The dashboard behind nginx, as `docs/dashboard.md` sets it up.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;
use shedlock_rig::{Running, port};

use super::common::{Sandbox, blocks, done, eventually, page};
use super::server::{Server, status};
use super::ui::sandbox;

/// The users of nginx: alice:secret.
const USERS: &str = "alice:{PLAIN}secret\n";
const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";

struct Nginx {
    _process: Running,
    port: u16,
}

impl Nginx {
    /// With the block of the page, in which these texts are replaced.
    fn start(sandbox: &Sandbox, server: &Server, changes: &[(&str, &str)]) -> Self {
        let mut block = blocks(&page("dashboard.md"), "nginx").remove(0);
        let address = format!("127.0.0.1:{}", server.port);
        let own = [
            ("127.0.0.1:8460", &*address),
            ("/etc/nginx/shedlock-users", "users"),
        ];
        for (there, here) in own.iter().chain(changes) {
            assert!(block.contains(there), "{there} in {block}");
            block = block.replace(there, here);
        }
        let folder = sandbox.path(".");
        let folder = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|it| format!("{it}_temp_path {folder}/{it};\n"));
        let port = port::free().unwrap();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n\
             http {{\naccess_log off;\n{}server {{\nlisten 127.0.0.1:{port};\n{block}}}\n}}\n",
            temporary.concat()
        );
        fs::write(sandbox.path("nginx.conf"), config).unwrap();
        fs::write(sandbox.path("users"), USERS).unwrap();
        let mut nginx = Command::new("nginx");
        nginx
            .arg("-e")
            .arg("stderr")
            .arg("-p")
            .arg(sandbox.path("."));
        nginx.arg("-c").arg(sandbox.path("nginx.conf"));
        nginx.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Running::start(&mut nginx);
        let process = process.expect("nginx is needed: on Debian `apt-get install -y nginx-light`");
        eventually("nginx", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        Self {
            _process: process,
            port,
        }
    }

    /// What a browser sends that opened the page by this name, without TLS.
    fn send(&self, line: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nHost: ops.example.com:{port}\r\nConnection: close\r\n\
             Origin: http://ops.example.com:{port}\r\nContent-Length: {length}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }
}

const OPTIONS: [&str; 5] = [
    "--behind-proxy",
    "--user-header",
    "Remote-User",
    "--allow-host",
    "ops.example.com",
];

#[test]
fn a_user_of_the_proxy_is_in_the_audit_and_no_one_else_gets_in() {
    for prefix in [&[][..], &["--prefix", "/shedlock"]] {
        let sandbox = sandbox();
        let ran = done(&mut sandbox.run("payroll", "1m", "true"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let server = Server::start(&sandbox, &[&OPTIONS, prefix].concat());
        // Without the slash, nginx keeps the prefix.
        let address = format!(":{}", server.port);
        let removed = format!("{address}/");
        let change: &[(&str, &str)] = match prefix {
            [] => &[],
            _ => &[(&removed, &address)],
        };
        let nginx = Nginx::start(&sandbox, &server, change);
        let stranger = nginx.send("GET /shedlock/now", "", "");
        assert_eq!(status(&stranger), "401", "{stranger}");
        let page = nginx.send("GET /shedlock/job?name=payroll", ALICE, "");
        assert_eq!(status(&page), "200", "{page}");
        let forged = format!("{ALICE}Remote-User: mallory\r\nX-Forwarded-User: mallory\r\n");
        let paused = nginx.send("POST /shedlock/act", &forged, "name=payroll&do=pause");
        assert_eq!(status(&paused), "303", "{paused}");
        let history = done(&mut sandbox.shedlock(&["history", "payroll", "-o", "json"]));
        let history: Value = serde_json::from_str(&history.stdout).unwrap();
        let action = &history["actions"][0];
        assert_eq!(action["by"], "alice", "{history} {paused}");
        assert_eq!(action["is_authenticated"], true, "{action}");

        // Past the proxy: without a name, and with two.
        let path = format!("{}/now", prefix.last().unwrap_or(&""));
        for headers in [
            "",
            "Remote-User: a\r\nRemote-User: b\r\n",
            "Remote-User: \r\n",
        ] {
            let refused = server.get(&path, headers);
            assert_eq!(status(&refused), "403", "{headers} {refused}");
        }
        server.stop();
    }
}

#[test]
fn what_a_proxy_is_set_up_wrong_in_is_named() {
    let sandbox = sandbox();
    let ran = done(&mut sandbox.run("payroll", "1m", "true"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let server = Server::start(&sandbox, &OPTIONS);
    // nginx sends the host of proxy_pass then.
    let host = "proxy_set_header     Host $http_host;";
    let nginx = Nginx::start(&sandbox, &server, &[(host, "")]);
    let refused = nginx.send("POST /shedlock/act", ALICE, "name=payroll&do=pause");
    assert_eq!(status(&refused), "403", "{refused}");
    let text = format!(
        "the page is at http://ops.example.com:{}, but the request came for the host 127.0.0.1:{}",
        nginx.port, server.port
    );
    assert!(refused.contains(&text), "{refused}");
    drop(nginx);
    // The prefix is kept, and the dashboard does not know it; and the other way round.
    let lost = server.get("/shedlock/now", "Remote-User: alice\r\n");
    assert_eq!(status(&lost), "404", "{lost}");
    assert!(lost.contains("a prefix in the path"), "{lost}");
    server.stop();
    let server = Server::start(&sandbox, &["--prefix", "/shedlock"]);
    let lost = server.get("/now", "");
    assert_eq!(status(&lost), "404", "{lost}");
    assert!(
        lost.contains("this dashboard is at /shedlock/ (--prefix)"),
        "{lost}"
    );
    server.stop();

    let open = ["ui", "--listen", "0.0.0.0:0", "--read-only"];
    let refused = done(&mut sandbox.shedlock(&[&open, &OPTIONS[..3]].concat()));
    assert_eq!(refused.code, 2, "{refused:?}");
    let why = "everyone who can reach 0.0.0.0:0 could send this header";
    assert!(refused.stderr.contains(why), "{refused:?}");
}
