//! What the kernel's side does, as shell.

use std::fmt::Write as _;
use std::time::Duration;

use uraid_referee::{Guest, Output, Referee, Report, guest_path, parse_examine};

use super::host::Bench;

/// A guest may run longer than usual where many tests share the machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Shell functions on top of the referee's. Members are loop devices on files of the directory `$W`, for there are more of
/// them than disks; `$W/pattern` is what arrays are filled with.
const LIBRARY: &str = r#"
cp $W/pattern /tmp/pattern

# Devices for files of $W, into $DEVS.
attach() { DEVS=; for f in "$@"; do DEVS="$DEVS $(losetup -f --show $W/$f)"; done; }
detach() { for d in $DEVS $MORE; do losetup -d $d; done; MORE=; }
# One more device, into $MORE too.
attach_more() { MORE=$(losetup -f --show $W/$1); }
# For what the kernel refuses while it still tidies up after a check.
again() { for try in 1 2 3 4 5 6 7 8 9; do "$@" && return; sleep 0.2; done; return 1; }
done_with() { mdadm --stop --quiet /dev/md0; detach; }

# Fills the array with the pattern.
fill() { head -c $(blockdev --getsize64 /dev/md0) /tmp/pattern | dd of=/dev/md0 bs=1M iflag=fullblock oflag=direct status=none; }

# How many bits of the running array's bitmap are set on its first member.
dirty_bits() { mdadm --examine-bitmap $(echo $DEVS | cut -d' ' -f1) | sed -n 's/.*(chunks), \([0-9]*\) dirty.*/\1/p'; }

# Reports under the name $1 how big the array is, and whether it holds the pattern (or the file $2).
report() {
  blockdev --flushbufs /dev/md0
  echo size.$1=$(blockdev --getsize64 /dev/md0)
  echo same.$1=$(cmp -n $(blockdev --getsize64 /dev/md0) /dev/md0 ${2:-/tmp/pattern} >&2 && echo yes)
}

# What mdadm says of the superblocks and the bitmaps, between marks.
examine() {
  echo "@examine $1"
  TZ=UTC mdadm --examine $DEVS
  echo "@end"
}
examine_bitmap() {
  for d in $DEVS; do echo "@bitmap $1 $(($(echo $DEVS | tr ' ' '\n' | grep -nx $d | cut -d: -f1) - 1))"; mdadm --examine-bitmap $d; echo "@end"; done
}
"#;

/// Runs `script` in a guest that sees the bench's folder as `$W`; it must succeed.
#[track_caller]
pub fn run(referee: &Referee, bench: &Bench, script: &str) -> Output {
    run_with(referee, bench, script, &[])
}

/// As [`run`], with more kernel modules.
#[track_caller]
pub fn run_with(referee: &Referee, bench: &Bench, script: &str, modules: &[&str]) -> Output {
    let script = format!("W={}\n{LIBRARY}\n{script}", guest_path(&bench.lab.path("")).unwrap().display());
    let output = referee.run(&Guest { modules, limit: PATIENCE, ..Guest::new(&script) }).unwrap();
    assert_eq!(output.status, 0, "the guest's script failed; it wrote:\n{}", output.stdout);
    output
}

/// The lines between a mark and its end.
pub fn section(output: &Output, mark: &str) -> String {
    let lines = output.stdout.lines().skip_while(|line| *line != mark).skip(1).take_while(|line| *line != "@end");
    lines.fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    })
}

/// What mdadm said of each member of the array `name`, in the order in which they were attached.
#[track_caller]
pub fn examined(output: &Output, name: &str) -> Vec<Report> {
    let reports = parse_examine(&section(output, &format!("@examine {name}")));
    assert!(!reports.is_empty(), "mdadm said nothing of {name}:\n{}", output.stdout);
    reports
}

/// What mdadm said of the bitmap of one member of the array `name`.
#[track_caller]
pub fn examined_bitmap(output: &Output, name: &str, index: usize) -> Report {
    let text = section(output, &format!("@bitmap {name} {index}"));
    let reports = parse_examine(&format!("/bitmap:\n{text}"));
    reports.into_iter().next().unwrap_or_default()
}

/// The value that the script reported as `key.name`.
#[track_caller]
pub fn value<'a>(output: &'a Output, key: &str, name: &str) -> &'a str {
    let found = output.value(&format!("{key}.{name}"));
    found.unwrap_or_else(|| panic!("the guest reported no {key} of {name}:\n{}", output.stdout))
}
