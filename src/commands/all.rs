//! `RL.ALL numlimits ALGORITHM key a b [ALGORITHM key a b …] [COST n]`: one request to several limits on several keys.

use super::wrong_type::{cannot_open, holds_policy, other_algorithm};
use super::{counting, reply, Options};
use crate::datatype::Key;
use crate::limiter::{
    request_all, Decision, Held, Limiter, Limits, Micros, Mismatch, PerLimit, Quota, Quoted, Verdict, MAX_LIMITS,
};
use crate::policies::parse_limit;
use crate::replication::FactBytes;
use crate::server::{clock, Arg, Args, Command, Context};
use crate::stats;

/// Where the limits start, and how many arguments each has. The server finds the keys by these numbers
/// ([`crate::server::Keys::Fours`]), which are right as long as at most three arguments follow the limits.
const FIRST: usize = 2;
const STEP: usize = 4;

/// The command.
pub struct All;

impl Command for All {
    const NAME: &'static str = "ALL";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let count = parse_count(args)?;
        let cost = Options::parse_cost(args.bytes_from(FIRST + STEP * count))?;
        let mut asked = PerLimit::with_capacity(count);
        for place in key_places(count) {
            // The count was checked against the number of arguments.
            let limit = (args.get(place - 1), args.get(place), args.get(place + 1), args.get(place + 2));
            let (Some(algorithm), Some(key), Some(a), Some(b)) = limit else { break };
            match parse_limit(algorithm.bytes(), a.bytes(), b.bytes()) {
                Ok(quota) => asked.push((key, quota)),
                Err(bad) => return Err(format!("ERR limit {}: {bad}", asked.len() + 1)),
            }
        }
        let (mut decisions, now) = (PerLimit::new(), clock::now());
        let verdict = decide(ctx, &asked, cost, now, &mut decisions)?;
        for ((key, quota), decision) in asked.iter().zip(&decisions) {
            // A limit that would have let a request through which others denied has nothing to count.
            if decision.allowed == verdict.allowed {
                counting::count(ctx, stats::of(quota.algorithm()), *key, (*decision).into(), now);
            }
        }
        reply::verdict(ctx, verdict, &decisions);
        Ok(())
    }
}

/// Where the keys of so many limits stand.
fn key_places(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(|limit| FIRST + STEP * limit + 1)
}

fn count(args: Args<'_>) -> Option<usize> {
    let text = std::str::from_utf8(args.get(1)?.bytes()).ok()?;
    // As clients read it that look for the keys: no sign, and no zero before other digits.
    let plain = text.starts_with(|first: char| ('1'..='9').contains(&first));
    text.parse().ok().filter(|count| plain && (1..=MAX_LIMITS).contains(count))
}

fn parse_count(args: Args<'_>) -> Result<usize, String> {
    let count = count(args).ok_or_else(|| {
        let given = args.get(1).map_or(&b""[..], |arg| arg.bytes());
        format!("ERR invalid numlimits {}: expected an integer from 1 to {MAX_LIMITS}", Quoted(given))
    })?;
    let there = args.len().saturating_sub(FIRST) / STEP;
    if there < count {
        return Err(format!("ERR numlimits is {count}, limits found: {there}; each is ALGORITHM key a b"));
    }
    Ok(count)
}

/// The limits that are asked for, with the keys that keep them.
struct KeptLimits<'a> {
    asked: &'a [(Arg<'a>, Quota)],
    keys: PerLimit<Key<'a>>,
    /// What keys that hold nothing yet are to hold if something is taken.
    new: PerLimit<Option<Limiter>>,
}

impl Limits for KeptLimits<'_> {
    fn count(&self) -> usize {
        self.asked.len()
    }

    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota) {
        let quota = &self.asked[index].1;
        let limiter = match self.keys[index].held() {
            Some(Held::Limiter(limiter)) => limiter,
            _ => self.new[index].get_or_insert_with(|| Limiter::new(quota)),
        };
        (limiter, quota)
    }
}

/// Decides, and stores and replicates what was taken.
fn decide(
    ctx: &mut Context,
    asked: &[(Arg<'_>, Quota)],
    cost: u64,
    now: Micros,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, String> {
    let keys = Key::open_all(ctx, asked.iter().map(|(name, _)| *name), |_| false).map_err(cannot_open)?;
    let mut limits = KeptLimits { asked, keys, new: asked.iter().map(|_| None).collect() };
    for (key, (name, quota)) in limits.keys.iter_mut().zip(asked) {
        if let Some(held @ Held::Policy(_)) = key.held() {
            return Err(holds_policy(Some(*name), held, quota.algorithm()));
        }
    }
    let verdict = match request_all(&mut limits, cost, false, now, decisions) {
        Ok(verdict) => verdict,
        Err(Mismatch { index, algorithms }) => return Err(other_algorithm(Some(asked[index].0), algorithms)),
    };
    if verdict.taken {
        for ((key, new), decision) in limits.keys.iter_mut().zip(limits.new).zip(&*decisions) {
            if let Some(limiter) = new {
                key.set(Held::Limiter(limiter));
            }
            key.keep_until(now + decision.reset_after);
        }
        Key::all_changed(&limits.keys, |place| FactBytes::taken(&asked[place].1, cost, now));
    }
    Ok(verdict)
}
