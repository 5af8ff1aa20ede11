//! Sizes on the command line.

/// A size in bytes: a number and perhaps a unit, `K`, `M`, `G`, `T` or `P` (powers of 1024, `B` or `iB` may follow), `s` for
/// sectors of 512 bytes or `B` for bytes. A number alone counts `default_unit` bytes.
fn parse(text: &str, default_unit: u64) -> Result<u64, String> {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let wrong = || format!("'{text}' is no size; it takes a number and perhaps K, M, G, T or P, or s for sectors");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.trim_end_matches("iB").trim_end_matches("ib") {
        "" if unit.is_empty() => default_unit,
        "s" => 512,
        "b" | "B" => 1,
        "k" | "K" | "KB" => 1 << 10,
        "m" | "M" | "MB" => 1 << 20,
        "g" | "G" | "GB" => 1 << 30,
        "t" | "T" | "TB" => 1 << 40,
        "p" | "P" | "PB" => 1 << 50,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(|| format!("'{text}' is more than 64 bits of bytes hold"))
}

/// A size in bytes where a number alone counts bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse(text, 1)
}

/// A size in bytes where a number alone counts KiB, as mdadm has it.
pub fn kib(text: &str) -> Result<u64, String> {
    parse(text, 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, size) in
            [("10G", 10 << 30), ("512", 512 << 10), ("64K", 64 << 10), ("4096s", 2 << 20), ("1MiB", 1 << 20), ("7B", 7)]
        {
            assert_eq!(kib(text), Ok(size), "{text}");
        }
        assert_eq!(bytes("512"), Ok(512));
        for text in ["", "G", "-1", "1.5G", "10X", "iB", "1iB", "99999999999999999999", "16384P"] {
            assert!(kib(text).is_err(), "{text}");
        }
    }
}
