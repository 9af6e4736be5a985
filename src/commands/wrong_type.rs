//! What is said of a key that holds something else than was asked for.

use crate::datatype::CannotOpen;
use crate::limiter::{Algorithm, Held, Limiter, OtherAlgorithm, Quoted};
use crate::server::Arg;

/// The server's own words for a key of another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Keys cannot be opened together.
#[cold]
pub fn cannot_open(cannot: CannotOpen<'_>) -> String {
    match cannot {
        CannotOpen::Foreign(key) => format!("{WRONG_TYPE}: {}", Quoted(key.bytes())),
        CannotOpen::Twice(key) => format!("ERR the key {} is given twice", Quoted(key.bytes())),
    }
}

/// The key holds a limiter of another algorithm. Of several keys it is said which one.
#[cold]
pub fn other_algorithm(key: Option<Arg<'_>>, OtherAlgorithm { held, asked }: OtherAlgorithm) -> String {
    holds_other(key, &format!("a {} limiter, not a {} one", held.name(), asked.name()))
}

/// The key holds the limits of a policy. Of several keys it is said which one.
#[cold]
pub fn holds_policy(key: Option<Arg<'_>>, held: &Held, asked: Algorithm) -> String {
    let held = held.algorithms().join(", ");
    holds_other(key, &format!("the limits of a policy ({held}), not a {} limiter", asked.name()))
}

/// The key holds a limiter, not the limits of a policy.
#[cold]
pub fn holds_no_policy(held: &Limiter) -> String {
    holds_other(None, &format!("a {} limiter, not the limits of a policy", held.algorithm().name()))
}

fn holds_other(key: Option<Arg<'_>>, held_and_asked: &str) -> String {
    let name = key.map_or(String::new(), |key| format!(" {}", Quoted(key.bytes())));
    format!("WRONGTYPE the key{name} holds {held_and_asked}; DEL it to start afresh")
}
