//! What `quickstart` found, in a table and as JSON.

use std::time::Duration;

use serde::Serialize;
use uraid_array::core::Status;
use uraid_report::{Table, human_bytes, human_duration, human_speed};

use crate::commands::bench::kernels::Rates;

/// Published speeds of the resync of a RAID6 of 16 sparse files of 10 GB in shared memory, by Linux's md: KiB a second and
/// member, and the machine.
const PUBLISHED: [(u64, &str); 2] = [(87_533, "two Xeon Gold 6248"), (34_671, "two EPYC 7601")];

/// The JSON report `quickstart`. It is made only when everything compared equal.
#[derive(Serialize)]
pub struct Report {
    members: u16,
    used_bytes_per_member: u64,
    chunk_bytes: u64,
    size_bytes: u64,
    data_bytes: u64,
    /// Of the data, in hexadecimal.
    crc32c: String,
    equal: bool,
    resync_kib_per_second_and_member: u64,
    published: Vec<Published>,
    steps: Vec<Step>,
    parity: Rates,
}

#[derive(Serialize)]
struct Published {
    machine: &'static str,
    resync_kib_per_second_and_member: u64,
}

/// A step of the story.
#[derive(Serialize)]
pub struct Step {
    step: &'static str,
    seconds: f64,
    /// Bytes of the array, or of each member where `a_member`.
    bytes: Option<u64>,
    /// KiB a second of those.
    pub kib_per_second: Option<u64>,
    a_member: bool,
    /// A word on it.
    pub note: String,
}

impl Step {
    /// A step that took so long.
    pub fn new(step: &'static str, took: Duration) -> Step {
        Step { step, seconds: took.as_secs_f64(), bytes: None, kib_per_second: None, a_member: false, note: String::new() }
    }

    /// It moved so many bytes of the array.
    pub fn moved(&mut self, bytes: u64, note: String) {
        self.bytes = Some(bytes);
        self.kib_per_second = Some((bytes as f64 / 1024.0 / self.seconds) as u64);
        self.note = note;
    }

    /// It went over so many bytes of each member.
    pub fn moved_on_each_member(&mut self, bytes: u64) {
        self.moved(bytes, "a member".to_owned());
        self.a_member = true;
    }
}

impl Report {
    /// Of an array as it was after its resync.
    pub fn new(fresh: &Status, data_bytes: u64, crc32c: u32, parity: Rates, steps: Vec<Step>) -> Report {
        let resync = steps.iter().find(|step| step.step == "resync").and_then(|step| step.kib_per_second);
        let published = PUBLISHED.map(|(speed, machine)| Published { machine, resync_kib_per_second_and_member: speed });
        Report {
            members: fresh.raid_disks,
            used_bytes_per_member: fresh.member_bytes,
            chunk_bytes: fresh.chunk_bytes,
            size_bytes: fresh.size_bytes,
            data_bytes,
            crc32c: format!("{crc32c:08x}"),
            equal: true,
            resync_kib_per_second_and_member: resync.unwrap_or(0),
            published: published.into(),
            steps,
            parity,
        }
    }

    /// The table of the steps.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["step", "time", "size", "speed", ""]);
        table.right(1).right(2).right(3);
        for step in &self.steps {
            table.row([
                step.step.to_owned(),
                human_duration(Duration::from_secs_f64(step.seconds)),
                step.bytes.map_or(String::new(), human_bytes),
                step.kib_per_second.map_or(String::new(), human_speed),
                step.note.clone(),
            ]);
        }
        format!(
            "\n{table}\n\n{}\nall {} of data compared equal",
            against_published(self.resync_kib_per_second_and_member),
            human_bytes(self.data_bytes)
        )
    }
}

/// The resync's speed beside the published ones.
pub fn against_published(kib_per_second: u64) -> String {
    let times = |(published, machine): (u64, &str)| {
        let ratio = kib_per_second as f64 / published as f64;
        format!("{ratio:.1} times the {} published for {machine}", human_speed(published))
    };
    format!("resync: {} a member; {}", human_speed(kib_per_second), PUBLISHED.map(times).join(", "))
}
