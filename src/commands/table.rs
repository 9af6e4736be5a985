//! The table of commands: names, flags, keys, arguments, ACL categories and documentation. The options of a command are
//! in its own file.

use limiter::Algorithm;

use super::all::All;
use super::apply::Apply;
use super::check::Check;
use super::info::Info;
use super::limit::Limit;
use super::options::{self, WithOptions};
use super::peek::Peek;
use super::policy;
use super::refund::Refund;
use super::stats::Stats;
use super::throttle::Throttle;
use super::top::Top;
use crate::server::ArgumentSpec::{Integer, Key, OneOf, OptionalInteger, Repeated, String};
use crate::server::{ArgumentSpec, Command, CommandSpec, Keys};

/// redis-cell's command.
pub const THROTTLE: CommandSpec = CommandSpec {
    summary: "Consumes tokens from a bucket. Compatible with redis-cell.",
    arity: -5,
    arguments: &[Key, Integer("max_burst"), Integer("count"), Integer("period"), OptionalInteger("quantity")],
    ..request::<Throttle>("CL.THROTTLE")
};

/// All other commands of the module.
pub const COMMANDS: [CommandSpec; 14] = [
    CommandSpec {
        summary: "Consumes tokens from a bucket that refills at a steady rate.",
        arguments: BUCKET,
        ..with_options::<Limit<{ Algorithm::TokenBucket as usize }>>(request::<
            Limit<{ Algorithm::TokenBucket as usize }>,
        >("RL.TOKENBUCKET"))
    },
    CommandSpec {
        summary: "Adds a request to a queue that drains at a steady rate. Returns how long to delay the request.",
        arguments: BUCKET,
        ..with_options::<Limit<{ Algorithm::LeakyBucket as usize }>>(request::<
            Limit<{ Algorithm::LeakyBucket as usize }>,
        >("RL.LEAKYBUCKET"))
    },
    CommandSpec {
        summary: "Counts a request in the current fixed window.",
        arguments: WINDOW,
        ..with_options::<Limit<{ Algorithm::FixedWindow as usize }>>(request::<
            Limit<{ Algorithm::FixedWindow as usize }>,
        >("RL.FIXEDWINDOW"))
    },
    CommandSpec {
        summary: "Counts a request in an exact sliding window.",
        complexity: "O(1) amortized",
        arguments: WINDOW,
        ..with_options::<Limit<{ Algorithm::SlidingLog as usize }>>(
            request::<Limit<{ Algorithm::SlidingLog as usize }>>("RL.SLIDINGLOG"),
        )
    },
    CommandSpec {
        summary: "Counts a request in an approximate sliding window that uses constant memory.",
        arguments: WINDOW,
        ..with_options::<Limit<{ Algorithm::SlidingCounter as usize }>>(request::<
            Limit<{ Algorithm::SlidingCounter as usize }>,
        >("RL.SLIDINGCOUNTER"))
    },
    CommandSpec {
        summary: "Checks a request against several limits on several keys. Consumes from all of them or from none.",
        complexity: "O(N) amortized, where N is the number of limits",
        arity: -6,
        keys: Keys::Fours,
        arguments: &[Integer("numlimits"), Repeated("limit", &[ALGORITHM, Key, A, B])],
        ..with_options::<All>(request::<All>("RL.ALL"))
    },
    CommandSpec {
        summary: "Checks a request against all limits of a policy. Consumes from all of them or from none.",
        complexity: "O(N) amortized, where N is the number of limits",
        arity: -3,
        keys: Keys::Write(2),
        arguments: &[String("policy"), Key],
        ..with_options::<Check>(request::<Check>("RL.CHECK"))
    },
    CommandSpec {
        summary: "Returns the decision for a request without consuming quota.",
        arity: -2,
        arguments: &[Key],
        ..with_options::<Peek>(read::<Peek>("RL.PEEK"))
    },
    CommandSpec {
        // Without deny-oom: it takes no memory.
        flags: "write fast",
        summary: "Gives back quota that was consumed.",
        arity: 3,
        arguments: &[Key, Integer("n")],
        ..request::<Refund>("RL.REFUND")
    },
    CommandSpec { summary: "Returns the value of a key.", arity: 2, arguments: &[Key], ..read::<Info>("RL.INFO") },
    CommandSpec {
        flags: "allow-loading allow-stale",
        categories: "slow",
        summary: "Returns or resets the statistics.",
        complexity: "O(N) where N is the number of policies",
        ..with_options::<Stats>(CommandSpec::new::<Stats>("RL.STATS"))
    },
    CommandSpec {
        // In a script the user is unknown, and so are the keys that the user may read.
        flags: "deny-script allow-loading allow-stale",
        categories: "slow",
        summary: "Returns the keys that are denied most often.",
        complexity: "O(N) where N is the size of the table",
        arguments: &[OptionalInteger("count")],
        ..CommandSpec::new::<Top>("RL.TOP")
    },
    CommandSpec {
        flags: "admin",
        categories: "admin dangerous",
        summary: "A container for policy commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &POLICY,
        ..CommandSpec::container("RL.POLICY")
    },
    CommandSpec {
        // Without deny-oom: what has been decided must reach a replica even if it is full.
        flags: "write admin",
        categories: "write admin dangerous",
        summary: "An internal command for replication. Applies effects to keys.",
        complexity: "O(N) amortized, where N is the number of keys",
        arity: -3,
        keys: Keys::Pairs,
        arguments: &[Repeated("data", &[Key, String("effect")])],
        ..CommandSpec::new::<Apply>("RL.APPLY")
    },
];

