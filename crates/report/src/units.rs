//! Sizes, speeds and times for people.

use std::time::Duration;

/// A size in the largest binary unit that leaves at least 1, with two digits behind the point: `10.00 GiB`. Below 1 KiB
/// it is exact: `512 B`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // In hundredths, rounded to the nearest, which may carry into the next unit: 1048575 bytes are 1.00 MiB.
    let mut divisor = 1_u128 << 10;
    for (index, unit) in UNITS.iter().enumerate() {
        let hundredths = (u128::from(bytes) * 100 + divisor / 2) / divisor;
        if hundredths < 102_400 || index + 1 == UNITS.len() {
            return format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100);
        }
        divisor <<= 10;
    }
    unreachable!("the last unit takes every size")
}

/// A speed as md gives it: KiB per second, written `34671K/sec`.
#[must_use]
pub fn human_speed(kib_per_s: u64) -> String {
    format!("{kib_per_s}K/sec")
}

/// A span in the two largest units that say something: `850 ms`, `12.5 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn human_duration(span: Duration) -> String {
    let ms = span.as_millis();
    let s = span.as_secs();
    match s {
        0 if ms == 0 && !span.is_zero() => format!("{} µs", span.as_micros()),
        0 => format!("{ms} ms"),
        1..60 => format!("{s}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A remaining time as md gives it: minutes and tenths, cut off: `0.5min` for 35 seconds.
#[must_use]
pub fn human_minutes(seconds: u64) -> String {
    format!("{}.{}min", seconds / 60, seconds % 60 / 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (1_048_575, "1.00 MiB"),
            (10_000_000_000, "9.31 GiB"),
            (1 << 40, "1.00 TiB"),
            (u64::MAX, "16.00 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn spans() {
        let cases = [
            (250, "250 µs"),
            (850_000, "850 ms"),
            (12_560_000, "12.5 s"),
            (200_000_000, "3 min 20 s"),
            (7_500_000_000, "2 h 5 min"),
            (273_600_000_000, "3 d 4 h"),
        ];
        for (micros, text) in cases {
            assert_eq!(human_duration(Duration::from_micros(micros)), text);
        }
        assert_eq!(
            (human_minutes(35), human_minutes(59), human_minutes(7649)),
            ("0.5min".into(), "0.9min".into(), "127.4min".into())
        );
    }
}
