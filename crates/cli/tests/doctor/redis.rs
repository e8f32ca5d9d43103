//! Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use shedlock_rig::OwnServer;
use shedlock_rig::given::server_if_any;
use shedlock_rig::port;

use super::common::{Sandbox, done};
use super::{cannot_run, doctor, doctor_with};

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
    if server_if_any("redis").is_none() {
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
    let waiting = |replicas: u32| format!("{}?wait_replicas={replicas}", server.url());
    let too_few =
        "locks wait for 2 replicas (wait_replicas), and 0 are online: no lock can be taken";
    doctor(&waiting(2)).has_only("replicas", "error", too_few);
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
    super::common::eventually("a replica that is online", || doctor(&waiting(1)).code == 0);
    doctor(&waiting(1)).is_healthy();
    let too_few =
        "locks wait for 2 replicas (wait_replicas), and 1 are online: no lock can be taken";
    doctor(&waiting(2)).has_only("replicas", "error", too_few);
    cannot_run(&waiting(2), "a", "1 of 2 replicas confirmed");
}

/// Users with all that locks and their journal need, except for some commands or keys.
#[test]
fn no_lack_of_a_permission_is_missed() {
    if server_if_any("redis").is_none() {
        return;
    }
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = OwnServer::start("redis", &durable).unwrap();
    let of_user = server.url().replacen("://", "://locks:pw@", 1);
    let become_user = |rights: &str| {
        send(
            server.url(),
            &format!("ACL SETUSER locks reset on >pw {rights}"),
        );
    };
    let (keys, locks) = (
        "~job-lock:* ~shedlock-rs:*",
        "+evalsha +eval +time +get +set +del \
        +append +pttl +pexpireat +scan +ping +info +config|get",
    );
    let journal = "+hget +hset +hsetnx +hdel +zadd +zrem +zlexcount +zrangebylex +zrevrangebylex";
    become_user(&format!("{keys} {locks} {journal}"));
    doctor(&of_user).is_healthy();
    let migrated = done(&mut Sandbox::new().bare(&["migrate", "--store", &of_user]));
    assert_eq!(migrated.code, 0, "{migrated:?}");
    doctor(&of_user).is_healthy();

    become_user(&format!("{keys} {locks} {journal} -append -pexpireat"));
    let may_not = "this user may not run append and pexpireat on the keys of locks";
    doctor(&of_user).has_only("privileges", "error", may_not);
    for (rights, check, words) in [
        (
            format!("%R~job-lock:* ~shedlock-rs:* {locks} {journal}"),
            "setup",
            "the user lacks a permission",
        ),
        (
            format!("~other:* ~shedlock-rs:* {locks} {journal}"),
            "setup",
            "the user lacks a permission",
        ),
        (
            format!("{keys} {locks} {journal} -eval -evalsha"),
            "setup",
            "the user lacks a permission",
        ),
    ] {
        become_user(&rights);
        doctor(&of_user).has_only(check, "error", words);
        doctor(&of_user).has_only(check, "error", "grant it the commands evalsha, eval, time");
        cannot_run(&of_user, "a", "the user lacks a permission");
    }
    for (rights, words) in [
        (
            format!("{keys} {locks} {journal} -zadd -hset"),
            "has version 1, but this user lacks the commands hset and zadd on the keys \
             \"shedlock-rs:journal:{job-lock:default}:*\"",
        ),
        (
            format!("~job-lock:* ~shedlock-rs:{{* {locks} {journal}"),
            "may not use the journal, if there is one: it lacks the commands ",
        ),
    ] {
        become_user(&rights);
        let report = doctor(&of_user);
        report.has_only("journal", "warning", words);
        report.has_only("journal", "warning", "stores/redis/README.md");
    }
    become_user(&format!("{keys} {locks}"));
    send(
        server.url(),
        "DEL shedlock-rs:journal:{job-lock:default}:version",
    );
    let (level, text) = doctor(&of_user).journal();
    assert_eq!(level, "warning");
    assert!(text.contains("no journal"), "{text}");
    assert!(
        text.contains("; a journal needs the commands hget"),
        "{text}"
    );
}

