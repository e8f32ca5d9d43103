//! The fault proxy alone, between plain sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_conformance::proxy::{Delivery, Fault, Proxy, Strike, Traffic, contains};
use shedlock_core::{Clock, SystemClock, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Answers each request with "re: " in front of it, and records it. Of a request that ends in "…" there is more to come.
struct Echo {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    closing: watch::Sender<()>,
}

impl Echo {
    async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let seen = Arc::new(Mutex::default());
        let closing = watch::Sender::new(());
        let (requests, close) = (Arc::clone(&seen), closing.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (requests, mut close) = (Arc::clone(&requests), close.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        () = reply(stream, &requests) => {}
                        _ = close.changed() => {}
                    }
                });
            }
        });
        Ok(Self {
            addr,
            seen,
            closing,
        })
    }

    fn seen(&self) -> usize {
        self.requests().len()
    }

    fn last(&self) -> String {
        self.requests().last().cloned().unwrap_or_default()
    }

    fn close_connections(&self) {
        self.closing.send_replace(());
    }

    fn requests(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn reply(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let (mut packet, mut request) = ([0; 1024], String::new());
    while let Ok(length @ 1..) = stream.read(&mut packet).await {
        request += &String::from_utf8_lossy(&packet[..length]);
        if request.ends_with('…') {
            continue;
        }
        let reply = format!("re: {request}");
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(std::mem::take(&mut request));
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn setup() -> io::Result<(Echo, Proxy)> {
    let echo = Echo::start().await?;
    let proxy = Proxy::start(echo.addr).await?;
    Ok((echo, proxy))
}

async fn ask(client: &mut TcpStream, request: &str) -> io::Result<String> {
    client.write_all(request.as_bytes()).await?;
    let mut packet = [0; 1024];
    match client.read(&mut packet).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        length => Ok(String::from_utf8_lossy(&packet[..length]).into_owned()),
    }
}

/// Returns the reply, or `None` after a time in which it would have arrived.
async fn ask_briefly(client: &mut TcpStream, request: &str) -> Option<io::Result<String>> {
    tokio::select! {
        answer = ask(client, request) => Some(answer),
        () = wait(Duration::from_millis(200)) => None,
    }
}

async fn wait(duration: Duration) {
    SystemClock.sleep_until(SystemClock.now() + duration).await;
}

#[tokio::test]
async fn round_trips_and_bytes_are_counted_and_chatter_is_not() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let (mut one, mut other) = (
        TcpStream::connect(proxy.addr()).await?,
        TcpStream::connect(proxy.addr()).await?,
    );
    ask(&mut one, "before").await?;
    let meter = proxy.measure(Some(contains("ping")));
    assert_eq!(ask(&mut one, "first").await?, "re: first");
    assert_eq!(ask(&mut other, "ping").await?, "re: ping");
    assert_eq!(ask(&mut other, "second").await?, "re: second");
    let expected = Traffic {
        round_trips: 2,
        to_store: 11,
        to_client: 19,
    };
    assert_eq!(meter.settled().await, expected);
    Ok(())
}

#[tokio::test]
async fn requests_in_flight_together_are_one_round_trip() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    ask(&mut client, "before").await?;
    let late = Fault::Delay {
        to_store: Duration::ZERO,
        to_client: Duration::from_millis(200),
    };
    proxy.set(late).await?;
    let meter = proxy.measure(None);
    client.write_all(b"one").await?;
    wait(Duration::from_millis(20)).await;
    assert!(ask(&mut client, "two").await?.starts_with("re: one"));
    assert_eq!(meter.traffic().round_trips, 1);
    Ok(())
}

#[tokio::test]
async fn everything_passes_at_first() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "one").await?, "re: one");
    assert_eq!(ask(&mut client, "two").await?, "re: two");
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_cut_never_reaches_the_store() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let trap = proxy.on_request(contains("two"), 1, Strike::CutBeforeRequest);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "one").await?, "re: one");
    assert!(!trap.has_struck());
    assert!(ask(&mut client, "two").await.is_err());
    assert!(trap.has_struck());
    assert_eq!(echo.seen(), 1);
    // The trap strikes once.
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "two").await?, "re: two");
    Ok(())
}

