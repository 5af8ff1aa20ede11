//! The table of docs/performance.md, in one run: `cargo run --release -p uraid-parity --example table`.

use std::time::Duration;

use uraid_parity::Operation;
use uraid_parity::measure::{self, Comparison, MeasureError, Part};

/// GB/s in a MiB/s.
const GB_PER_MIB: f64 = 1.048_576e-3;

/// Above this a block takes long enough that few rounds must do.
const LARGE_BYTES: usize = 1 << 20;

fn main() -> Result<(), MeasureError> {
    println!("| work | chosen kernel | GB/s | of the best | XOR-only limit | share | other |\n|---|---|---|---|---|---|---|");
    for (disks, len_bytes) in shapes() {
        let made = compare(Operation::GenPq, Part::OneDisk, disks, len_bytes)?;
        print("P+Q", &made, String::new());
        // At once, so that what else runs on the machine is the same for both.
        let recovered = compare(Operation::RecoverTwoData, Part::OneDisk, disks, len_bytes)?;
        let of_making = recovered.chosen_rate() / made.chosen_rate();
        print("two data disks recovered", &recovered, format!("{of_making:.2} of P+Q"));
    }
    print("XOR", &compare(Operation::GenP, Part::OneDisk, 15, 64 << 10)?, String::new());
    for disks in [8, 14] {
        print_update("update, one disk, old and new", &compare(Operation::Update, Part::OneDisk, disks, 4 << 10)?);
    }
    print_update("update, half, old and new", &compare(Operation::Update, Part::UpperHalf, 14, 4 << 10)?);
    print_update("update, half, by difference", &compare(Operation::UpdateByDifference, Part::UpperHalf, 14, 4 << 10)?);
    for kernel in measure::crc32c_kernels().iter().filter(|kernel| kernel.is_available()) {
        let rates = (0..15).map(|_| measure::measure_crc32c(kernel.name, 4 << 10, Duration::from_millis(1)));
        let mut rates = rates.collect::<Result<Vec<f64>, MeasureError>>()?;
        rates.sort_by(f64::total_cmp);
        println!("| CRC32C, 4 KiB | {} | {:.1} | | | | |", kernel.name, rates[rates.len() / 2] * GB_PER_MIB);
    }
    Ok(())
}

fn shapes() -> impl Iterator<Item = (usize, usize)> {
    let in_cache = [(6, 4), (8, 4), (14, 4), (8, 64), (14, 64), (8, 512), (14, 512)];
    in_cache.into_iter().chain([(14, 64 << 10)]).map(|(disks, kib)| (disks, kib << 10))
}

fn compare(operation: Operation, part: Part, disks: usize, len_bytes: usize) -> Result<Comparison, MeasureError> {
    let rounds = if len_bytes > LARGE_BYTES { 7 } else { 21 };
    measure::compare(operation, part, disks, len_bytes, rounds, Duration::from_micros(300))
}

fn print_update(work: &str, compared: &Comparison) {
    let times = |set| compared.times_two_pass(set).unwrap_or_default();
    let text = format!("{:.1} times Linux's way with AVX-512, {:.1} with GFNI", times("avx512"), times("gfni-avx512"));
    print(work, compared, text);
}

fn print(work: &str, compared: &Comparison, other: String) {
    let limit =
        compared.limit.map_or(String::new(), |limit| format!("{:.1} ({})", limit.mib_per_second * GB_PER_MIB, limit.kernel));
    let share = compared.share_of_limit().map_or(String::new(), |share| format!("{share:.2}"));
    println!(
        "| {work}, {} data, {} KiB | {} | {:.1} | {:.2} | {limit} | {share} | {other} |",
        compared.data_disks,
        compared.block_bytes >> 10,
        compared.chosen,
        compared.chosen_rate() * GB_PER_MIB,
        compared.share_of_best().unwrap_or_default(),
    );
}
