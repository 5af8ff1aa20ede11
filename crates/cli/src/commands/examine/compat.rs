//! `examine --compat`: from which Linux on each member assembles, and what stands in the way of older ones.

use std::fmt::Write;

use serde::Serialize;
use uraid_format::{Compat, Need};

use super::{Examined, Fields, Found};

/// The JSON report `examine-compat`.
#[derive(Serialize)]
pub struct Report<'a> {
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    member: &'a str,
    /// Why it cannot be used by uraid.
    problem: Option<String>,
    /// By superblock found.
    superblocks: Vec<Super>,
}

#[derive(Serialize)]
struct Super {
    metadata: &'static str,
    /// The first Linux that takes the member; `null` when none is known to.
    since: Option<String>,
    needs: Vec<NeedReport>,
}

#[derive(Serialize)]
struct NeedReport {
    what: String,
    since: Option<String>,
    /// Removed from this release on, until `back`.
    gone: Option<String>,
    back: Option<String>,
    note: Option<&'static str>,
    source: &'static str,
}

impl<'a> Report<'a> {
    /// Of these members.
    pub fn new(all: &'a [Examined]) -> Report<'a> {
        Report { members: all.iter().map(Member::new).collect() }
    }
}

impl<'a> Member<'a> {
    fn new(examined: &'a Examined) -> Member<'a> {
        Member {
            member: &examined.name,
            problem: examined.scanned.as_ref().err().map(ToString::to_string),
            superblocks: examined.superblocks.iter().map(Super::new).collect(),
        }
    }
}

impl Super {
    fn new(found: &Found) -> Super {
        let compat = compat(found);
        Super {
            metadata: found.version.name(),
            since: compat.since().map(|since| since.to_string()),
            needs: compat.needs.into_iter().map(NeedReport::new).collect(),
        }
    }
}

impl NeedReport {
    fn new(need: Need) -> NeedReport {
        NeedReport {
            what: need.what,
            since: need.since.map(|since| since.to_string()),
            gone: need.except.map(|(gone, _)| gone.to_string()),
            back: need.except.map(|(_, back)| back.to_string()),
            note: need.note,
            source: need.source,
        }
    }
}

fn compat(found: &Found) -> Compat {
    match &found.fields {
        Fields::V1(fields) => Compat::of(fields, found.bitmap_version),
        Fields::V090(fields) => Compat::of_090(fields, found.bitmap_version),
    }
}

/// The same in words.
pub fn text(examined: &Examined) -> String {
    let mut text = format!("{}:", examined.name);
    // Writing to a string does not fail.
    let mut line = |label: &str, value: String| {
        let _ = write!(text, "\n{label:>15} : {value}");
    };
    if examined.superblocks.is_empty() {
        line("Problem", examined.scanned.as_ref().err().map(ToString::to_string).unwrap_or_default());
    }
    for found in &examined.superblocks {
        let Super { metadata, since, needs } = Super::new(found);
        line("Version", metadata.to_owned());
        line("Assembles", since.map_or("on no Linux that is known".to_owned(), |since| format!("from Linux {since} on")));
        for need in needs {
            let note = need.note.map_or(String::new(), |note| format!("; {note}"));
            line(&need.since.unwrap_or("never".to_owned()), format!("{} [{}]{note}", need.what, need.source));
        }
    }
    text
}
