//! The measured cases: plain writes for comparison, the module's commands, and the scripts that they replace.

/// The words of a request; `{key}` stands for a key.
pub type Request = Vec<String>;

/// The expected reply, which is checked so that nothing else is measured by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Allowed,
    Denied,
}

/// A case, measured on existing keys.
pub struct Case {
    pub name: String,
    /// The request that creates a key.
    pub prime: Request,
    /// The request that is measured.
    pub request: Request,
    pub expected: Expected,
}

/// An algorithm and the script that it replaces.
pub struct Algorithm {
    pub name: &'static str,
    pub script: &'static str,
    /// The keys of the script.
    script_keys: &'static [&'static str],
    is_bucket: bool,
}

pub const ALGORITHMS: [Algorithm; 5] = [
    Algorithm {
        name: "TOKENBUCKET",
        script: include_str!("lua/token_bucket.lua"),
        script_keys: &["{key}:tokens", "{key}:time"],
        is_bucket: true,
    },
    Algorithm {
        name: "LEAKYBUCKET",
        script: include_str!("lua/leaky_bucket.lua"),
        script_keys: &["{key}:level", "{key}:time"],
        is_bucket: true,
    },
    Algorithm {
        name: "FIXEDWINDOW",
        script: include_str!("lua/fixed_window.lua"),
        script_keys: &["{key}"],
        is_bucket: false,
    },
    Algorithm {
        name: "SLIDINGLOG",
        script: include_str!("lua/sliding_log.lua"),
        script_keys: &["{key}"],
        is_bucket: false,
    },
    Algorithm {
        name: "SLIDINGCOUNTER",
        script: include_str!("lua/sliding_counter.lua"),
        script_keys: &["{key}"],
        is_bucket: false,
    },
];

/// The limit of requests that are allowed; no case uses it up.
const AMPLE: u64 = 100;

/// The unit of a limit's time.
#[derive(Debug, Clone, Copy)]
pub enum Per {
    Minute,
    Hour,
    Day,
}

impl Per {
    const fn unit(self) -> &'static str {
        match self {
            Self::Minute => "m",
            Self::Hour => "h",
            Self::Day => "d",
        }
    }

    const fn seconds(self) -> u32 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }
}

impl Algorithm {
    /// The module's command.
    pub fn command(&self, limit: u64, per: Per) -> Request {
        let pace = if self.is_bucket { format!("{limit}/{}", per.unit()) } else { per.seconds().to_string() };
        [&format!("RL.{}", self.name), "{key}", &limit.to_string(), &pace].map(str::to_owned).to_vec()
    }

    /// The script, called by the digest `sha`.
    pub fn script_call(&self, sha: &str, limit: u64, per: Per) -> Request {
        let window = f64::from(per.seconds());
        #[allow(clippy::cast_precision_loss)] // small limits
        let pace = if self.is_bucket { limit as f64 / window } else { window };
        let mut words = vec!["EVALSHA".to_owned(), sha.to_owned(), self.script_keys.len().to_string()];
        words.extend(self.script_keys.iter().map(|key| (*key).to_owned()));
        words.extend([limit.to_string(), pace.to_string()]);
        words
    }

    /// The two cases of a call: allowed, and denied.
    fn cases(label: &str, call: impl Fn(u64, Per) -> Request) -> [Case; 2] {
        let case = |outcome, limit, per, expected| Case {
            name: format!("{label} {outcome}"),
            prime: call(limit, per),
            request: call(limit, per),
            expected,
        };
        // At a hundred an hour one request keeps a key alive for long enough.
        [case("allowed", AMPLE, Per::Hour, Expected::Allowed), case("denied", 1, Per::Minute, Expected::Denied)]
    }

    pub fn command_cases(&self) -> [Case; 2] {
        Self::cases(&format!("RL.{}", self.name), |limit, per| self.command(limit, per))
    }

    pub fn script_cases(&self, sha: &str) -> [Case; 2] {
        Self::cases(&format!("Lua {}", self.name), |limit, per| self.script_call(sha, limit, per))
    }
}

/// The comparison of a case with others.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The cases that do the same work, whose costs are added up.
    pub with: Vec<String>,
    /// The highest allowed ratio of the costs.
    pub at_most: f64,
}

/// The limits in the cases of `RL.ALL`.
const COMBINED: [&str; 3] = ["TOKENBUCKET", "FIXEDWINDOW", "SLIDINGLOG"];

impl Algorithm {
    /// The policy of this one limit.
    fn policy(&self, limit: u64) -> String {
        format!("{}-{limit}", self.name.to_lowercase())
    }

    /// The commands that set the policies for [`Self::check_cases`].
    pub fn policies(&self) -> [Request; 2] {
        [(AMPLE, Per::Hour), (1, Per::Minute)].map(|(limit, per)| {
            let [_, _, a, b] = self.command(limit, per).try_into().expect("a key and two parameters");
            vec!["RL.POLICY".to_owned(), "SET".to_owned(), self.policy(limit), self.name.to_owned(), a, b]
        })
    }

    /// The requests of [`Self::command_cases`], by a policy.
    pub fn check_cases(&self) -> [Case; 2] {
        let call = |limit, _| ["RL.CHECK", &self.policy(limit), "{key}"].map(str::to_owned).to_vec();
        Self::cases(&format!("RL.CHECK {}", self.name), call)
    }
}

/// A request to three limits at once.
pub fn all_cases() -> [Case; 2] {
    let together = || ALGORITHMS.iter().filter(|it| COMBINED.contains(&it.name));
    let call = |limit, per| {
        let mut words = words(&format!("RL.ALL {}", COMBINED.len()));
        for algorithm in together() {
            let [_, key, a, b] = algorithm.command(limit, per).try_into().expect("a key and two parameters");
            words.extend([algorithm.name.to_owned(), format!("{}{key}", &algorithm.name[..1]), a, b]);
        }
        words
    };
    Algorithm::cases("RL.ALL", call)
}

/// The comparisons of policies and of `RL.ALL` with the plain commands.
pub fn comparisons() -> Vec<(String, Compared)> {
    let mut found = Vec::new();
    for outcome in ["allowed", "denied"] {
        for algorithm in &ALGORITHMS {
            let with = vec![format!("RL.{} {outcome}", algorithm.name)];
            found.push((format!("RL.CHECK {} {outcome}", algorithm.name), Compared { with, at_most: 1.15 }));
        }
        let with = COMBINED.map(|name| format!("RL.{name} {outcome}")).to_vec();
        found.push((format!("RL.ALL {outcome}"), Compared { with, at_most: 1.0 }));
    }
    found
}

/// The cheapest write.
pub fn incr() -> Case {
    plain("INCR", "INCR {key}")
}

/// The cheapest write of an expiring key. The value has eight bytes, and is not a number, which would be stored
/// differently.
pub fn set_ex() -> Case {
    plain("SET EX", "SET {key} eightbyt EX 60")
}

fn plain(name: &str, request: &str) -> Case {
    Case { name: name.to_owned(), prime: words(request), request: words(request), expected: Expected::Anything }
}

/// The words of a request, separated by blanks.
pub fn words(request: &str) -> Request {
    request.split_whitespace().map(str::to_owned).collect()
}
