//! The usual Lua scripts and the commands that replace them, with the same requests at the same times.

mod account;
mod bucket;
mod decisions;
mod faults;
mod footprint;
mod gaps;
mod obedient;
mod page;
mod script;
mod tally;

use crate::common::{Client, Server, START};
use crate::models;
use script::{Limit, Script};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Script,
    Command,
}

/// A script and its command on a server with a test clock. For each user they have separate keys.
pub struct Both {
    pub server: Server,
    pub client: Client,
    script: &'static Script,
    sha: String,
    user: u32,
}

impl Both {
    pub fn of(script: &'static Script) -> Self {
        Self::with(script, &[])
    }

    /// As [`Self::of`], with arguments for the server.
    pub fn with(script: &'static Script, settings: &[&str]) -> Self {
        let mut server = Server::with_clock(settings);
        let mut client = server.connect();
        let sha = script.load(&mut client);
        // Redis 7.4 and later may remove a script's key at the start of its last millisecond, or later.
        client.get::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
        // Not at the boundary of any window.
        server.clock().set(START + 12_345_678_901);
        Self { server, client, script, sha, user: 0 }
    }

    pub fn now(&mut self) -> u64 {
        self.server.clock().now()
    }

    /// Continues with a new user.
    pub fn next_user(&mut self) {
        self.user += 1;
    }

    pub fn script(&mut self, limit: &Limit) -> Reply {
        self.ask(Side::Script, limit)
    }

    pub fn command(&mut self, limit: &Limit) -> Reply {
        self.ask(Side::Command, limit)
    }

    pub fn ask(&mut self, side: Side, limit: &Limit) -> Reply {
        let call = match side {
            Side::Script => self.script.call(&self.sha, &format!("script:{}", self.user), limit),
            Side::Command => self.script.command(&format!("command:{}", self.user), limit),
        };
        Reply::of(limit, &self.client.limit(&call))
    }

    /// Advances the clock.
    pub fn wait_ms(&mut self, millis: u64) {
        self.server.clock().advance_ms(millis);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub allowed: bool,
    /// The remaining quota, the wait, the time until the limit fully resets, and the delay or 0.
    pub numbers: [i64; 4],
}

impl Reply {
    fn of(limit: &Limit, reply: &[i64]) -> Self {
        assert_eq!(u64::try_from(reply[1]), Ok(limit.most));
        let delay = reply.get(5).copied().unwrap_or(0);
        Self { allowed: reply[0] == 1, numbers: [reply[2], reply[3], reply[4], delay] }
    }

    pub fn wait_ms(&self) -> u64 {
        u64::try_from(self.numbers[1]).expect("a wait")
    }
}

impl From<models::Reply> for Reply {
    fn from(reply: models::Reply) -> Self {
        let remaining = i64::try_from(reply.remaining).expect("few");
        Self {
            allowed: reply.allowed,
            numbers: [remaining, reply.retry_ms, reply.reset_ms, reply.delay_ms.unwrap_or(0)],
        }
    }
}
