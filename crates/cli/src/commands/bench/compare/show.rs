//! The comparison as a table and as charts.

use uraid_report::{Bar, BarChart, Table};

use super::machine::{Machine, Named};

/// All figures side by side; behind each its ratio to the first machine's.
pub fn table(machines: &[Machine]) -> Table {
    let mut headings = vec![""];
    headings.extend(machines.iter().map(|machine| machine.name.as_str()));
    let mut table = Table::new(&headings);
    (1..=machines.len()).for_each(|column| {
        table.right(column);
    });
    let mut figures = |label: &str, figure: Figure<'_>| {
        let cells: Vec<Option<f64>> = machines.iter().map(figure).collect();
        if cells.iter().any(Option::is_some) {
            table.row(std::iter::once(label.to_owned()).chain(cells.iter().map(|cell| with_ratio(*cell, cells[0]))));
        }
    };
    by_kernel(machines, "gen()", |machine| &machine.generate, &mut figures);
    by_kernel(machines, "xor()", |machine| &machine.update, &mut figures);
    figures("best gen() MB/s", &|machine| machine.best_generate().map(|named| named.mib_per_second));
    figures("best xor() MB/s", &Machine::best_update);
    by_kernel(machines, "checksum", |machine| &machine.xor, &mut figures);
    figures("best checksum MB/s", &|machine| machine.best_xor().map(|named| named.mib_per_second));
    by_kernel(machines, "crc32c", |machine| &machine.crc32c, &mut figures);
    let passes = machines.iter().map(|machine| machine.resync.len()).max().unwrap_or(0);
    for index in 0..passes {
        let label = if index == 0 { "resync K/sec a member".to_owned() } else { format!("resync, pass {}", index + 1) };
        figures(&label, &|machine| machine.resync.get(index).map(|resync| resync.kib_per_second_and_member));
    }
    words(&mut table, "gen() by", machines, &|machine| {
        let fastest = machine.best_generate().or(machine.chosen.as_ref());
        fastest.map(|named| named.kernel.clone())
    });
    words(&mut table, "checksum by", machines, &|machine| {
        machine.best_xor().or(machine.chosen_xor.as_ref()).map(|named| named.kernel.clone())
    });
    words(&mut table, "recovery by", machines, &|machine| machine.recovery.clone());
    table
}

fn words(table: &mut Table, label: &str, machines: &[Machine], word: &dyn Fn(&Machine) -> Option<String>) {
    let cells: Vec<Option<String>> = machines.iter().map(word).collect();
    if cells.iter().any(Option::is_some) {
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        table.row(std::iter::once(label.to_owned()).chain(cells));
    }
}

/// What a row shows of a machine.
type Figure<'a> = &'a dyn Fn(&Machine) -> Option<f64>;

/// A row for each kernel that any machine has, in the order in which they come.
fn by_kernel(
    machines: &[Machine],
    label: &str,
    rates: impl Fn(&Machine) -> &Vec<Named>,
    figures: &mut dyn FnMut(&str, Figure<'_>),
) {
    let mut kernels: Vec<&str> = Vec::new();
    for named in machines.iter().flat_map(&rates) {
        if !kernels.contains(&named.kernel.as_str()) {
            kernels.push(&named.kernel);
        }
    }
    for kernel in kernels {
        figures(&format!("{kernel} {label}"), &|machine| {
            rates(machine).iter().find(|named| named.kernel == kernel).map(|named| named.mib_per_second)
        });
    }
}

fn with_ratio(figure: Option<f64>, first: Option<f64>) -> String {
    match (figure, first) {
        (Some(figure), Some(first)) if first > 0.0 => format!("{figure:.0} ({:.2})", figure / first),
        (Some(figure), _) => format!("{figure:.0}"),
        (None, _) => "-".to_owned(),
    }
}

/// Bars for what can be compared.
pub fn charts(machines: &[Machine]) -> Vec<BarChart> {
    let chart = |title: &str, unit: &str, figure: &dyn Fn(&Machine) -> Option<(String, f64)>| {
        let bar = |(series, machine): (usize, &Machine)| {
            let (detail, value) = figure(machine)?;
            let label = if detail.is_empty() { machine.name.clone() } else { format!("{}, {detail}", machine.name) };
            Some(Bar { label, value, series })
        };
        let bars: Vec<Bar> = machines.iter().enumerate().filter_map(bar).collect();
        Some(BarChart { title: title.to_owned(), unit: unit.to_owned(), bars }).filter(|chart| !chart.bars.is_empty())
    };
    let named = |named: &Named| (named.kernel.clone(), named.mib_per_second);
    let charts = [
        chart("making P and Q: gen()", "MB/s", &|machine| machine.best_generate().map(named)),
        chart("updating P and Q: xor()", "MB/s", &|machine| machine.best_update().map(|rate| (String::new(), rate))),
        chart("RAID5's checksum", "MB/s", &|machine| machine.best_xor().map(named)),
        chart("CRC32C", "MB/s", &|machine| super::machine::best(&machine.crc32c).map(named)),
        chart("resync", "K/sec a member", &|machine| {
            machine.main_resync().map(|resync| (resync.what.clone(), resync.kib_per_second_and_member))
        }),
    ];
    charts.into_iter().flatten().collect()
}
