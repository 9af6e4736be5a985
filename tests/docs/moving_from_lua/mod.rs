//! The usual Lua scripts, and the commands that replace them, asked at the same moment.

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
use crate::models::Told;
use script::{Limit, Script};

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Script,
    Command,
}

/// A script and its command on a server whose clock the test holds, each with keys of its own for the same user.
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

    /// As [`Self::of`], with settings of the server.
    pub fn with(script: &'static Script, settings: &[&str]) -> Self {
        let mut server = Server::with_clock(settings);
        let mut client = server.connect();
        let sha = script.load(&mut client);
        // From 7.4 on the server may remove a script's key at the start of the millisecond in which it expires, or may not.
        client.get::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
        // A moment like any other: no boundary of anything.
        server.clock().set(START + 12_345_678_901);
        Self { server, client, script, sha, user: 0 }
    }

    pub fn now(&mut self) -> u64 {
        self.server.clock().now()
    }

    /// Goes on with a user that neither knows.
    pub fn start_afresh(&mut self) {
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

    /// Lets time pass, in milliseconds.
    pub fn wait_ms(&mut self, millis: u64) {
        self.server.clock().advance_ms(millis);
    }
}

/// What is told to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub allowed: bool,
    /// What remains, the wait, the time until it is as good as new, and the delay, 0 where there is none.
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

impl From<Told> for Reply {
    fn from(told: Told) -> Self {
        let remaining = i64::try_from(told.remaining).expect("few");
        Self { allowed: told.allowed, numbers: [remaining, told.retry_ms, told.reset_ms, told.delay_ms.unwrap_or(0)] }
    }
}
