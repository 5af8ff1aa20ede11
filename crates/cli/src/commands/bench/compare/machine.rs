//! What is known of a machine: rates by kernel, what was chosen, how fast it resyncs.

use serde::Serialize;

/// A kernel and its rate in MiB a second, which Linux calls MB/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its name.
    pub kernel: String,
    /// MiB of data a second.
    pub mib_per_second: f64,
}

/// The speed of a resync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resync {
    /// Which pass, or where the figure is from.
    pub what: String,
    /// KiB a second of each member.
    pub kib_per_second_and_member: f64,
    /// Members of the array, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
    /// How many of a stripe's blocks are parity: 1, or 2 for RAID6.
    pub parities: u64,
    /// What the report itself found to bound it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Its processor or the file that it comes from.
    pub name: String,
    /// The processor, where the input names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Data disks and block length of the rates, where they are not the kernel's 6 and 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<(u64, u64)>,
    /// Making P and Q.
    pub generate: Vec<Named>,
    /// The kernel's xor(): updating P and Q.
    pub update: Vec<Named>,
    /// What it uses to make P and Q; the rate is 0 where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Named>,
    /// The rate of updating that goes with the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_update_mib_per_second: Option<f64>,
    /// What it recovers two data blocks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// RAID5's checksum.
    pub xor: Vec<Named>,
    /// What it uses for that; 0 as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_xor: Option<Named>,
    /// CRC32C.
    pub crc32c: Vec<Named>,
    /// Resyncs seen, the one that wrote parity first.
    pub resync: Vec<Resync>,
}

impl Machine {
    /// Is nothing known that could be compared?
    pub fn is_empty(&self) -> bool {
        let rates = [&self.generate, &self.update, &self.xor, &self.crc32c];
        let chosen = self.chosen.is_some() || self.chosen_xor.is_some() || self.recovery.is_some();
        rates.iter().all(|rates| rates.is_empty()) && self.resync.is_empty() && !chosen
    }

    /// The fastest kernel that makes P and Q; the choice where that is all there is.
    pub fn best_generate(&self) -> Option<&Named> {
        best(&self.generate).or(self.chosen.as_ref()).filter(|named| named.mib_per_second > 0.0)
    }

    /// The fastest update of P and Q in MiB a second.
    pub fn best_update(&self) -> Option<f64> {
        best(&self.update).map(|named| named.mib_per_second).or(self.chosen_update_mib_per_second)
    }

    /// The fastest checksum of RAID5.
    pub fn best_xor(&self) -> Option<&Named> {
        best(&self.xor).or(self.chosen_xor.as_ref()).filter(|named| named.mib_per_second > 0.0)
    }

    /// The resync that stands for the machine: the first.
    pub fn main_resync(&self) -> Option<&Resync> {
        self.resync.first()
    }

    /// Takes over what another input says of the same machine.
    pub fn join(&mut self, other: Machine) {
        self.generate.extend(other.generate);
        self.update.extend(other.update);
        self.xor.extend(other.xor);
        self.crc32c.extend(other.crc32c);
        self.resync.extend(other.resync);
        self.shape = self.shape.or(other.shape);
        self.processor = self.processor.take().or(other.processor);
        self.chosen = self.chosen.take().or(other.chosen);
        self.chosen_xor = self.chosen_xor.take().or(other.chosen_xor);
        self.recovery = self.recovery.take().or(other.recovery);
        self.chosen_update_mib_per_second = self.chosen_update_mib_per_second.or(other.chosen_update_mib_per_second);
    }

    /// Would [`Self::join`] mix two measurements of one thing?
    pub fn overlaps(&self, other: &Machine) -> bool {
        let both = |a: &[Named], b: &[Named]| !a.is_empty() && !b.is_empty();
        let chosen =
            (self.chosen.is_some() && other.chosen.is_some()) || (self.chosen_xor.is_some() && other.chosen_xor.is_some());
        both(&self.generate, &other.generate)
            || both(&self.xor, &other.xor)
            || both(&self.crc32c, &other.crc32c)
            || (!self.resync.is_empty() && !other.resync.is_empty())
            || chosen
    }
}

/// The fastest of them.
pub fn best(rates: &[Named]) -> Option<&Named> {
    rates.iter().max_by(|a, b| a.mib_per_second.total_cmp(&b.mib_per_second))
}
