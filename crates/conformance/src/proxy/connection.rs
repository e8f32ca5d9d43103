//! One client and its connection to the store.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{oneshot, watch};

use super::rules::{Line, Rules, Strike, http2_control};
use super::trap::{Met, Order};
use super::{Delivery, Fault};
use crate::wait::{bounded, sleep};

const PACKET: usize = 64 * 1024;

/// What follows a packet within this belongs to the same request.
const REST: Duration = Duration::from_millis(50);

/// A store that has not replied for this long has only a part of the request.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Copies bytes in both directions until either side closes or the line is cut.
pub(super) async fn run(
    client: TcpStream,
    store: TcpStream,
    rules: &Rules,
    id: u64,
    line: watch::Sender<Line>,
) {
    // Small packets must not be batched here. If this fails, they are only slower.
    let _ = client.set_nodelay(true);
    let _ = store.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_store, mut to_store) = store.into_split();
    let mut cut = line.subscribe();
    loop {
        // Read from the store and not yet written to the client.
        let mut delayed = Vec::new();
        let withheld = tokio::select! {
            withheld = requests(&mut from_client, &mut to_store, rules, id, &line) => withheld,
            () = replies(&mut from_store, &mut to_client, rules, id, &line, &mut delayed) => None,
            _ = cut.wait_for(|line| *line == Line::Cut) => None,
        };
        let Some(withheld) = withheld else { break };
        if withheld.cuts {
            // From now on there is only the store's side, which no later fault of the line affects.
            line.send_replace(Line::Cut);
            // The client reads that the connection has ended. A part of its request may still be on its way here.
            drop(to_client);
            withheld
                .deliver(
                    delayed,
                    &mut from_client,
                    &mut from_store,
                    &mut to_store,
                    None,
                )
                .await;
            return;
        }
        // Nothing is read from the client meanwhile, so its disconnection cannot be detected.
        let goes_on = tokio::select! {
            biased;
            _ = cut.wait_for(|line| *line == Line::Cut) => false,
            goes_on = withheld.deliver(
                delayed, &mut from_client, &mut from_store, &mut to_store, Some(&mut to_client)
            ) => goes_on,
        };
        if !goes_on {
            break;
        }
    }
    line.send_replace(Line::Cut);
}

/// Copies from the client to the store. Ends when either side is gone, or when a request is
/// withheld.
async fn requests(
    client: &mut OwnedReadHalf,
    store: &mut OwnedWriteHalf,
    rules: &Rules,
    id: u64,
    line: &watch::Sender<Line>,
) -> Option<Withheld> {
    let mut packet = vec![0; PACKET];
    while let Some(length) = read(client, &mut packet).await {
        if *line.borrow() == Line::Dead {
            continue;
        }
        let request = &packet[..length];
        let met = rules.see(id, request);
        match met.as_ref().map(|met| met.strike) {
            Some(Strike::CutBeforeRequest) => return None,
            Some(
                Strike::WithholdRequest | Strike::CutAndWithholdRequest | Strike::CutThenDeliver(_),
            ) => {
                let request = with_rest(client, request).await;
                return met.map(|met| Withheld::new(request, met));
            }
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
            return None;
        }
    }
    None
}

/// Copies from the store to the client. Ends when either side is gone, or when a reply is to be cut
/// off.
async fn replies(
    store: &mut OwnedReadHalf,
    client: &mut OwnedWriteHalf,
    rules: &Rules,
    id: u64,
    line: &watch::Sender<Line>,
    delayed: &mut Vec<u8>,
) {
    let mut packet = vec![0; PACKET];
    while let Some(length) = read(store, &mut packet).await {
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
        delayed.extend_from_slice(&packet[..length]);
        sleep(delay).await;
        delayed.clear();
        // Replies in flight when the line went silent do not arrive either.
        if matches!(*line.borrow(), Line::Dead | Line::NoReplies) {
            continue;
        }
        rules.answer(id, &packet[..length]);
        if client.write_all(&packet[..length]).await.is_err() {
            return;
        }
    }
}

/// A request that the store has not yet received.
struct Withheld {
    request: Vec<u8>,
    /// Whether the client's connection is cut at once.
    cuts: bool,
    order: oneshot::Receiver<Order>,
}

