//! Reads saved `--json` reports of uraid itself.

use serde_json::Value;

use super::machine::{Machine, Named, Resync};

/// What the reports in `text` say, one after another; `None` when it is not JSON of ours, or the reports hold nothing to compare.
///
/// # Errors
/// A report of uraid that is broken off, or none that can be compared.
pub fn machine(text: &str) -> Result<Option<Machine>, String> {
    if !text.trim_start().starts_with('{') {
        return Ok(None);
    }
    let mut machine = Machine::default();
    for report in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let report = report.map_err(|error| format!("it begins as JSON, but {error}"))?;
        let kind = report["report"].as_str().ok_or("it is JSON, but no report of uraid: it has no field \"report\"")?;
        if report["schema"].as_u64() != Some(u64::from(uraid_report::SCHEMA)) {
            return Err(format!("its schema is {}, this program reads schema {}", report["schema"], uraid_report::SCHEMA));
        }
        let one = match kind {
            "bench-parity" => parity(&report),
            "bench-xor" => Machine { xor: rates(&report["kernels"], "mib_per_second"), ..Machine::default() },
            "bench-crc32c" => Machine { crc32c: rates(&report["kernels"], "mib_per_second"), ..Machine::default() },
            "bench-resync" => Machine { resync: passes(&report), ..Machine::default() },
            "quickstart" => quickstart(&report),
            other => return Err(format!("the report '{other}' has nothing to compare")),
        };
        let processor = text_of(&report["processor"]).or_else(|| text_of(&report["parity"]["processor"]));
        machine.join(Machine { processor, ..one });
    }
    Ok(Some(machine).filter(|machine| !machine.is_empty()))
}

fn text_of(value: &Value) -> Option<String> {
    // The text goes to a terminal: nothing that steers it.
    value.as_str().map(|text| text.chars().filter(|letter| !letter.is_control()).collect())
}

fn rates(kernels: &Value, field: &str) -> Vec<Named> {
    let rate = |row: &Value| Some(Named { kernel: text_of(&row["kernel"])?, mib_per_second: row[field].as_f64()? });
    kernels.as_array().into_iter().flatten().filter_map(rate).collect()
}

fn parity(report: &Value) -> Machine {
    let (disks, block_bytes) = (report["data_disks"].as_u64().unwrap_or(6), report["block_bytes"].as_u64().unwrap_or(4096));
    Machine {
        shape: Some((disks, block_bytes)).filter(|shape| *shape != (6, 4096)),
        generate: rates(&report["kernels"], "mib_per_second"),
        update: rates(&report["kernels"], "update_mib_per_second"),
        recovery: text_of(&report["fastest_recovery"]),
        ..Machine::default()
    }
}

fn parities(level: &Value) -> u64 {
    if level.as_str().is_none_or(|level| level.ends_with('6')) { 2 } else { 1 }
}

fn passes(report: &Value) -> Vec<Resync> {
    let pass = |row: &Value| {
        Some(Resync {
            what: text_of(&row["pass"])?,
            kib_per_second_and_member: row["kib_per_second_and_member"].as_f64().filter(|rate| *rate > 0.0)?,
            members: report["members"].as_u64(),
            parities: parities(&report["level"]),
            bound: text_of(&row["bound"]),
        })
    };
    report["passes"].as_array().into_iter().flatten().filter_map(pass).collect()
}

fn quickstart(report: &Value) -> Machine {
    let speed = report["resync_kib_per_second_and_member"].as_f64().filter(|rate| *rate > 0.0);
    let resync = speed.map(|kib_per_second_and_member| Resync {
        what: "quickstart's resync".to_owned(),
        kib_per_second_and_member,
        members: report["members"].as_u64(),
        parities: 2,
        bound: None,
    });
    Machine { resync: resync.into_iter().collect(), ..parity(&report["parity"]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_one_machine_come_together() {
        let text = r#"{"uraid":"0","report":"bench-parity","schema":1,"data_disks":6,"block_bytes":4096,"fastest_recovery":"avx2x2",
            "kernels":[{"kernel":"avx2\u001bx4","missing":[],"mib_per_second":20726.0,"update_mib_per_second":10095.0},
                       {"kernel":"avx512x4","missing":["avx512"],"mib_per_second":null}]}
            {"uraid":"0","report":"bench-resync","schema":1,"processor":"EPYC 7601","level":"raid6","members":16,
             "passes":[{"pass":"first","kib_per_second_and_member":34671}]}"#;
        let machine = machine(text).unwrap().unwrap();
        assert_eq!(machine.generate, [Named { kernel: "avx2x4".to_owned(), mib_per_second: 20726.0 }]);
        assert_eq!((machine.processor.as_deref(), machine.recovery.as_deref()), (Some("EPYC 7601"), Some("avx2x2")));
        assert_eq!(machine.main_resync().map(|resync| resync.kib_per_second_and_member), Some(34671.0));
    }

    #[test]
    fn what_is_no_report_is_said_to_be_none() {
        assert_eq!(machine("raid6: avx2x4 gen() 1 MB/s"), Ok(None));
        for text in [
            "{",
            "{}",
            r#"{"report":"bench-xor","schema":99}"#,
            r#"{"report":"detail","schema":1}"#,
            r#"{"report":1}"#,
            "{\"a\":[[[[",
        ] {
            assert!(machine(text).is_err(), "{text}");
        }
        assert_eq!(machine(r#"{"report":"bench-parity","schema":1,"kernels":[7,{"kernel":3}]}"#), Ok(None));
    }
}