#[tokio::test]
async fn a_reply_that_is_cut_was_given() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let trap = proxy.on_request(contains("one"), 2, Strike::CutBeforeReply);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    let mut other = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "one").await?, "re: one");
    assert!(ask(&mut client, "one").await.is_err());
    assert!(trap.has_struck());
    assert_eq!(echo.seen(), 2);
    // Only the connection that met the trap is cut.
    assert_eq!(ask(&mut other, "one").await?, "re: one");
    Ok(())
}

#[tokio::test]
async fn a_swallowed_request_leaves_the_line_open_and_silent() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    proxy.on_request(contains("one"), 1, Strike::SwallowRequest);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert!(ask_briefly(&mut client, "one").await.is_none());
    assert_eq!(echo.seen(), 0);
    proxy.heal().await?;
    assert!(ask_briefly(&mut client, "two").await.is_none());
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "three").await?, "re: three");
    Ok(())
}

#[tokio::test]
async fn a_swallowed_reply_was_given() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    proxy.on_request(contains("one"), 1, Strike::SwallowReply);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert!(ask_briefly(&mut client, "one").await.is_none());
    while echo.seen() == 0 {
        wait(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_withheld_request_arrives_when_it_is_delivered() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let trap = proxy.on_request(contains("two"), 1, Strike::WithholdRequest);
    assert_eq!(trap.deliver().await, Delivery::Nothing);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "one").await?, "re: one");
    assert!(ask_briefly(&mut client, "two").await.is_none());
    trap.struck().await;
    proxy.heal().await?;
    assert_eq!(echo.seen(), 1);
    // The client is gone, and other connections continue.
    drop(client);
    let mut other = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut other, "two").await?, "re: two");
    assert_eq!(echo.last(), "two");
    assert_eq!(ask(&mut other, "four").await?, "re: four");
    assert_eq!(trap.deliver().await, Delivery::Answered);
    assert_eq!((echo.seen(), echo.last()), (4, "two".to_owned()));
    assert_eq!(trap.deliver().await, Delivery::Nothing);
    Ok(())
}

/// A store does not reply to the first half of a request. However late the client sends the other half, both arrive
/// when the first one is delivered.
#[tokio::test]
async fn a_request_in_two_packets_is_withheld_whole() -> io::Result<()> {
    let (open, cut) = (Strike::WithholdRequest, Strike::CutAndWithholdRequest);
    tokio::try_join!(
        in_two_packets(open, false),
        in_two_packets(open, true),
        in_two_packets(cut, false),
        in_two_packets(cut, true),
    )
    .map(drop)
}

async fn in_two_packets(strike: Strike, is_late: bool) -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let trap = proxy.on_request(contains("one"), 1, strike);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    client.set_nodelay(true)?;
    client.write_all("one…".as_bytes()).await?;
    if is_late {
        trap.struck().await;
    } else {
        wait(Duration::from_millis(2)).await;
    }
    client.write_all(b" half").await?;
    trap.struck().await;
    assert_eq!(trap.deliver().await, Delivery::Answered);
    assert_eq!((echo.seen(), echo.last()), (1, "one… half".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_connection_goes_on_when_its_withheld_request_is_delivered() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    for _ in 0..2 {
        let trap = proxy.on_request(contains("one"), 1, Strike::WithholdRequest);
        assert!(ask_briefly(&mut client, "one").await.is_none());
        trap.struck().await;
        assert_eq!(trap.deliver().await, Delivery::Answered);
        assert_eq!(ask(&mut client, "two").await?, "re: one");
        let mut packet = [0; 7];
        let length = client.read_exact(&mut packet).await?;
        assert_eq!(&packet[..length], b"re: two");
    }
    Ok(())
}

/// If that reply were lost, every later request would get the reply to the previous one.
#[tokio::test]
async fn a_reply_on_its_way_is_not_lost_when_the_next_request_is_withheld() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    let to_client = Duration::from_millis(300);
    let to_store = Duration::ZERO;
    let delay = Fault::Delay {
        to_store,
        to_client,
    };
    proxy.set(delay).await?;
    let trap = proxy.on_request(contains("two"), 1, Strike::WithholdRequest);
    client.write_all(b"one").await?;
    wait(to_client / 3).await;
    client.write_all(b"two").await?;
    trap.struck().await;
    assert_eq!(trap.deliver().await, Delivery::Answered);
    let mut packet = [0; 14];
    let read = client.read_exact(&mut packet);
    let read = within(&SystemClock, Duration::from_secs(5), read).await;
    assert!(read.is_some(), "a reply was lost");
    assert_eq!(&packet, b"re: onere: two");
    Ok(())
}

