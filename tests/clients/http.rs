//! The part of HTTP/1.1 that the tests need: messages with a length or in chunks, over TCP or a unix socket.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use httparse::{Header, Status, EMPTY_HEADER};

use crate::common::PATIENCE;

/// The address on which a program listens.
#[derive(Clone)]
pub enum Address {
    Port(u16),
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Port(port) => write!(formatter, "{port}"),
            Self::Socket(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// The first line of a message, without the version: a method and a path, or a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Request(String, String),
    Response(u16),
}

#[derive(Debug, Clone)]
pub struct Message {
    pub start: Start,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn status(&self) -> u16 {
        let Start::Response(status) = self.start else { panic!("no response: {self:?}") };
        status
    }

    /// The value of a header, which may occur only once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|header| header.0.eq_ignore_ascii_case(name));
        let value = values.next().map(|header| header.1.as_str());
        assert!(values.next().is_none(), "{name} occurs twice: {self:?}");
        value
    }

    pub fn json(&self) -> serde_json::Value {
        let is_json = self.header("content-type").is_some_and(|it| it.split(';').next() == Some("application/json"));
        assert!(is_json, "no JSON: {self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One end of a connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// Bytes that have arrived and are not parsed yet.
    arrived: Vec<u8>,
}

impl Connection {
    pub fn to(address: &Address) -> io::Result<Self> {
        match address {
            Address::Port(port) => Self::over(TcpStream::connect(("127.0.0.1", *port))?),
            Address::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Self { stream: Box::new(stream), arrived: Vec::new() })
            }
        }
    }

    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Box::new(stream), arrived: Vec::new() })
    }

    /// Sends a request for `/`, and waits for the response.
    pub fn get(&mut self, headers: &[(&str, &str)]) -> io::Result<Message> {
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
        self.send(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"))?;
        self.receive()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub fn send(&mut self, message: &str) -> io::Result<()> {
        self.stream.write_all(message.as_bytes())
    }

    /// The next message; `None` if the peer has closed the connection.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        let (length, start, headers) = loop {
            if let Some(head) = parse_head(&self.arrived)? {
                break head;
            }
            if !self.read_more()? {
                return if self.arrived.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        self.take(length)?;
        let mut message = Message { start, headers, body: Vec::new() };
        if message.header("transfer-encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("chunked")) {
            message.body = self.chunks()?;
        } else {
            let length = message.header("content-length").unwrap_or("0").parse();
            message.body = self.take(length.map_err(io::Error::other)?)?;
        }
        Ok(Some(message))
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            match httparse::parse_chunk_size(&self.arrived) {
                Ok(Status::Complete((line, size))) => {
                    self.take(line)?;
                    let chunk = self.take(usize::try_from(size).map_err(io::Error::other)?)?;
                    self.take("\r\n".len())?;
                    if chunk.is_empty() {
                        return Ok(body);
                    }
                    body.extend(chunk);
                }
                Ok(Status::Partial) if self.read_more()? => {}
                bad => return Err(io::Error::other(format!("a chunk: {bad:?}"))),
            }
        }
    }

    /// The next `count` bytes.
    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.arrived.len() < count {
            if !self.read_more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.arrived.split_off(count);
        Ok(std::mem::replace(&mut self.arrived, rest))
    }

    /// Waits for more bytes; `false` at the end of the stream.
    fn read_more(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes)?;
        self.arrived.extend(&bytes[..count]);
        Ok(count > 0)
    }
}

/// A single request on a new connection.
pub fn get(address: &Address, headers: &[(&str, &str)]) -> io::Result<Message> {
    Connection::to(address)?.get(&[headers, &[("Connection", "close")]].concat())
}

type Head = (usize, Start, Vec<(String, String)>);

/// The length and the content of a message's head, if it is complete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [EMPTY_HEADER; 64];
    let (status, start, headers) = if bytes.starts_with(b"HTTP/") {
        let mut response = httparse::Response::new(&mut headers);
        let status = response.parse(bytes).map_err(io::Error::other)?;
        (status, Start::Response(response.code.unwrap_or_default()), response.headers)
    } else {
        let mut request = httparse::Request::new(&mut headers);
        let status = request.parse(bytes).map_err(io::Error::other)?;
        let [method, path] = [request.method, request.path].map(|word| word.unwrap_or_default().to_owned());
        (status, Start::Request(method, path), request.headers)
    };
    let owned = |header: &Header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned());
    Ok(match status {
        Status::Complete(length) => Some((length, start, headers.iter().map(owned).collect())),
        Status::Partial => None,
    })
}
