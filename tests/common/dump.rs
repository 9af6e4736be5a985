//! Payloads for `RESTORE`.

use fastrand::Rng;

use super::mutation::mutate;

/// A mutated dump without checksum. The type is kept, so that the server's own types are not tested.
pub fn damaged(random: &mut Rng, dump: &[u8], other: &[u8]) -> Vec<u8> {
    let (kind, value) = dump.split_at(1);
    [kind, &mutate(random, value, other)].concat()
}

/// A payload with a valid checksum.
pub fn with_checksum(body: &[u8]) -> Vec<u8> {
    [body, &crc64(body).to_le_bytes()].concat()
}

/// The checksum at the end of a dump: CRC-64 with the polynomial of Jones, bits reflected.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u64::from(*byte),
            |crc, _| {
                if crc & 1 == 1 {
                    crc >> 1 ^ 0x95AC_9329_AC4B_C9B5
                } else {
                    crc >> 1
                }
            },
        )
    })
}
