//! A connection to a server.

use redis::{Connection, ConnectionLike, FromRedisValue, RedisError, Value};

use super::{eventually, PATIENCE};

/// A connection for commands as text.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Connects to the server on this port, if there is one.
    pub fn to(port: u16) -> Option<Self> {
        let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
        let connection = client.get_connection().ok()?;
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Some(Self { connection })
    }

    /// Sends a command whose words are separated by blanks.
    pub fn call(&mut self, command: &str) -> Result<Value, RedisError> {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.call_bytes(&words)
    }

    pub fn call_bytes(&mut self, words: &[&[u8]]) -> Result<Value, RedisError> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        self.connection.req_command(&command).and_then(Value::extract_error)
    }

    /// The reply of a command that must not fail.
    pub fn get<T: FromRedisValue>(&mut self, command: &str) -> T {
        let reply = self.call(command).unwrap_or_else(|error| panic!("{command}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// The replies to `count` packed commands.
    pub fn pipeline(&mut self, packed: &[u8], count: usize) -> Vec<Value> {
        self.connection.req_packed_commands(packed, 0, count).expect("replies")
    }

    /// The reply of a Lua script that must not fail.
    pub fn eval<T: FromRedisValue>(&mut self, script: &str, key: &str, args: &[&str]) -> T {
        let mut words = vec![b"EVAL".as_slice(), script.as_bytes(), b"1", key.as_bytes()];
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        let reply = self.call_bytes(&words).unwrap_or_else(|error| panic!("{script}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The integers that a request replies with.
    pub fn limit(&mut self, command: &str) -> Vec<i64> {
        self.get(command)
    }

    /// The error of a command that must fail: its code and its message.
    pub fn error(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.error_of(&words)
    }

    pub fn error_of(&mut self, words: &[&[u8]]) -> String {
        match self.call_bytes(words) {
            Ok(reply) => panic!("{words:?} replied {reply:?}"),
            Err(error) => format!("{} {}", error.code().unwrap_or(""), error.detail().unwrap_or("")),
        }
    }

    /// Fields of one `INFO`, empty if they are missing.
    pub fn infos<const N: usize>(&mut self, fields: [&str; N]) -> [String; N] {
        let info: String = self.get("INFO everything");
        let value = |field| info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        fields.map(|field| value(field).unwrap_or_default().to_owned())
    }

    /// A field of `INFO`.
    pub fn info(&mut self, field: &str) -> String {
        let [value] = self.infos([field]);
        value
    }

    /// Fields of `INFO` that are numbers.
    pub fn numbers<const N: usize>(&mut self, fields: [&str; N]) -> [i64; N] {
        self.infos(fields).map(|value| value.parse().unwrap_or_else(|_| panic!("{value} in {fields:?}")))
    }

    /// A field of `INFO` that is a number.
    pub fn number(&mut self, field: &str) -> i64 {
        let [value] = self.numbers([field]);
        value
    }

    /// Waits until no save or rewrite is running or scheduled.
    pub fn wait_for_files(&mut self) {
        let under_way = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        eventually("the files are written", || self.numbers(under_way) == [0; 3]);
    }

    /// The major and minor version of a Valkey server; `None` for Redis.
    pub fn valkey_version(&mut self) -> Option<(u32, u32)> {
        let version = self.info("valkey_version");
        let mut parts = version.split('.').map_while(|part| part.parse().ok());
        Some((parts.next()?, parts.next()?))
    }

    /// A digest of the value, and the expiry: equal for equal keys on any server.
    pub fn digest(&mut self, key: &str) -> (Vec<String>, i64) {
        (self.get(&format!("DEBUG DIGEST-VALUE {key}")), self.get(&format!("PEXPIRETIME {key}")))
    }
}
