//! The commands. Each file shows the whole life of a request: parse, decide, store, replicate, reply.

mod all;
mod apply;
mod check;
mod counting;
mod info;
mod limit;
mod options;
mod peek;
mod policy;
mod refund;
mod reply;
mod stats;
pub mod throttle;
mod top;
mod wrong_type;

use std::ffi::CStr;

use redis_module::raw;

use crate::limiter::Algorithm;
use crate::server::{log, ArgumentSpec, CommandSpec, Keys, CONTAINER};
use all::All;
use apply::Apply;
use check::Check;
use info::Info;
use limit::Limit;
use peek::Peek;
use refund::Refund;
use stats::Stats;
use throttle::Throttle;
use top::Top;

pub use options::Options;

/// Makes the commands known to the server: all, or none with an error; except that another module may have `CL.THROTTLE`.
///
/// # Errors
/// When the server refuses one.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that, after the settings are known.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the caller vouches for the context.
    unsafe {
        let category = CommandSpec::add_category(ctx, CATEGORY);
        ALL.iter().try_for_each(|command| command.register(ctx, category))?;
        let wanted = throttle::is_on();
        let ours = wanted && THROTTLE.register_if_free(ctx, category)?;
        if wanted && !ours {
            log::notice("redis-ratelimit: another module has CL.THROTTLE, so it is not offered here");
        }
        throttle::loaded(ours);
    }
    Ok(())
}

/// The category of what applications use, on servers that let modules have one.
const CATEGORY: &CStr = c"ratelimit";

/// redis-cell's command.
const THROTTLE: CommandSpec = CommandSpec {
    name: c"CL.THROTTLE",
    entry: Some(CommandSpec::entry::<Throttle>),
    summary: c"Takes tokens from a bucket, with the arguments and the reply of redis-cell.",
    arity: -5,
    arguments: &[
        ArgumentSpec::Key,
        ArgumentSpec::Integer(c"max_burst"),
        ArgumentSpec::Integer(c"count"),
        ArgumentSpec::Integer(c"period"),
        ArgumentSpec::LastInteger(c"quantity"),
    ],
    ..LIMIT
};

