//! A reverse proxy that removes a prefix from paths, as many installations have in front.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// The prefix that it removes.
pub(crate) const PREFIX: &str = "/tools/shedlock";

/// Starts a proxy in front of this port, which runs as long as this program. Returns its port.
pub(crate) fn start(upstream: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            // A browser closes connections whenever it likes.
            thread::spawn(move || client.and_then(|client| forward(&client, upstream)));
        }
    });
    port
}

/// Forwards one request, and closes the connection after the response.
fn forward(client: &TcpStream, upstream: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            head += &line;
        }
    }
    let (method, rest) = head.split_once(' ').unwrap_or_default();
    let Some(rest) = rest.strip_prefix(PREFIX) else {
        return write!(
            &*client,
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"
        );
    };
    let (first, rest) = rest.split_once("\r\n").unwrap_or_default();
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream))?;
    write!(&server, "{method} {first}\r\nConnection: close\r\n{rest}")?;
    let mut to_server = server.try_clone()?;
    let body = thread::spawn(move || copy(&mut reader, &mut to_server));
    copy(&mut &server, &mut &*client)?;
    client.shutdown(Shutdown::Both)?;
    drop(body.join());
    Ok(())
}