const POLICY: [CommandSpec; 7] = [
    CommandSpec {
        flags: "write deny-oom admin",
        categories: "write admin dangerous",
        summary: "Creates or replaces a policy.",
        complexity: "O(N) where N is the number of limits",
        arity: -6,
        arguments: &[NAME, Repeated("limit", &[ALGORITHM, A, B])],
        ..policy_subcommand::<policy::Set>("SET")
    },
    CommandSpec {
        summary: "Returns the limits of a policy.",
        complexity: "O(N) where N is the number of limits",
        arity: 3,
        arguments: &[NAME],
        ..policy_subcommand::<policy::Get>("GET")
    },
    CommandSpec {
        flags: "write admin",
        categories: "write admin dangerous",
        summary: "Deletes a policy.",
        complexity: "O(1)",
        arity: 3,
        arguments: &[NAME],
        ..policy_subcommand::<policy::Del>("DEL")
    },
    CommandSpec { summary: "Returns the names of all policies.", ..policy_subcommand::<policy::List>("LIST") },
    CommandSpec { summary: "Reloads the policies from the policy file.", ..policy_subcommand::<policy::Load>("LOAD") },
    CommandSpec { summary: "Saves the policies to the policy file.", ..policy_subcommand::<policy::Save>("SAVE") },
    CommandSpec {
        flags: "allow-loading allow-stale",
        categories: "slow",
        summary: "Returns helpful text about the subcommands.",
        complexity: "O(1)",
        ..policy_subcommand::<policy::Help>("HELP")
    },
];

/// What the commands that decide on requests have in common.
const fn request<C: Command>(name: &'static str) -> CommandSpec {
    CommandSpec {
        flags: "write deny-oom fast",
        categories: "write fast",
        arity: -4,
        keys: Keys::Write(1),
        ..CommandSpec::new::<C>(name)
    }
}

/// What the commands that read a key have in common.
const fn read<C: Command>(name: &'static str) -> CommandSpec {
    CommandSpec { flags: "readonly fast", categories: "read fast", keys: Keys::Read(1), ..CommandSpec::new::<C>(name) }
}

/// Adds the options of a command.
#[allow(clippy::needless_pass_by_value)] // it becomes a part of the result
const fn with_options<C: WithOptions>(command: CommandSpec) -> CommandSpec {
    CommandSpec { options: options::docs::<C>, ..command }
}

/// What the subcommands of `RL.POLICY` have in common.
const fn policy_subcommand<C: Command>(name: &'static str) -> CommandSpec {
    CommandSpec {
        flags: "admin",
        categories: "admin dangerous",
        complexity: "O(N) where N is the number of policies",
        arity: 2,
        ..CommandSpec::new::<C>(name)
    }
}

const BUCKET: &[ArgumentSpec] = &[Key, Integer("capacity"), String("rate")];
const WINDOW: &[ArgumentSpec] = &[Key, Integer("limit"), String("window")];

const NAME: ArgumentSpec = String("name");
const ALGORITHM: ArgumentSpec = OneOf("algorithm", &NAMES);
const A: ArgumentSpec = Integer("a");
const B: ArgumentSpec = String("b");

/// The names of all algorithms.
const NAMES: [&str; Algorithm::ALL.len()] = {
    let mut names = [""; Algorithm::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Algorithm::ALL[index].name();
        index += 1;
    }
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_command() {
        for algorithm in Algorithm::ALL {
            let name = format!("RL.{}", algorithm.name());
            assert!(COMMANDS.iter().any(|command| command.name == name), "there is no {name}");
        }
    }
}
