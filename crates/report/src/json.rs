//! The frame of every `--json` report.

use serde::Serialize;

/// The version of the reports' schema. It rises when a field changes its meaning or goes away; a new field is no change.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Envelope<'a, T> {
    uraid: &'static str,
    report: &'a str,
    schema: u32,
    #[serde(flatten)]
    payload: &'a T,
}

/// A report as one JSON object: `uraid` (the program's version), `report` (which one it is), `schema`, and the payload's
/// own fields beside them.
///
/// # Errors
/// When the payload is neither a struct nor a map with text as keys, or cannot be serialised.
pub fn json_envelope<T: Serialize>(report: &str, payload: &T) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Envelope { uraid: env!("CARGO_PKG_VERSION"), report, schema: SCHEMA, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_stands_beside_the_frame() {
        #[derive(Serialize)]
        struct Payload {
            members: u32,
        }
        let text = json_envelope("detail", &Payload { members: 4 }).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "uraid": env!("CARGO_PKG_VERSION"), "report": "detail", "schema": 1, "members": 4,
        });
        assert_eq!(value, expected);
        assert!(text.starts_with("{\n  \"uraid\""), "the frame comes first: {text}");
        assert!(json_envelope("list", &[1, 2]).is_err());
    }
}