/// Every other command of the module.
const ALL: [CommandSpec; 14] = [
    CommandSpec {
        name: c"RL.TOKENBUCKET",
        entry: Some(CommandSpec::entry::<Limit<{ Algorithm::TokenBucket as usize }>>),
        summary: c"Takes tokens from a bucket that refills at a steady rate.",
        arguments: BUCKET,
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.LEAKYBUCKET",
        entry: Some(CommandSpec::entry::<Limit<{ Algorithm::LeakyBucket as usize }>>),
        summary: c"Takes places in a queue that drains at a steady rate, and tells how long to hold the request.",
        arguments: BUCKET,
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.FIXEDWINDOW",
        entry: Some(CommandSpec::entry::<Limit<{ Algorithm::FixedWindow as usize }>>),
        summary: c"Counts against a limit that starts afresh with every window.",
        arguments: WINDOW,
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.SLIDINGLOG",
        entry: Some(CommandSpec::entry::<Limit<{ Algorithm::SlidingLog as usize }>>),
        summary: c"Counts exactly what was taken in the last window.",
        complexity: c"O(1) amortized",
        arguments: WINDOW,
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.SLIDINGCOUNTER",
        entry: Some(CommandSpec::entry::<Limit<{ Algorithm::SlidingCounter as usize }>>),
        summary: c"Counts what was taken in the last window, closely and in constant memory.",
        arguments: WINDOW,
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.ALL",
        entry: Some(CommandSpec::entry::<All>),
        summary: c"Takes from several limits on several keys, if all of them allow it.",
        complexity: c"O(N) for N limits, amortized",
        arity: -6,
        keys: Keys::Fours,
        arguments: &[
            ArgumentSpec::Integer(c"numlimits"),
            ArgumentSpec::Several(c"limit", &[ALGORITHM, ArgumentSpec::Key, A, B]),
            COST,
        ],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.CHECK",
        entry: Some(CommandSpec::entry::<Check>),
        summary: c"Takes from all limits of a policy, which one key holds, if all of them allow it.",
        complexity: c"O(N) for N limits, amortized",
        arity: -3,
        keys: Keys::Changed(2),
        arguments: &[ArgumentSpec::String(c"policy"), ArgumentSpec::Key, COST, FORCE],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.PEEK",
        entry: Some(CommandSpec::entry::<Peek>),
        flags: c"readonly fast",
        categories: c"read fast",
        summary: c"Tells what a request to the key would be told, and takes nothing.",
        arity: -2,
        keys: Keys::Read(1),
        arguments: &[ArgumentSpec::Key, COST],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.REFUND",
        entry: Some(CommandSpec::entry::<Refund>),
        // Not deny-oom: it takes no memory.
        flags: c"write fast",
        summary: c"Gives back what was taken from the key and not used.",
        arity: 3,
        arguments: &[ArgumentSpec::Key, ArgumentSpec::Integer(c"n")],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.INFO",
        entry: Some(CommandSpec::entry::<Info>),
        flags: c"readonly fast",
        categories: c"read fast",
        summary: c"Returns what the key holds.",
        arity: 2,
        keys: Keys::Read(1),
        arguments: &[ArgumentSpec::Key],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.STATS",
        entry: Some(CommandSpec::entry::<Stats>),
        flags: c"allow-loading allow-stale",
        categories: c"slow",
        summary: c"Returns what was allowed and denied, and how many keys there are; or counts from zero.",
        complexity: c"O(N) for N policies",
        arity: -1,
        keys: Keys::None,
        arguments: &[ArgumentSpec::OptionalToken { name: c"reset", token: c"RESET" }],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.TOP",
        entry: Some(CommandSpec::entry::<Top>),
        // In a script nobody knows who asks, and so which keys they may see.
        flags: c"deny-script allow-loading allow-stale",
        categories: c"slow",
        summary: c"Returns the keys that were denied most often.",
        complexity: c"O(N) for N places of the table",
        arity: -1,
        keys: Keys::None,
        arguments: &[ArgumentSpec::LastInteger(c"count")],
        ..LIMIT
    },
    CommandSpec {
        name: c"RL.POLICY",
        entry: CONTAINER,
        summary: c"The named policies that RL.CHECK uses.",
        complexity: c"Depends on subcommand.",
        arity: -2,
        subcommands: &[
            CommandSpec {
                name: c"SET",
                entry: Some(CommandSpec::entry::<policy::Set>),
                flags: c"write deny-oom admin",
                categories: c"write admin dangerous",
                summary: c"Makes a policy, or replaces the one of this name.",
                complexity: c"O(N) for N limits",
                arity: -6,
                arguments: &[NAME, ArgumentSpec::Several(c"limit", &[ALGORITHM, A, B])],
                ..POLICY
            },
            CommandSpec {
                name: c"GET",
                entry: Some(CommandSpec::entry::<policy::Get>),
                summary: c"Returns the limits of a policy.",
                complexity: c"O(N) for N limits",
                arity: 3,
                arguments: &[NAME],
                ..POLICY
            },
            CommandSpec {
                name: c"DEL",
                entry: Some(CommandSpec::entry::<policy::Del>),
                flags: c"write admin",
                categories: c"write admin dangerous",
                summary: c"Removes a policy.",
                arity: 3,
                arguments: &[NAME],
                ..POLICY
            },
            CommandSpec {
                name: c"LIST",
                entry: Some(CommandSpec::entry::<policy::List>),
                summary: c"Returns the names of all policies.",
                complexity: c"O(N) for N policies",
                ..POLICY
            },
            CommandSpec {
                name: c"LOAD",
                entry: Some(CommandSpec::entry::<policy::Load>),
                summary: c"Reads the policy file again.",
                complexity: c"O(N) for N policies",
                ..POLICY
            },
            CommandSpec {
                name: c"SAVE",
                entry: Some(CommandSpec::entry::<policy::Save>),
                summary: c"Writes the policies in force to the policy file.",
                complexity: c"O(N) for N policies",
                ..POLICY
            },
            CommandSpec {
                name: c"HELP",
                entry: Some(CommandSpec::entry::<policy::Help>),
                flags: c"allow-loading allow-stale",
                categories: c"slow",
                summary: c"Returns what RL.POLICY can do.",
                ..POLICY
            },
        ],
        ..POLICY
    },
    CommandSpec {
        name: crate::replication::APPLY,
        entry: Some(CommandSpec::entry::<Apply>),
        // Not deny-oom: what has been decided must reach a replica even when it is full.
        flags: c"write admin",
        categories: c"write admin dangerous",
        summary: c"An internal command for replication: applies to keys what was decided elsewhere.",
        complexity: c"O(N) for N keys, amortized",
        arity: -3,
        keys: Keys::Pairs,
        arguments: &[ArgumentSpec::Several(c"data", &[ArgumentSpec::Key, ArgumentSpec::String(c"fact")])],
        subcommands: &[],
    },
];

/// What the limiting commands have in common.
const LIMIT: CommandSpec = CommandSpec {
    name: c"",
    entry: CONTAINER,
    flags: c"write deny-oom fast",
    categories: c"write fast",
    summary: c"",
    complexity: c"O(1)",
    arity: -4,
    keys: Keys::Changed(1),
    arguments: &[],
    subcommands: &[],
};

/// What the parts of `RL.POLICY` have in common.
const POLICY: CommandSpec =
    CommandSpec { flags: c"admin", categories: c"admin dangerous", arity: 2, keys: Keys::None, ..LIMIT };

const COST: ArgumentSpec = ArgumentSpec::OptionalInteger { name: c"cost", token: c"COST" };
const FORCE: ArgumentSpec = ArgumentSpec::OptionalToken { name: c"force", token: c"FORCE" };

const BUCKET: &[ArgumentSpec] =
    &[ArgumentSpec::Key, ArgumentSpec::Integer(c"capacity"), ArgumentSpec::String(c"rate"), COST, FORCE];
const WINDOW: &[ArgumentSpec] =
    &[ArgumentSpec::Key, ArgumentSpec::Integer(c"limit"), ArgumentSpec::String(c"window"), COST, FORCE];

const NAME: ArgumentSpec = ArgumentSpec::String(c"name");
const ALGORITHM: ArgumentSpec = ArgumentSpec::OneOf(
    c"algorithm",
    &[
        ArgumentSpec::Token(c"TOKENBUCKET"),
        ArgumentSpec::Token(c"LEAKYBUCKET"),
        ArgumentSpec::Token(c"FIXEDWINDOW"),
        ArgumentSpec::Token(c"SLIDINGLOG"),
        ArgumentSpec::Token(c"SLIDINGCOUNTER"),
    ],
);
const A: ArgumentSpec = ArgumentSpec::Integer(c"a");
const B: ArgumentSpec = ArgumentSpec::String(c"b");

const WRONG_ARITY: &str = "ERR wrong number of arguments";
