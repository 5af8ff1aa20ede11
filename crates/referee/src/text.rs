//! Reading what `mdadm --examine` and `mdadm --detail` print.

use std::collections::BTreeMap;

/// What mdadm says of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The device or file that was asked about.
    pub device: String,
    /// Each `key : value` line, by key; both without spaces around them. Where a key stands twice, the last counts.
    pub fields: BTreeMap<String, String>,
    /// The lines of the table at the end, as words: number, major, minor, slot, state..., device.
    pub table: Vec<Vec<String>>,
}

impl Report {
    /// The value of a key.
    ///
    /// # Panics
    /// When there is none; the message lists what there is.
    #[must_use]
    #[track_caller]
    pub fn field(&self, key: &str) -> &str {
        match self.fields.get(key) {
            Some(value) => value,
            None => panic!("mdadm said nothing of `{key}`, but: {:#?}", self.fields),
        }
    }

    /// The first word of a value, where mdadm adds the same in other units or words behind it.
    ///
    /// # Panics
    /// When there is no such key.
    #[must_use]
    #[track_caller]
    pub fn word(&self, key: &str) -> &str {
        self.field(key).split_whitespace().next().unwrap_or_default()
    }

    /// The first word of a value as a number, whatever unit letter is stuck to it (`512K` is 512).
    ///
    /// # Panics
    /// When there is no such key, or its value does not start with a digit.
    #[must_use]
    #[track_caller]
    pub fn number(&self, key: &str) -> u64 {
        let word = self.word(key);
        let digits = word.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().unwrap_or_else(|_| panic!("mdadm gives `{word}` for `{key}`, no number"))
    }
}

/// Reads the output of `mdadm --examine` for any number of devices.
#[must_use]
pub fn parse_examine(text: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for line in text.lines() {
        if let Some(device) = line.strip_suffix(':').filter(|l| l.starts_with('/')) {
            reports.push(Report { device: device.to_owned(), ..Report::default() });
        } else if let Some(report) = reports.last_mut() {
            read_line(report, line);
        }
    }
    reports
}

/// Reads the output of `mdadm --detail` for one array.
#[must_use]
pub fn parse_detail(text: &str) -> Report {
    parse_examine(text).into_iter().next().unwrap_or_default()
}

fn read_line(report: &mut Report, line: &str) {
    if let Some((key, value)) = line.split_once(" : ") {
        report.fields.insert(key.trim().to_owned(), value.trim().to_owned());
    } else {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let starts_a_row = words.first().is_some_and(|w| w == "-" || w.bytes().all(|b| b.is_ascii_digit()));
        if starts_a_row && words.len() >= 5 {
            report.table.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From mdadm 4.2 on a degraded array, shortened.
    const DETAIL: &str = "\
/dev/md0:
           Version : 1.2
     Creation Time : Mon Nov 30 21:40:01 2026
        Raid Level : raid5
        Array Size : 79872 (78.00 MiB 81.79 MB)
        Chunk Size : 64K

    Number   Major   Minor   RaidDevice State
       0      98        0        0      active sync   /dev/ubda
       -       0        0        1      removed
       3      98       48        -      spare   /dev/ubdd
";

    #[test]
    fn fields_and_table_are_told_apart() {
        let report = parse_detail(DETAIL);
        assert_eq!(report.device, "/dev/md0");
        assert_eq!(report.field("Creation Time"), "Mon Nov 30 21:40:01 2026");
        assert_eq!((report.number("Array Size"), report.number("Chunk Size"), report.word("Raid Level")), (79_872, 64, "raid5"));
        let states: Vec<_> = report.table.iter().map(|row| row[4..].join(" ")).collect();
        assert_eq!(states, ["active sync /dev/ubda", "removed", "spare /dev/ubdd"]);
        assert_eq!(report.fields.len(), 5);
    }

    #[test]
    fn devices_are_told_apart() {
        let reports = parse_examine("/dev/a:\n  Magic : a92b4efc\n/dev/b:\n  Magic : 0\n");
        assert_eq!(reports.iter().map(|r| r.field("Magic")).collect::<Vec<_>>(), ["a92b4efc", "0"]);
        assert_eq!(parse_detail(""), Report::default());
    }
}
