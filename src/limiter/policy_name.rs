//! The name of a policy, as a key keeps it that is used under the policy.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a policy. Copies share its memory, and it is one pointer in size, so that a key has room for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyName(Arc<Box<str>>);

impl PolicyName {
    /// The longest name.
    pub const MAX: usize = 128;

    /// A name of these bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Self::check(bytes).map(|text| Self(Arc::new(text.into())))
    }

    /// The bytes as text if they are a name: letters, digits and a few signs. A name can be written into a file, and is
    /// readable in messages.
    pub fn check(bytes: &[u8]) -> Option<&str> {
        let good = |c: &u8| c.is_ascii_alphanumeric() || b"_-.:/".contains(c);
        let text = std::str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(good));
        text.filter(|text| (1..=Self::MAX).contains(&text.len()))
    }
}

impl Deref for PolicyName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// So that a map with names can be searched for what a client sent. Texts are in the order of their bytes.
impl Borrow<[u8]> for PolicyName {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}