#[tokio::test]
async fn a_withheld_request_does_not_arrive_over_a_connection_that_was_cut() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    for is_cut_by_store in [false, true] {
        let trap = proxy.on_request(contains("one"), 1, Strike::WithholdRequest);
        let mut client = TcpStream::connect(proxy.addr()).await?;
        assert!(ask_briefly(&mut client, "one").await.is_none());
        trap.struck().await;
        if is_cut_by_store {
            echo.close_connections();
            wait(Duration::from_millis(50)).await;
        } else {
            proxy.cut_all();
        }
        assert_eq!(trap.deliver().await, Delivery::Closed);
    }
    assert_eq!(echo.seen(), 0);
    Ok(())
}

#[tokio::test]
async fn all_connections_can_fall_silent() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let mut before = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut before, "one").await?, "re: one");
    proxy.set(Fault::Swallow).await?;
    let mut during = TcpStream::connect(proxy.addr()).await?;
    assert!(ask_briefly(&mut before, "two").await.is_none());
    assert!(ask_briefly(&mut during, "two").await.is_none());
    assert_eq!(echo.seen(), 1);
    proxy.heal().await?;
    let mut after = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut after, "three").await?, "re: three");
    assert!(ask_briefly(&mut before, "three").await.is_none());
    Ok(())
}

#[tokio::test]
async fn connections_can_be_refused_and_healed() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    for _ in 0..3 {
        let mut before = TcpStream::connect(proxy.addr()).await?;
        assert_eq!(ask(&mut before, "one").await?, "re: one");
        proxy.set(Fault::Refuse).await?;
        assert!(ask(&mut before, "two").await.is_err());
        let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        proxy.heal().await?;
    }
    let mut after = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut after, "three").await?, "re: three");
    Ok(())
}

#[tokio::test]
async fn both_directions_can_be_delayed() -> io::Result<()> {
    let (echo, proxy) = setup().await?;
    let long = Duration::from_millis(150);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    for strike in [Strike::DelayRequest(long), Strike::DelayReply(long)] {
        proxy.on_request(contains("one"), 1, strike);
        let started = SystemClock.now();
        assert_eq!(ask(&mut client, "one").await?, "re: one");
        assert!(SystemClock.now().saturating_since(started) >= long);
    }
    proxy
        .set(Fault::Delay {
            to_store: long,
            to_client: long,
        })
        .await?;
    let started = SystemClock.now();
    assert_eq!(ask(&mut client, "two").await?, "re: two");
    assert!(SystemClock.now().saturating_since(started) >= 2 * long);
    assert_eq!(echo.seen(), 3);
    Ok(())
}

#[tokio::test]
async fn requests_are_counted() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    ask(&mut client, "job").await?;
    let counter = proxy.count(contains("job"));
    for request in ["job", "other", "a job"] {
        ask(&mut client, request).await?;
    }
    assert_eq!(counter.seen(), 2);
    Ok(())
}

#[tokio::test]
async fn a_dropped_proxy_cuts_its_connections() -> io::Result<()> {
    let (_echo, proxy) = setup().await?;
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut client, "one").await?, "re: one");
    drop(proxy);
    assert!(ask(&mut client, "two").await.is_err());
    Ok(())
}
