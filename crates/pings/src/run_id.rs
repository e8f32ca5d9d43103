//! The id that the pings of one run share.

use shedlock_core::Lease;

/// Returns the id of the run under this lease, as 128 bits of a UUID. An owner is different for each
/// acquisition, so each run has an id of its own, which needs no memory between its pings.
pub(crate) fn of(lease: &Lease) -> u128 {
    let hash = hash([lease.name().as_str(), lease.owner().as_str()]);
    // A UUID of version 8: its bits are the application's.
    let hash = hash & !(0xf << 76) | (0x8 << 76);
    hash & !(0x3 << 62) | (0x2 << 62)
}

/// Returns the text of a UUID.
pub(crate) fn uuid(id: u128) -> String {
    let hex = format!("{id:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// FNV-1a with 128 bits.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u128 {
    let bytes = texts.into_iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_dashes() {
        let text = uuid(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);
        assert_eq!(text, "01234567-89ab-8def-8123-456789abcdef");
        assert_eq!(uuid(1), "00000000-0000-0000-0000-000000000001");
    }
}
