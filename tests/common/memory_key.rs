//! A key in memory, for tests without a server.

use limiter::{Micros, PolicyName, Value};
use redis_ratelimit::error::Error;
use redis_ratelimit::replication::apply::apply;
use redis_ratelimit::replication::{Effect, OpenKey};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryKey {
    /// Its value, if it exists.
    pub value: Option<Value>,
    /// When it expires.
    pub expires_at: Option<Micros>,
}

impl MemoryKey {
    /// Applies an effect, as a replica does.
    ///
    /// # Errors
    /// If the effect does not match the value, which is then unchanged.
    pub fn apply(&mut self, effect: Effect<'_>) -> Result<(), Error> {
        apply(effect, self)
    }
}

impl OpenKey for MemoryKey {
    fn value(&mut self) -> Option<&mut Value> {
        self.value.as_mut()
    }

    fn set(&mut self, value: Value) {
        self.value = Some(value);
        // As in the server: a new value has no expiry.
        self.expires_at = None;
    }

    fn set_policy(&mut self, policy: &PolicyName) {
        if let Some(Value::Policy(limits)) = &mut self.value {
            limits.set_policy(policy.clone());
        }
    }

    fn set_expire_at(&mut self, time: Micros) {
        self.expires_at = Some(time);
    }
}
