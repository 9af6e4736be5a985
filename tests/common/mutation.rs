//! Random mutations of bytes.

use fastrand::Rng;

/// Values that often reveal bugs.
const EDGES: [u8; 9] = [0, 1, 2, 0x0f, 0x10, 0x7f, 0x80, 0xfe, 0xff];

/// Mutates a few positions: sets, drops, repeats or inserts bytes, or replaces them by those of `other`.
pub fn mutate(random: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=bytes.len());
        let end = (at + random.usize(1..=8)).min(bytes.len());
        match random.u8(..8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, random.u8(..)),
            3 => drop(bytes.splice(at..end, bytes[at..end].repeat(random.usize(2..5)))),
            4 if !other.is_empty() => drop(bytes.splice(at.., other[random.usize(..other.len())..].iter().copied())),
            _ if at == end => {}
            5 => bytes[at] ^= 1 << random.u8(..8),
            6 => bytes[at] = EDGES[random.usize(..EDGES.len())],
            _ => bytes[at] = random.u8(..),
        }
    }
    bytes
}