/// Three nodes, and a URL of one of them alone.
#[test]
fn a_cluster_is_healthy_and_a_url_that_does_not_name_it_is_an_error() {
    if server_if_any("redis").is_none() {
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
        let report = doctor(&cluster);
        report.code == 0 && report.faults().is_empty()
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
    let bus = port::free().unwrap().to_string();
    let mut settings = vec!["--appendonly", "yes", "--appendfsync", "always"];
    settings.extend(["--cluster-enabled", "yes", "--cluster-port", &bus]);
    (OwnServer::start("redis", &settings).unwrap(), bus)
}

/// ShedLock deletes its key with the unlock, so between two runs a job of Java's does not exist here.
#[test]
fn idle_jobs_of_java_are_named_as_what_cannot_be_seen() {
    if server_if_any("redis").is_none() {
        return;
    }
    let server = OwnServer::start("redis", &[]).unwrap();
    let sandbox = Sandbox::new();
    let shedlock = |arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        done(command.env("SHEDLOCK_STORE", server.url()))
    };
    let value = "ADDED:2026-11-21T03:00:00.000Z@web-2:5f0c9b1d";
    let key = "job-lock:default:sendMails";
    send(server.url(), &format!("SET {key} {value} PX 600000"));
    let unseen = "ShedLock for Java leaves no record of an idle job in this store";

    let report = doctor(server.url());
    let java = report.findings.iter().find(|found| found.check == "java");
    assert!(java.unwrap().message.contains(unseen), "{report:?}");
    let listed = shedlock(&["list"]);
    assert!(listed.stdout.contains("taken"), "{}", listed.stdout);
    assert!(listed.stderr.contains(unseen), "{}", listed.stderr);

    let pause = ["pause", "--now", "--reason", "maintenance"];
    for (of, code) in [("--all", 1), ("send*", 0)] {
        let paused = shedlock(&[&pause[..], &[of]].concat());
        assert_eq!(paused.code, code, "{of}: {}", paused.stderr);
        assert!(
            paused.stdout.contains("sendMails: paused"),
            "{}",
            paused.stdout
        );
        assert!(paused.stderr.contains(unseen), "{of}: {}", paused.stderr);
        assert!(
            paused.stderr.contains("--create"),
            "{of}: {}",
            paused.stderr
        );
    }
    let confirmed = shedlock(&[&pause[..], &["--all", "--no-shedlock"]].concat());
    assert_eq!(confirmed.code, 0, "{}", confirmed.stderr);
    assert!(!confirmed.stderr.contains(unseen), "{}", confirmed.stderr);
    let named = shedlock(&[&pause[..], &["idle", "--create"]].concat());
    assert_eq!(named.code, 0, "{}", named.stderr);
    assert!(!named.stderr.contains(unseen), "{}", named.stderr);
    assert_eq!(shedlock(&["list", "--state", "taken"]).stderr, "");
}

#[test]
fn a_user_who_only_looks_sees_everything_and_changes_nothing() {
    if server_if_any("redis").is_none() {
        return;
    }
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = OwnServer::start("redis", &durable).unwrap();
    let readme = include_str!("../../../../stores/redis/README.md");
    let mut lines = readme.lines();
    let line = lines
        .find(|it| it.starts_with("ACL SETUSER monitor "))
        .unwrap();
    send(server.url(), line);
    let sandbox = Sandbox::new();
    let run =
        |arguments: &[&str], url: &str| done(sandbox.bare(arguments).env("SHEDLOCK_STORE", url));
    assert_eq!(run(&["migrate"], server.url()).code, 0);
    let job = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
    assert_eq!(run(&job, server.url()).code, 0);
    let url = server
        .url()
        .replacen("redis://", "redis://monitor:password@", 1);
    for (look, words) in [
        (&["list"][..], "free"),
        (&["show", "a"], "free"),
        (&["jobs"], "succeeded"),
        (&["history", "a"], "succeeded"),
        (&["metrics"], "shedlock_journal_up 1\n"),
    ] {
        let looked = run(look, &url);
        assert_eq!((looked.code, &*looked.stderr), (0, ""), "{look:?}");
        assert!(looked.stdout.contains(words), "{look:?}: {looked:?}");
    }
    // The only setting that it cannot see.
    doctor_with(&url, &["--read-only"]).has_only("durability", "warning", "CONFIG GET");
    let privileges = doctor(&url);
    let mut faults = privileges.faults().into_iter();
    assert!(faults.any(|it| it == ("privileges", "error")));
    let refused = run(&job, &url);
    assert_eq!(refused.code, 69, "{}", refused.stderr);
    let says = "the user lacks a permission";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
}
