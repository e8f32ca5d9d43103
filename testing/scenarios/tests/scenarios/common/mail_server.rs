//! A real mail server that sometimes fails and stalls.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailin_embedded::response::OK;
use mailin_embedded::{Handler, Response, Server, SslConfig};
use shedlock_rig::wait::{PATIENCE, pause};

use super::{History, say};

/// More than one chunk of mails, plus those whose senders are dead.
const SESSIONS: u32 = 24;

/// Longer than the senders wait for a reply.
const STALL: Duration = Duration::from_secs(6);

/// An SMTP server on loopback, based on the crate `mailin-embedded`. It logs each mail that it
/// accepts, and runs as long as the test program.
#[derive(Debug)]
pub(crate) struct MailServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    history: Arc<History>,
    /// About how long it takes for each mail.
    takes: Duration,
    is_reliable: bool,
    mails: AtomicU32,
    trap: Mutex<Option<Trap>>,
}

/// Holds an accepted mail before its sender gets the reply.
#[derive(Debug)]
struct Trap {
    /// How many mails pass first.
    let_by: usize,
    caught: Sender<String>,
    let_go: Receiver<()>,
}

/// A mail that was accepted and whose sender has no reply yet. Dropping this sends the reply.
#[derive(Debug)]
pub(crate) struct Caught {
    /// The sender.
    pub(crate) sender: String,
    _let_go: Sender<()>,
}

impl MailServer {
    /// Starts a server that takes this long for each mail. Unless it is reliable, it temporarily
    /// refuses one in thirteen mails, and stalls on one in forty until the sender gives up.
    pub(crate) fn start(history: &Arc<History>, takes: Duration, is_reliable: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            history: history.clone(),
            takes,
            is_reliable,
            mails: AtomicU32::new(0),
            trap: Mutex::default(),
        });
        let mut server = Server::new(Session::new(shared.clone()));
        server
            .with_name("mail.example")
            .with_num_threads(SESSIONS)
            .with_tcp_listener(listener);
        server.with_ssl(SslConfig::None).unwrap();
        std::thread::spawn(move || {
            if let Err(error) = server.serve() {
                say(&format!("the mail server ended: {error}"));
            }
        });
        Self { address, shared }
    }

    /// Returns the server's address.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Catches a mail after it was accepted and before its sender gets the reply, once `let_by`
    /// others have passed.
    pub(crate) fn catch(&self, let_by: usize) -> Caught {
        let (caught, next) = channel();
        let (go, let_go) = channel();
        *self.shared.trap.lock().unwrap() = Some(Trap {
            let_by,
            caught,
            let_go,
        });
        let sender = next
            .recv_timeout(PATIENCE)
            .expect("a mail is sent in the time that any machine needs");
        Caught {
            sender,
            _let_go: go,
        }
    }
}

/// One connection of a client.
#[derive(Clone, Debug)]
struct Session {
    shared: Arc<Shared>,
    sender: String,
    to: String,
    text: Vec<u8>,
}

impl Session {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            sender: String::new(),
            to: String::new(),
            text: Vec::new(),
        }
    }

    /// The number of the user who receives the mail.
    fn id(&self) -> &str {
        let to = self.to.strip_prefix("user").unwrap_or_default();
        to.split('@').next().unwrap_or_default()
    }

    fn message_id(&self) -> String {
        let text = String::from_utf8_lossy(&self.text);
        let found = text.lines().find_map(|it| it.strip_prefix("Message-ID: "));
        found.unwrap_or("none").to_owned()
    }
}

impl Handler for Session {
    fn helo(&mut self, _ip: IpAddr, domain: &str) -> Response {
        domain.clone_into(&mut self.sender);
        OK
    }

    fn rcpt(&mut self, to: &str) -> Response {
        to.clone_into(&mut self.to);
        self.text.clear();
        OK
    }

    fn data(&mut self, buffer: &[u8]) -> std::io::Result<()> {
        self.text.extend_from_slice(buffer);
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        let shared = &self.shared;
        let (id, sender) = (self.id(), &self.sender);
        let number = shared.mails.fetch_add(1, Ordering::Relaxed);
        let note = |what: &str| {
            let line = format!("{what} id={id} from={sender}");
            shared.history.note("post", &line);
        };
        // Between 0.5 and 1.5 times as long, so that mails do not end together.
        pause(shared.takes * (50 + number * 37 % 100) / 100);
        if !shared.is_reliable && number % 40 == 25 {
            note("stalls over");
            pause(STALL);
            return refused();
        }
        if !shared.is_reliable && number % 13 == 7 {
            note("refuses");
            return refused();
        }
        note(&format!("took message_id={}", self.message_id()));
        if let Some(trap) = shared.next_trap() {
            let _ = trap.caught.send(sender.clone());
            // Returns when the other side is dropped.
            let _ = trap.let_go.recv();
        }
        OK
    }
}

impl Shared {
    /// Returns the trap if it has to catch this mail.
    fn next_trap(&self) -> Option<Trap> {
        let mut trap = self.trap.lock().unwrap();
        match &mut *trap {
            Some(Trap { let_by, .. }) if *let_by > 0 => {
                *let_by -= 1;
                None
            }
            _ => trap.take(),
        }
    }
}

/// "Try again later"; the connection is closed.
fn refused() -> Response {
    Response::custom(421, "not now, please try again".to_owned())
}
