//! Arrays on partitions of whole disks, made by sfdisk and the kernel: found, read, and written without a step beyond.

use uraid_referee::{require, require_programs};

use super::guest;
use super::host::{Bench, assert_same, write_nbd};
use crate::lab::refs;

const DISK_BYTES: u64 = 40 << 20;

/// The member on the first disk, of a GPT, is partition 2; on the second it is a primary partition of an MBR, on the third a
/// logical one.
const MEMBERS: [&str; 3] = ["disk0#2", "disk1#4", "disk2#6"];
/// Bytes at which the partitions were put, 16 MiB each.
const STARTS: [u64; 3] = [3 << 20, 24 << 20, 8 << 20];

fn make(bench: &Bench, referee: &uraid_referee::Referee) -> u64 {
    for name in ["disk0", "disk1", "disk2"] {
        bench.lab.file(name, DISK_BYTES);
    }
    let script = r#"
export PATH=$PATH:/usr/sbin:/sbin
printf 'label: gpt\n1MiB,2MiB\n3MiB,16MiB,R\n' | sfdisk -q $W/disk0
printf 'label: dos\n1MiB,2MiB,83\n3MiB,20MiB,E\n23MiB,1MiB,83\n24MiB,16MiB,fd\n' | sfdisk -q $W/disk1
printf 'label: dos\n1MiB,2MiB,83\n3MiB,30MiB,E\n4MiB,3MiB,83\n8MiB,16MiB,fd\n' | sfdisk -q $W/disk2
sfdisk -d $W/disk2
for n in 0 1 2; do losetup -P /dev/loop$n $W/disk$n; done
sleep 0.2
mdadm --create /dev/md0 --run --quiet -l 5 -n 3 -c 64 /dev/loop0p2 /dev/loop1p4 $(ls /dev/loop2p6 || ls /dev/loop2p4)
mdwait /dev/md0
fill
report all
mdadm --stop --quiet /dev/md0
for n in 0 1 2; do losetup -d /dev/loop$n; done
"#;
    let output = guest::run(referee, bench, script);
    assert_eq!(guest::value(&output, "same", "all"), "yes", "{}", output.stdout);
    guest::value(&output, "size", "all").parse().unwrap()
}

#[test]
fn members_in_partitions_are_found_read_and_written_within() {
    let Some(referee) = require() else { return };
    if !require_programs(&["sfdisk"]) {
        return;
    }
    let bench = Bench::new();
    let size_bytes = make(&bench, referee);
    let members = MEMBERS.map(str::to_owned);
    let disks = ["disk0", "disk1", "disk2"].map(str::to_owned);

    let text = bench.lab.ok(&[&["examine"], &refs(&disks)[..]].concat()).stdout;
    for member in &members {
        assert!(text.contains(&format!("a member: {member}")) && text.contains(&format!("\n{member}:\n")), "{text}");
    }
    let report = bench.examine(&disks);
    let found: Vec<&str> = report.iter().filter(|member| member["usable"] == true).filter_map(|m| m["member"].as_str()).collect();
    assert_eq!(found, MEMBERS);

    bench.assert_exports(&members, bench.expected(size_bytes), false);
    bench.assert_exports(&members[1..], bench.expected(size_bytes), true);
    let ended = bench.export(&disks).expect(1);
    assert!(ended.stderr.contains("the member is in a partition: give disk1#4 instead"), "{}", ended.stderr);
    let ended = bench.export(&["disk0#3".to_owned()]).expect(1);
    assert!(ended.stderr.contains("the GPT of disk0 has no partition 3; it has 1, 2"), "{}", ended.stderr);
    let ended = bench.lab.run(&[&["export", "--output=disk1"], &refs(&members)[..]].concat()).expect(2);
    assert!(ended.stderr.contains("--output disk1 is the member disk1#4"), "{}", ended.stderr);

    let before = bench.lab.bytes(&disks);
    let new: Vec<u8> = bench.expected(size_bytes).iter().map(|byte| !byte).collect();
    let server = bench.lab.assemble(&members, &["--nbd=unix:nbd"]);
    write_nbd(&bench.lab.path("nbd"), 0, &new);
    // Two arrays may live in two partitions of a disk; the disk as a whole has nobody else meanwhile.
    let ended = bench.export(&members).expect(1);
    assert!(ended.stderr.contains("in use"), "{}", ended.stderr);
    let status = server.report["member_paths"].to_string();
    assert!(MEMBERS.iter().all(|member| status.contains(&format!("/{member}\""))), "{status}");
    drop(server);
    bench.assert_exports(&members, &new, false);
    for ((before, after), start) in before.iter().zip(bench.lab.bytes(&disks)).zip(STARTS) {
        let (start, end) = (start as usize, start as usize + (16 << 20));
        assert!(before[start..end] != after[start..end]);
        assert_same(&after[..start], &before[..start], "the disk before the partition");
        assert_same(&after[end..], &before[end..], "the disk behind the partition");
    }
}
