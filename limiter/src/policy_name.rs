//! The name of a policy, as a key keeps it.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a policy. Clones share its memory, and it is one pointer wide, so it fits into a key's value.
///
/// ```
/// use limiter::PolicyName;
///
/// assert_eq!(&*PolicyName::new(b"api/v1").unwrap(), "api/v1");
/// assert!(PolicyName::new(b"two words").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyName(Arc<Box<str>>);

impl PolicyName {
    /// The length of the longest name.
    pub const MAX: usize = 128;

    /// A name of these bytes; `None` if they are no valid name.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Self::check(bytes).map(|text| Self(Arc::new(text.into())))
    }

    /// The bytes as text if they are a valid name: letters, digits and `_-.:/`. Names are words of policy files, and
    /// printable in messages.
    pub fn check(bytes: &[u8]) -> Option<&str> {
        let valid = |c: &u8| c.is_ascii_alphanumeric() || b"_-.:/".contains(c);
        let text = std::str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(valid));
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

/// Lets a map of names be searched for the bytes that a client sent.
impl Borrow<[u8]> for PolicyName {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}
