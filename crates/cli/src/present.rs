//! How values look to people: UUIDs as mdadm writes them, times, sizes.

use uraid_report::human_bytes;
use uuid::Uuid;

/// A UUID as mdadm writes it: four groups of eight digits.
pub fn md_uuid(id: Uuid) -> String {
    let digits = id.simple().to_string();
    [&digits[..8], &digits[8..16], &digits[16..24], &digits[24..]].join(":")
}

/// A UUID with or without colons or hyphens.
pub fn parse_uuid(text: &str) -> Result<Uuid, String> {
    let digits: String = text.chars().filter(|digit| !matches!(digit, ':' | '-')).collect();
    Uuid::parse_str(&digits)
        .map_err(|_| format!("'{text}' is not a UUID: 32 hexadecimal digits, with or without colons or hyphens"))
}

/// A size in binary and decimal units as mdadm adds it to numbers: ` (254.00 MiB 266.34 MB)`, nothing below 5000 KiB.
pub fn both_units(bytes: u64) -> String {
    let Some((binary, decimal, letter)) = unit(bytes) else { return String::new() };
    format!(" ({} {letter}iB {} {letter}B)", hundredths(bytes, binary), hundredths(bytes, decimal))
}

/// A size in decimal units as mdadm's exports have it: `266.34MB`.
pub fn decimal(bytes: u64) -> String {
    match unit(bytes) {
        Some((_, decimal, letter)) => format!("{}{letter}B", hundredths(bytes, decimal)),
        None => format!("{}KB", hundredths(bytes, 1000)),
    }
}

fn unit(bytes: u64) -> Option<(u64, u64, char)> {
    const MIB: u64 = 1 << 20;
    if bytes < 5000 * 1024 {
        None
    } else if bytes < 2 << 30 {
        Some((MIB, 1_000_000, 'M'))
    } else if bytes < 2 << 40 {
        Some((MIB << 10, 1_000_000_000, 'G'))
    } else {
        Some((MIB << 20, 1_000_000_000_000, 'T'))
    }
}

fn hundredths(bytes: u64, unit: u64) -> String {
    let (bytes, unit) = (u128::from(bytes), u128::from(unit));
    let rounded = (bytes * 100 + unit / 2) / unit;
    format!("{}.{:02}", rounded / 100, rounded % 100)
}

/// KiB, and what they come to: `260096 KiB (254.00 MiB)`.
pub fn kib(bytes: u64) -> String {
    format!("{} KiB ({})", bytes / 1024, human_bytes(bytes))
}

/// Seconds since 1970 as a date and a time: `2026-11-30 21:57:02 UTC`.
pub fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest % 3600 / 60, rest % 60)
}

/// Seconds since 1970 as RFC 3339 has it: `2026-11-30T21:57:02Z`. Years beyond 9999 have more digits than it allows.
pub fn rfc3339(seconds: u64) -> String {
    time(seconds).replacen(' ', "T", 1).replace(" UTC", "Z")
}

/// The Gregorian date of a day since 1970. Years are counted from March, so that the leap day is the last one.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days_since_1970 + DAYS_TO_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // date -u -d @N
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(time(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(time(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(time(4_107_542_400), "2100-03-01 00:00:00 UTC");
        // date -u -d @N +%FT%TZ
        assert_eq!(rfc3339(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn sizes_are_those_of_mdadm() {
        // mdadm --examine of members of 32 MiB, 10 GiB and 4 MiB
        assert_eq!(both_units(61440 * 512), " (30.00 MiB 31.46 MB)");
        assert_eq!(both_units(20_953_088 * 512), " (9.99 GiB 10.73 GB)");
        assert_eq!(both_units(2048 * 512), "");
        assert_eq!(decimal(120 << 20), "125.83MB");
    }

    #[test]
    fn uuids_go_round_in_any_form() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(md_uuid(id), "01234567:89abcdef:00112233:44556677");
        assert_eq!(parse_uuid(&md_uuid(id)), Ok(id));
        assert_eq!(parse_uuid(&id.to_string()), Ok(id));
        assert!(parse_uuid("0123").is_err());
    }
}
