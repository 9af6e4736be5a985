//! Payloads for `RESTORE`.

use fastrand::Rng;

use super::mutation::mutate;

/// A dump without its checksum, changed at random. It stays of the type it was: how the server loads its own types from
/// damaged payloads is its affair, and it may take its time and memory for that.
pub fn damaged(random: &mut Rng, dump: &[u8], other: &[u8]) -> Vec<u8> {
    let (kind, value) = dump.split_at(1);
    [kind, &mutate(random, value, other)].concat()
}

/// A payload with the checksum that fits it, so that it is looked at whatever it holds.
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
