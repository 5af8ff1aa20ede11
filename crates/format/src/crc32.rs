//! The CRC-32 of polynomial 0x04c11db7, bits reflected: GPT's, and with another start DDF's.

/// The remainder of each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// The register after `parts`, one after another, from `start`.
pub(crate) fn register<'a>(start: u32, parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(start, |rest, byte| rest >> 8 ^ TABLE[((rest ^ u32::from(*byte)) & 0xff) as usize])
}

/// CRC-32 as in zlib, Ethernet and GPT: it starts from all ones and is inverted in the end.
pub(crate) fn crc32<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    !register(u32::MAX, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value that catalogues of CRCs give for this one.
    #[test]
    fn the_check_value_comes_out() {
        assert_eq!(crc32([&b"1234"[..], b"56789"]), 0xcbf4_3926);
    }
}
