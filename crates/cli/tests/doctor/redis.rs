//! Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use shedlock_conformance::support::{OwnServer, server_if_any};

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
    let port = server
        .url()
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/');
    send(replica.url(), &format!("REPLICAOF 127.0.0.1 {port}"));
    super::common::eventually("a connected replica", || {
        done(&mut Sandbox::new().bare(&["doctor", "--store", server.url()]))
            .stdout
            .contains("wait_replicas=1")
    });
    doctor(server.url()).has_only("replicas", "warning", "wait_replicas=1");
    doctor(replica.url()).has_only("setup", "error", "connect to the primary");
}
