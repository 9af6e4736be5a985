//! An HTTP server in the test program, to which the workers of the examples send requests. It records them.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::http::Connection;

/// The status and the JSON of a reply; `None` to close the connection instead.
pub type Answer = Option<(u16, String)>;

#[derive(Debug, Clone)]
pub struct Arrival {
    pub at: Instant,
    pub body: String,
    /// The status of the reply.
    pub status: Option<u16>,
}

/// A server that runs until the test program ends.
pub struct Upstream {
    pub url: String,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Upstream {
    /// Starts a server that replies to each body with the result of `answer`, concurrently.
    pub fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (answer, recorded) = (Arc::new(answer), arrivals.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = Connection::over(stream.expect("a connection")).expect("a connection");
                let (answer, recorded) = (answer.clone(), recorded.clone());
                thread::spawn(move || serve(connection, &*answer, &recorded));
            }
        });
        Self { url, arrivals }
    }

    /// The requests that were served, in the order of their arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = self.arrivals.lock().expect("arrivals").clone();
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }
}

/// Serves requests until the connection is closed or broken.
fn serve(mut connection: Connection, answer: &dyn Fn(&str) -> Answer, recorded: &Mutex<Vec<Arrival>>) {
    while let Ok(Some(request)) = connection.receive() {
        let at = Instant::now();
        let body = String::from_utf8(request.body).expect("text");
        let answer = answer(&body);
        let status = answer.as_ref().map(|answer| answer.0);
        recorded.lock().expect("arrivals").push(Arrival { at, body, status });
        let Some((status, text)) = answer else { return };
        let head = format!("HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {}", text.len());
        if connection.send(&format!("{head}\r\n\r\n{text}")).is_err() {
            return;
        }
    }
}
