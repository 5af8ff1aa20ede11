//! Runs that the kernel broke off are taken up where its superblocks say, not from the start.

use uraid_referee::require;

use super::guest;
use super::host::Bench;
use crate::superblock;

const MEMBER_BYTES: u64 = 5 << 20;
/// The kernel stops here, in bytes of each member's data.
const STOP: u64 = 2 << 20;
/// Places before and behind it.
const BEFORE: u64 = 1 << 20;
const BEHIND: u64 = 3 << 20;

/// Lets the run that is about to start come to its limit, and stops the array.
const RUN_TO_THE_LIMIT: &str =
    "while ! grep -q \"^$LIMIT /\" $M/sync_completed; do sleep 0.05; done\nmdadm --stop --quiet /dev/md0\n";

/// Members `r.0` to `r.4`: data on the first three, parity on the last two.
fn members(bench: &Bench) -> Vec<String> {
    (0..5).map(|index| bench.lab.file(&format!("r.{index}"), MEMBER_BYTES)).collect()
}

fn create() -> String {
    format!(
        "LIMIT={}\nattach r.0 r.1 r.2 r.3 r.4\n\
         mdadm --create /dev/md0 --run --quiet --homehost=any --level=6 --layout=parity-last --raid-devices=5 --chunk=64 \
         --bitmap=none --assume-clean $DEVS\nM=$(md_sys /dev/md0)\nfill\n",
        STOP / 512
    )
}

/// uraid goes on; what the kernel had done already is not done again.
fn go_on(bench: &Bench, members: &[String], kind: &str) {
    let last = members.last().unwrap();
    bench.spoil(last, BEFORE);
    bench.spoil(last, BEHIND);
    let server = bench.lab.assemble(members, &["--name=on"]);
    let status = bench.lab.wait_idle("on");
    assert_eq!((&status["last_sync"]["kind"], &status["degraded"]), (&kind.into(), &0.into()), "{status}");
    assert_eq!(bench.lab.check("on"), 8, "the page before the place where the kernel stopped");
    assert_eq!(server.stop().0, 0);
    assert_eq!([BEFORE, BEHIND].map(|place| bench.is_spoilt(last, place)), [true, false]);
    bench.assert_exports(members, bench.expected(status["size_bytes"].as_u64().unwrap()), false);
    let clean = bench.examine(members);
    assert!(clean.iter().all(|member| member["superblocks"][0]["resync_offset"] == u64::MAX), "{clean:?}");
}

#[test]
fn a_resync_that_the_kernel_broke_off_goes_on() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let members = members(&bench);
    let script = create()
        + "mdadm --stop --quiet /dev/md0\nmdadm --assemble --readonly --update=resync --quiet /dev/md0 $DEVS\n\
           M=$(md_sys /dev/md0)\necho $LIMIT > $M/sync_max\nmdadm --readwrite /dev/md0\n"
        + RUN_TO_THE_LIMIT
        + "examine r\ndetach\n";
    let output = guest::run(referee, &bench, &script);
    assert_eq!(guest::examined(&output, "r")[0].field("State"), "active");
    // That mdadm does not print.
    assert_eq!(superblock::get_u64(&bench.lab.path("r.0"), superblock::RESYNC_OFFSET), STOP / 512);
    go_on(&bench, &members, "resync");
}

#[test]
fn a_recovery_that_the_kernel_broke_off_goes_on() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let members = members(&bench);
    let script = create()
        + "set -- $DEVS\nmdadm --quiet /dev/md0 --fail $5\nmdadm --quiet /dev/md0 --remove $5\nmdadm --quiet --zero-superblock $5\n\
           echo frozen > $M/sync_action\nmdadm --quiet /dev/md0 --add $5\necho $LIMIT > $M/sync_max\necho idle > $M/sync_action\n"
        + RUN_TO_THE_LIMIT
        + "examine r\ndetach\n";
    let output = guest::run(referee, &bench, &script);
    assert_eq!(guest::examined(&output, "r")[4].number("Recovery Offset"), STOP / 512);
    go_on(&bench, &members, "recovery");
}
