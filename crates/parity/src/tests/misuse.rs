//! What a caller may not do ends in a panic that says so, never in memory that isn't his.

use crate::{Delta, UNIT_BYTES};

const BLOCK: &[u8] = &[7; UNIT_BYTES];
const LONG: &[u8] = &[7; 2 * UNIT_BYTES];

#[test]
#[should_panic(expected = "multiples of 512 bytes, not on 100")]
fn odd_length() {
    crate::xor_into(&mut [0; 100], &[0; 100]);
}

#[test]
#[should_panic(expected = "one length, not on 512 and 1024 bytes")]
fn data_of_another_length() {
    crate::gen_pq(&[BLOCK, LONG], &mut [0; UNIT_BYTES], &mut [0; UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "one length, not on 512 and 1024 bytes")]
fn q_of_another_length() {
    crate::gen_pq(&[BLOCK], &mut [0; UNIT_BYTES], &mut [0; 2 * UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "one length, not on 1024 and 512 bytes")]
fn a_new_block_of_another_length() {
    let delta = Delta { index: 0, old: LONG, new: BLOCK };
    crate::update(&[delta], Some(&mut [0; 2 * UNIT_BYTES]), None);
}

#[test]
#[should_panic(expected = "one length, not on 512 and 1024 bytes")]
fn a_parity_of_another_length() {
    let _ = crate::check_pq(&[BLOCK], BLOCK, LONG);
}

#[test]
#[should_panic(expected = "one length, not on 512 and 1024 bytes")]
fn recovery_into_another_length() {
    crate::recover_two_data(&[None, None], BLOCK, BLOCK, &mut [0; UNIT_BYTES], &mut [0; 2 * UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "1 to 254 data disks, not of 0")]
fn no_disks() {
    crate::xor_gen(&[], &mut [0; UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "1 to 254 data disks, not of 255")]
fn too_many_disks() {
    crate::gen_q(&[BLOCK; 255], &mut [0; UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "data disk 3 twice")]
fn a_disk_given_twice() {
    let delta = Delta { index: 3, old: BLOCK, new: BLOCK };
    crate::update(&[delta, delta], None, Some(&mut [0; UNIT_BYTES]));
}

#[test]
#[should_panic(expected = "data disk 254, beyond")]
fn a_disk_that_can_not_be() {
    crate::update_by_difference(&[(254, BLOCK)], None, Some(&mut [0; UNIT_BYTES]));
}

#[test]
#[should_panic(expected = "recovers 1 lost data blocks, not 0")]
fn nothing_lost() {
    crate::recover_data_from_p(&[Some(BLOCK)], BLOCK, &mut [0; UNIT_BYTES]);
}

#[test]
#[should_panic(expected = "recovers 2 lost data blocks, not 3")]
fn too_much_lost() {
    let (mut a, mut b) = ([0; UNIT_BYTES], [0; UNIT_BYTES]);
    crate::recover_two_data(&[None, None, None], BLOCK, BLOCK, &mut a, &mut b);
}
