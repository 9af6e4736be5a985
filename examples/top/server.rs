//! The connection to the server.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue, RedisError, Value};

use super::sample::{used_memory, Ranking, Sample, Stats};

/// The timeout of a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval of samples.
const PERIOD: Duration = Duration::from_secs(1);
/// The number of keys to request: as many as any screen shows.
const KEYS: u32 = 100;

pub struct Server {
    client: Client,
    connection: Option<Connection>,
}

impl Server {
    /// Parses an address or a URL.
    pub fn at(address: &str) -> Result<Self, String> {
        let url = if address.contains("://") { address.to_owned() } else { format!("redis://{address}") };
        let client = Client::open(url).map_err(|error| {
            let why = error.detail().map_or_else(|| error.category().to_owned(), str::to_owned);
            format!("this is no address of a server ({why}); expected host:port, or a URL such as redis://host:port")
        })?;
        Ok(Self { client, connection: None })
    }

    /// The address without the password.
    pub fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Takes a sample every second, in a separate thread, so that the keyboard works while the server does not reply.
    /// Reconnects after errors.
    pub fn watch(mut self) -> Receiver<Result<Sample, String>> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || loop {
            thread::sleep(PERIOD);
            if sender.send(self.ask()).is_err() {
                return;
            }
        });
        receiver
    }

    /// Takes a sample.
    pub fn ask(&mut self) -> Result<Sample, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(|error| reason(&error))?,
        };
        let sample = sample(&mut connection)?;
        // After an error a late reply may still arrive on this connection.
        self.connection = Some(connection);
        Ok(sample)
    }

    fn connect(&self) -> Result<Connection, RedisError> {
        let connection = self.client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }
}

fn sample(connection: &mut Connection) -> Result<Sample, String> {
    let reply = redis::cmd("RL.STATS").query::<Value>(connection).map_err(|error| match reason(&error) {
        reason if reason.starts_with("ERR unknown command") => {
            "the server does not know RL.STATS: it has no redis-ratelimit, or an older one".to_owned()
        }
        reason => reason,
    })?;
    let (taken, stats) = (Instant::now(), Stats::read(reply)?);
    let denied = unless_refused(redis::cmd("RL.TOP").arg(KEYS).query(connection))?.and_then(Ranking::read);
    let info = unless_refused::<String>(redis::cmd("INFO").arg("memory").query(connection))?;
    Ok(Sample { taken, stats, denied, memory: info.and_then(|info| used_memory(&info)) })
}

/// The inner error is a reply of the server, after which the connection is still usable.
fn unless_refused<T: FromRedisValue>(reply: Result<T, RedisError>) -> Result<Result<T, String>, String> {
    match reply {
        Err(error) if error.code().is_none() => Err(reason(&error)),
        reply => Ok(reply.map_err(|error| reason(&error))),
    }
}

fn reason(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), detail) => format!("{code} {}", detail.unwrap_or_default()),
        _ if error.is_timeout() => "it does not answer".to_owned(),
        _ => error.to_string(),
    }
}
