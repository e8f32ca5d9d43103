//! Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use shedlock_conformance::support::{OwnServer, free_port, server_if_any};

use super::common::{Sandbox, done};
use super::doctor;

/// Sends a command as a line of text, and returns the first line of the reply.
fn send(url: &str, command: &str) -> String {
    let address = url.strip_prefix("redis://").unwrap();
    let mut stream = TcpStream::connect(address.trim_end_matches('/')).unwrap();
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    assert!(!reply.starts_with('-'), "{command}: {reply}");
    reply
}

#[test]
fn no_fault_in_a_setting_or_a_key_is_missed() {
    if server_if_any("SHEDLOCK_TEST_REDIS").is_none() || !OwnServer::can_start() {
        return;
    }
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = OwnServer::start("redis", &durable).unwrap();
    doctor(server.url()).is_healthy();
    let ran = Sandbox::new()
        .run("a", "1m", "true")
        .env("SHEDLOCK_STORE", server.url())
        .output();
    assert!(ran.unwrap().status.success());
    doctor(server.url()).is_healthy();
    for (faults, repairs, check, level, words) in [
        (
            &[
                "CONFIG SET maxmemory 100mb",
                "CONFIG SET maxmemory-policy allkeys-lru",
            ][..],
            &["CONFIG SET maxmemory-policy noeviction"][..],
            "eviction",
            "warning",
            "noeviction",
        ),
        (
            &["CONFIG SET appendfsync everysec"],
            &["CONFIG SET appendfsync always"],
            "durability",
            "warning",
            "appendfsync=always",
        ),
        (
            &["CONFIG SET appendonly no"],
            &["CONFIG SET appendonly yes"],
            "durability",
            "warning",
            "appendonly=yes",
        ),
        (
            &["SET job-lock:default:endless ADDED:2026-01-01T00:00:00.000Z@web-3"],
            &["DEL job-lock:default:endless"],
            "end",
            "error",
            "\"endless\" (no end)",
        ),
        (
            &["LPUSH job-lock:default:list x"],
            &["DEL job-lock:default:list"],
            "records",
            "error",
            "\"list\"",
        ),
    ] {
        for fault in faults {
            send(server.url(), fault);
        }
        doctor(server.url()).has_only(check, level, words);
        for repair in repairs {
            send(server.url(), repair);
        }
        doctor(server.url()).is_healthy();
    }
    let replica = OwnServer::start("redis", &[]).unwrap();
    let port = port_of(server.url());
    send(replica.url(), &format!("REPLICAOF 127.0.0.1 {port}"));
    super::common::eventually("a connected replica", || {
        done(&mut Sandbox::new().bare(&["doctor", "--store", server.url()]))
            .stdout
            .contains("wait_replicas=1")
    });
    doctor(server.url()).has_only("replicas", "warning", "wait_replicas=1");
    doctor(replica.url()).has_only("setup", "error", "connect to the primary");
}

/// Three nodes, and a URL of one of them alone.
#[test]
fn a_cluster_is_healthy_and_a_url_that_does_not_name_it_is_an_error() {
    if server_if_any("SHEDLOCK_TEST_REDIS").is_none() || !OwnServer::can_start() {
        return;
    }
    let (nodes, buses): (Vec<_>, Vec<_>) = (0..3).map(|_| node()).unzip();
    let ports: Vec<_> = nodes.iter().map(|node| port_of(node.url())).collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        send(node.url(), &format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for (port, bus) in ports.iter().zip(&buses).skip(1) {
        send(
            nodes[0].url(),
            &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"),
        );
    }
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let cluster = format!("redis-cluster://{}", hosts.join(","));
    super::common::eventually("a cluster that is complete", || {
        done(&mut Sandbox::new().bare(&["doctor", "--strict", "--store", &cluster])).code == 0
    });
    doctor(&cluster).is_healthy();
    doctor(nodes[0].url()).has_only("setup", "error", "redis-cluster://");
    send(nodes[2].url(), "CONFIG SET appendfsync everysec");
    doctor(&cluster).has_only("durability", "warning", "appendfsync=always");
}

fn port_of(url: &str) -> &str {
    let port = url.rsplit(':').next().unwrap();
    port.trim_end_matches('/')
}

/// A node of a cluster, and the port on which it meets others: the usual one may be too high.
fn node() -> (OwnServer, String) {
    let bus = free_port().unwrap().to_string();
    let mut settings = vec!["--appendonly", "yes", "--appendfsync", "always"];
    settings.extend(["--cluster-enabled", "yes", "--cluster-port", &bus]);
    (OwnServer::start("redis", &settings).unwrap(), bus)
}
