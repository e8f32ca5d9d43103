//! The dashboard and the metrics of `run`, with clients that never ask, never finish asking, or never leave.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use shedlock_rig::{Running, port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Load;
use crate::part::{PATIENCE, Place, Samples, descriptors, end, note, resident};
use crate::quantity::{
    DESCRIPTORS_OF_RUN, DESCRIPTORS_OF_UI, Quantity, RESIDENT_OF_RUN, RESIDENT_OF_UI,
};

/// The variable with the command, which `cargo xtask soak` sets.
const COMMAND: &str = "SHEDLOCK_SOAK_COMMAND";

/// Clients of each kind that come to each server at once.
const CLIENTS: usize = 3;

/// From one wave of them to the next.
const BETWEEN: Duration = Duration::from_secs(10);

/// What they send, and then nothing more.
const WORDS: [&str; 3] = [
    "",
    "GET /now HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
];

struct Server {
    running: Running,
    address: SocketAddr,
    descriptors: &'static Quantity,
    resident: &'static Quantity,
}

impl Server {
    fn start(
        arguments: &[&str],
        option: &str,
        quantities: [&'static Quantity; 2],
        place: &Place,
    ) -> anyhow::Result<Self> {
        let program = env::var_os(COMMAND)
            .with_context(|| format!("{COMMAND} is not set: run `cargo xtask soak`"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port::free()?));
        let (before, command) = arguments.split_at(arguments.len().min(5));
        let mut started = Command::new(program);
        started
            .args(before)
            .args([option, &address.to_string()])
            .args(command)
            .env("SHEDLOCK_STORE", &place.url)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let [descriptors, resident] = quantities;
        let running = Running::start(&mut started)?;
        Ok(Self {
            running,
            address,
            descriptors,
            resident,
        })
    }

    fn id(&self) -> u32 {
        self.running.id()
    }
}

pub(super) async fn run(place: &Place, load: Load) -> anyhow::Result<()> {
    drop(place.provider().await?);
    let run = [
        "run",
        "--name",
        "watched",
        "--lock-at-most-for",
        "1d",
        "--",
        "sleep",
        "1d",
    ];
    let servers = [
        Server::start(
            &["ui"],
            "--listen",
            [&DESCRIPTORS_OF_UI, &RESIDENT_OF_UI],
            place,
        )?,
        Server::start(
            &run,
            "--metrics-listen",
            [&DESCRIPTORS_OF_RUN, &RESIDENT_OF_RUN],
            place,
        )?,
    ];
    let mut before = Vec::new();
    for server in &servers {
        answers(server.address).await?;
        before.push(descriptors(server.id())?);
    }
    let (came, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut samples = Samples::new(load);
    let mut next = tokio::time::interval(BETWEEN);
    loop {
        tokio::select! {
            _ = next.tick() => {
                for word in WORDS {
                    for server in servers.iter().flat_map(|server| [server; CLIENTS]) {
                        let counts = (came.clone(), waiting.clone());
                        tokio::spawn(client(server.address, word, counts));
                    }
                }
            }
            more = samples.next() => {
                if !more {
                    break;
                }
                for server in &servers {
                    samples.add(server.descriptors, descriptors(server.id())?);
                    samples.add(server.resident, resident(server.id())?);
                }
            }
        }
    }
    // No client leaves: the servers must close.
    let is_over = async {
        while waiting.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, is_over).await;
    end("clients still connected", waiting.load(Ordering::SeqCst), 0);
    for (server, before) in servers.iter().zip(before) {
        let left = descriptors(server.id())? - before;
        ensure!(left.is_finite(), "descriptors cannot be counted");
        samples.add(server.descriptors, left + before);
    }
    note(&format!("{} clients", came.load(Ordering::SeqCst)));
    Ok(())
}

/// Waits until the server replies.
async fn answers(address: SocketAddr) -> anyhow::Result<()> {
    let reply = async {
        loop {
            if let Ok(mut stream) = TcpStream::connect(address).await {
                let words = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
                stream.write_all(words.as_bytes()).await?;
                let mut reply = Vec::new();
                stream.read_to_end(&mut reply).await?;
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reply)
        .await
        .context("a server did not reply")?
}

/// Says this, and stays until the server closes the connection.
async fn client(
    address: SocketAddr,
    word: &str,
    (came, waiting): (Arc<AtomicUsize>, Arc<AtomicUsize>),
) {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return;
    };
    came.fetch_add(1, Ordering::SeqCst);
    waiting.fetch_add(1, Ordering::SeqCst);
    let _ = stream.write_all(word.as_bytes()).await;
    let mut reply = [0; 4_096];
    while stream.read(&mut reply).await.is_ok_and(|length| length > 0) {}
    waiting.fetch_sub(1, Ordering::SeqCst);
}
