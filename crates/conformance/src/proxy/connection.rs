//! One client and its connection to the store.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::Fault;
use super::rules::{Line, Rules, Strike};
use crate::wait::sleep;

const PACKET: usize = 64 * 1024;

/// Carries bytes both ways until either side closes or the line is cut.
pub(super) async fn run(
    client: TcpStream,
    store: TcpStream,
    rules: &Rules,
    id: u64,
    line: watch::Sender<Line>,
) {
    // Small packets must not wait for each other here; where it fails they are merely slower.
    let _ = client.set_nodelay(true);
    let _ = store.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_store, to_store) = store.into_split();
    let mut cut = line.subscribe();
    tokio::select! {
        () = requests(from_client, to_store, rules, id, &line) => {}
        () = replies(from_store, to_client, rules, id, &line) => {}
        _ = cut.wait_for(|line| *line == Line::Cut) => {}
    }
    line.send_replace(Line::Cut);
}

/// From the client to the store. Ends when either is gone.
async fn requests(
    mut client: OwnedReadHalf,
    mut store: OwnedWriteHalf,
    rules: &Rules,
    id: u64,
    line: &watch::Sender<Line>,
) {
    let mut packet = vec![0; PACKET];
    while let Some(length) = read(&mut client, &mut packet).await {
        if *line.borrow() == Line::Dead {
            continue;
        }
        let request = &packet[..length];
        let strike = rules.see(id, request);
        match strike {
            Some(Strike::CutBeforeRequest) => return,
            Some(Strike::SwallowRequest) => {
                line.send_replace(Line::Dead);
                continue;
            }
            Some(Strike::CutBeforeReply) => drop(line.send_replace(Line::CutOnReply)),
            Some(Strike::SwallowReply) => drop(line.send_replace(Line::NoReplies)),
            Some(Strike::DelayRequest(delay)) => sleep(delay).await,
            Some(Strike::DelayReply(delay)) => {
                line.send_replace(Line::DelayNextReply(delay));
            }
            None => {}
        }
        if let Fault::Delay { to_store, .. } = rules.fault() {
            sleep(to_store).await;
        }
        if *line.borrow() == Line::Dead {
            continue;
        }
        if store.write_all(request).await.is_err() {
            return;
        }
    }
}

/// From the store to the client. Ends when either is gone, or when a reply is to be cut off.
async fn replies(
    mut store: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    rules: &Rules,
    id: u64,
    line: &watch::Sender<Line>,
) {
    let mut packet = vec![0; PACKET];
    while let Some(length) = read(&mut store, &mut packet).await {
        let now = *line.borrow();
        let delay = match now {
            Line::Open => delay_to_client(rules),
            Line::DelayNextReply(delay) => {
                line.send_replace(Line::Open);
                delay
            }
            Line::NoReplies | Line::Dead => continue,
            Line::CutOnReply | Line::Cut => return,
        };
        sleep(delay).await;
        // What was in flight when the line fell silent does not arrive either.
        if matches!(*line.borrow(), Line::Dead | Line::NoReplies) {
            continue;
        }
        rules.answer(id, &packet[..length]);
        if client.write_all(&packet[..length]).await.is_err() {
            return;
        }
    }
}

fn delay_to_client(rules: &Rules) -> Duration {
    match rules.fault() {
        Fault::Delay { to_client, .. } => to_client,
        _ => Duration::ZERO,
    }
}

async fn read(from: &mut OwnedReadHalf, packet: &mut [u8]) -> Option<usize> {
    match from.read(packet).await {
        Ok(0) | Err(_) => None,
        Ok(length) => Some(length),
    }
}
