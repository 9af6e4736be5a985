//! Exact fractions, with the operations that the models need.

use std::cmp::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    over: i128,
    under: i128,
}

impl Fraction {
    pub const ZERO: Self = Self { over: 0, under: 1 };

    pub fn new(over: i128, under: i128) -> Self {
        let (mut a, mut b) = (over.abs(), under);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { over: over / a.max(1), under: under / a.max(1) }
    }

    pub fn whole(value: u64) -> Self {
        Self::new(i128::from(value), 1)
    }

    pub fn plus(self, other: Self) -> Self {
        Self::new(self.over * other.under + other.over * self.under, self.under * other.under)
    }

    pub fn minus(self, other: Self) -> Self {
        self.plus(Self::new(-other.over, other.under))
    }

    pub fn ceiling(self) -> u64 {
        u64::try_from(-(-self.over).div_euclid(self.under)).expect("not negative")
    }

    /// The next multiple of one `under`th.
    pub fn rounded_up_to(self, under: u64) -> Self {
        let under = i128::from(under);
        Self::new(-(-self.over * under).div_euclid(self.under), under)
    }

    pub fn at_least_zero(self) -> Self {
        if self.over < 0 {
            Self::ZERO
        } else {
            self
        }
    }

    pub fn min(self, other: Self) -> Self {
        if self.compare(other) == Ordering::Less {
            self
        } else {
            other
        }
    }

    pub fn compare(self, other: Self) -> Ordering {
        (self.over * other.under).cmp(&(other.over * self.under))
    }
}
