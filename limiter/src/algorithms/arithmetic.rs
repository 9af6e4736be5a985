//! Quotients of 128-bit products that mostly fit 64 bits, where a division is one instruction instead of a function.
//! A result that does not fit 64 bits is the largest that does.

/// `a / b`, rounded up.
#[inline(always)]
pub fn div_ceil(a: u128, b: u64) -> u64 {
    match u64::try_from(a) {
        Ok(a) => a.div_ceil(b),
        Err(_) => saturate(a.div_ceil(u128::from(b))),
    }
}

/// `a / b`, rounded down.
#[inline(always)]
pub fn div_floor(a: u128, b: u64) -> u64 {
    match u64::try_from(a) {
        Ok(a) => a / b,
        Err(_) => saturate(a / u128::from(b)),
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{div_ceil, div_floor};

    #[test]
    fn small_and_large_numbers_are_divided_alike() {
        assert_eq!((div_ceil(7, 2), div_floor(7, 2)), (4, 3));
        assert_eq!((div_ceil(8, 2), div_floor(8, 2)), (4, 4));
        let large = u128::from(u64::MAX) + 2;
        assert_eq!((div_ceil(large, 2), div_floor(large, 2)), (1 << 63 | 1, 1 << 63));
        assert_eq!((div_ceil(large, 1), div_floor(large, 1)), (u64::MAX, u64::MAX));
    }
}