impl Withheld {
    fn new(request: Vec<u8>, met: Met) -> Self {
        met.trap.has_sprung();
        let order = match met.strike {
            Strike::CutThenDeliver(delay) => ordered_after(delay),
            _ => met.order,
        };
        Self {
            request,
            cuts: met.strike != Strike::WithholdRequest,
            order,
        }
    }

    /// Waits for the order, sends the request, and waits for the store's reply. Returns whether the
    /// connection continues. Bytes that were already `late` are delivered late as well: they are
    /// not the reply to this request.
    async fn deliver(
        self,
        mut late: Vec<u8>,
        from_client: &mut OwnedReadHalf,
        from_store: &mut OwnedReadHalf,
        to_store: &mut OwnedWriteHalf,
        to_client: Option<&mut OwnedWriteHalf>,
    ) -> bool {
        let Some(done) = ordered(self.order, &mut late, from_store).await else {
            return false;
        };
        let is_answered = to_store.write_all(&self.request).await.is_ok()
            && answered(&mut late, from_client, from_store, to_store).await;
        // The client may be gone, and so may the sender of the order.
        if let Some(to_client) = to_client {
            let _ = to_client.write_all(&late).await;
        }
        let _ = done.send(match is_answered {
            true => Delivery::Answered,
            false => Delivery::Closed,
        });
        is_answered
    }
}

/// Waits for the order, and meanwhile appends to `late` what the store sends. Returns `None` if the store closes the
/// connection, or if the sender of the order is gone.
async fn ordered(
    mut order: oneshot::Receiver<Order>,
    late: &mut Vec<u8>,
    from_store: &mut OwnedReadHalf,
) -> Option<Order> {
    let mut packet = vec![0; PACKET];
    loop {
        tokio::select! {
            biased;
            length = read(from_store, &mut packet) => {
                let Some(length) = length else {
                    if let Ok(done) = order.await {
                        let _ = done.send(Delivery::Closed);
                    }
                    return None;
                };
                late.extend_from_slice(&packet[..length]);
            }
            order = &mut order => return order.ok(),
        }
    }
}

/// Waits for the store's reply, and appends it to `late`. If the store has only a part of the request, because the
/// client was stopped between two packets, it gets what the client has sent since. That waits until then: it may also
/// be that the client has given the request up.
async fn answered(
    late: &mut Vec<u8>,
    from_client: &mut OwnedReadHalf,
    from_store: &mut OwnedReadHalf,
    to_store: &mut OwnedWriteHalf,
) -> bool {
    if let Some(is_answered) = bounded(UNANSWERED, reply(from_store, late)).await {
        return is_answered;
    }
    let rest = async {
        let _ = tokio::io::copy(from_client, to_store).await;
        std::future::pending().await
    };
    tokio::select! {
        is_answered = reply(from_store, late) => is_answered,
        never = rest => never,
    }
}

/// Returns whether the store replied before it closed the connection.
async fn reply(from_store: &mut OwnedReadHalf, late: &mut Vec<u8>) -> bool {
    let mut packet = vec![0; PACKET];
    let is_control = http2_control();
    while let Some(length) = read(from_store, &mut packet).await {
        late.extend_from_slice(&packet[..length]);
        if !is_control(&packet[..length]) {
            return true;
        }
    }
    false
}

/// The request, with what the client sends right after its first packet: a store does not reply to half of one, and a
/// client on a busy machine writes one request in several packets.
async fn with_rest(client: &mut OwnedReadHalf, first: &[u8]) -> Vec<u8> {
    let (mut request, mut packet) = (first.to_vec(), vec![0; PACKET]);
    let rest = async {
        while let Some(length) = read(client, &mut packet).await {
            request.extend_from_slice(&packet[..length]);
        }
    };
    let _ = bounded(REST, rest).await;
    request
}

/// An order that is given after this delay, and whose outcome is not needed.
fn ordered_after(delay: Duration) -> oneshot::Receiver<Order> {
    let (sender, order) = oneshot::channel();
    tokio::spawn(async move {
        sleep(delay).await;
        let (done, _) = oneshot::channel();
        // The store may have closed its side in the meantime.
        let _ = sender.send(done);
    });
    order
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
