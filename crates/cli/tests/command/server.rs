//! `shedlock ui` as a process, and requests to it.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its part of it"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStderr, Command};

use rustix::process::Signal;

use super::common::{Done, Sandbox, connect_from, end, signal};

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// What it printed until it served: its last line has the address.
    pub(crate) said: String,
    stderr: BufReader<ChildStderr>,
}

impl Server {
    pub(crate) fn start(sandbox: &Sandbox, options: &[&str]) -> Self {
        let arguments = [&["ui", "--listen", "127.0.0.1:0"][..], options].concat();
        Self::of(&mut sandbox.shedlock(&arguments))
    }

    /// The same with the store that the options name.
    pub(crate) fn without_store(sandbox: &Sandbox, options: &[&str]) -> Self {
        let arguments = [&["ui", "--listen", "127.0.0.1:0"][..], options].concat();
        Self::of(&mut sandbox.bare(&arguments))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("the dashboard is at ") {
            let read = stderr.read_line(&mut said).unwrap();
            assert!(read > 0, "not started: {said}");
        }
        let port = port_of(said.lines().last().unwrap());
        Self {
            child,
            port,
            said,
            stderr,
        }
    }

    /// The page of its metrics, without headers.
    pub(crate) fn metrics(&self) -> String {
        let line = self.said.lines().find(|it| it.contains("metrics are at"));
        let port = port_of(line.unwrap());
        send_to(port, "GET /metrics HTTP/1.0\r\n\r\n")
    }

    /// A connection from this address of this host.
    pub(crate) fn connect_from(&self, from: Ipv4Addr) -> TcpStream {
        connect_from(from, self.port)
    }

    pub(crate) fn send(&self, request: &str) -> String {
        send_to(self.port, request)
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> String {
        let port = self.port;
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    pub(crate) fn post(&self, form: &str, headers: &str) -> String {
        let (port, length) = (self.port, form.len());
        self.send(&format!(
            "POST /act HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\
             Connection: close\r\n{headers}\r\n{form}"
        ))
    }

    /// Its end, with what it printed since its start.
    pub(crate) fn stop(mut self) -> Done {
        signal(self.child.id(), Signal::TERM);
        let mut ended = end(self.child);
        self.stderr.read_to_string(&mut ended.stderr).unwrap();
        ended
    }
}

/// The port of the URL at the end of this line.
fn port_of(line: &str) -> u16 {
    let port = line.rsplit(':').next().unwrap();
    let port = port.split('/').next().unwrap().parse();
    port.unwrap_or_else(|_| panic!("no port: {line}"))
}

fn send_to(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

pub(crate) fn status(reply: &str) -> &str {
    reply.split(' ').nth(1).unwrap_or_default()
}
