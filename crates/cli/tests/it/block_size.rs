//! The logical block size of an array, recorded at byte 224 of its superblocks.

use uraid_referee::require_programs;

use crate::lab::{Lab, pattern, program, refs};
use crate::superblock;

const MIB: u64 = 1 << 20;

/// `logical_block_size` in what was padding before kernel 6.19.
const LOGICAL_BLOCK: usize = 224;

#[test]
fn a_logical_block_size_is_recorded_when_asked_for_and_kept() {
    let lab = Lab::new();
    let members = lab.files(4, 8 * MIB);
    let create = [&["create", "-l", "5", "--json", "--logical-block-size=4096"], &refs(&members)[..]].concat();
    let made = lab.ok(&create);
    let said = made.json();
    assert_eq!(said["logical_block_bytes"], 4096);
    assert!(said["warnings"][0].as_str().unwrap().contains("before 6.19"), "{said}");
    assert!(made.stderr.contains("before 6.19"), "{}", made.stderr);
    let field = |member: &str| superblock::get_u64(&lab.path(member), LOGICAL_BLOCK);
    assert_eq!(field("d2"), 4096);
    // Rewritten by a resync and an import.
    std::fs::write(lab.path("in"), pattern(100_001, 4)).unwrap();
    lab.ok(&[&["resync"], &refs(&members)[..]].concat());
    lab.ok(&[&["import", "-i", "in"], &refs(&members)[..]].concat());
    for member in &members {
        assert_eq!(field(member), 4096, "{member}");
    }
    let examined = lab.ok(&["examine", "--json", "d1"]).json();
    assert_eq!(examined["members"][0]["superblocks"][0]["logical_block_size"], 4096);
    assert!(lab.ok(&["examine", "d1"]).stdout.contains("Logical Block : 4096 bytes"));
    let detail = [&["detail"], &refs(&members)[..]].concat();
    assert!(lab.ok(&detail).stdout.contains("Logical Block : 4096 bytes"));
    assert_eq!(lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json()["arrays"][0]["logical_block_bytes"], 4096);
    // A spare that joins gets it too.
    lab.file("late", 8 * MIB);
    let server = lab.assemble(&members, &["--nbd", "unix:socket"]);
    lab.wait_idle(server.name());
    lab.ok(&["add", server.name(), "late"]);
    if require_programs(&["nbdinfo"]) {
        let told = program("nbdinfo", &["--json", &server.uri("socket")]).expect(0).json();
        assert_eq!(told["exports"][0]["block_size_minimum"], 4096, "{told}");
    }
    assert_eq!(server.stop().0, 0);
    assert_eq!(field("late"), 4096);
}

#[test]
fn a_logical_block_size_is_not_written_unasked_or_where_it_does_not_fit() {
    let lab = Lab::new();
    let members = lab.array(3, 8 * MIB, &["-l", "5"]);
    assert_eq!(superblock::get_u64(&lab.path("d0"), LOGICAL_BLOCK), 0);
    assert!(!lab.ok(&[&["detail"], &refs(&members)[..]].concat()).stdout.contains("Logical Block"));
    for (options, what) in [
        (&["--metadata=0.90", "--logical-block-size=4096"][..], "no place for a logical block size"),
        (&["--logical-block-size=512", "--member-block-size=4096"], "has logical blocks of 4096 bytes"),
        (&["--logical-block-size=8192"], "neither 512 nor 4096"),
    ] {
        let refused = lab.run(&[&["create", "-l", "5", "--force"], options, &refs(&members)].concat()).expect(2);
        assert!(refused.stderr.contains(what), "{}", refused.stderr);
    }
    // A linear array of files that are not whole blocks is cut to whole blocks.
    for name in ["l0", "l1"] {
        lab.file(name, 8 * MIB + 512);
    }
    lab.ok(&["create", "-l", "linear", "--logical-block-size=4096", "l0", "l1"]);
    lab.ok(&["export", "-o", "out", "l0", "l1"]);
    assert_eq!(lab.path("out").metadata().unwrap().len() % 4096, 0);
}

#[test]
fn nonsense_is_named_and_never_trusted() {
    let lab = Lab::new();
    lab.array(3, 8 * MIB, &["-l", "5", "--assume-clean"]);
    for bad in [1_u32, 256, 768, 4095, 128 << 10, u32::MAX] {
        superblock::set(&lab.path("d0"), LOGICAL_BLOCK, &bad.to_le_bytes());
        let refused = lab.run(&["examine", "d0"]).expect(1).stdout;
        assert!(
            refused.contains("logical_block_size at byte 4320 of the member") && refused.contains(&bad.to_string()),
            "{refused}"
        );
        lab.run(&["export", "-o", "out", "d0", "d1", "d2"]).expect(3);
    }
    // Sound, but more than is served: the array is refused, not misread.
    for member in ["d0", "d1", "d2"] {
        superblock::set(&lab.path(member), LOGICAL_BLOCK, &(64_u32 << 10).to_le_bytes());
    }
    lab.ok(&["examine", "d0"]);
    let refused = lab.run(&["export", "-o", "out", "d0", "d1", "d2"]).expect(1);
    assert!(refused.stderr.contains("the recorded logical block"), "{}", refused.stderr);
}
