//! The public functions: any one or two members lost.

use super::{disks, reference, slices};
use crate::{Delta, Differs, MAX_DATA_DISKS, UNIT_BYTES};

fn without<'a>(data: &[&'a [u8]], lost: &[usize]) -> Vec<Option<&'a [u8]>> {
    data.iter().enumerate().map(|(index, block)| (!lost.contains(&index)).then_some(*block)).collect()
}

/// Loses data disk `low` with P, with Q, and with data disk `high`.
fn lose(data: &[&[u8]], p: &[u8], q: &[u8], low: usize, high: Option<usize>) {
    let len_bytes = p.len();
    let (mut a, mut b) = (vec![0x11; len_bytes], vec![0x22; len_bytes]);
    match high {
        None => {
            crate::recover_data_from_p(&without(data, &[low]), p, &mut a);
            crate::recover_data_from_q(&without(data, &[low]), q, &mut b);
            assert!(a == data[low] && b == data[low], "{low} of {}", data.len());
            let (mut out, mut parity) = (vec![0x33; len_bytes], vec![0x44; len_bytes]);
            crate::recover_data_and_p(&without(data, &[low]), q, &mut out, &mut parity);
            assert!(out == data[low] && parity == p, "{low} of {} and P", data.len());
            crate::recover_data_and_q(&without(data, &[low]), p, &mut out, &mut parity);
            assert!(out == data[low] && parity == q, "{low} of {} and Q", data.len());
        }
        Some(high) => {
            crate::recover_two_data(&without(data, &[low, high]), p, q, &mut a, &mut b);
            assert!(a == data[low] && b == data[high], "{low} and {high} of {}", data.len());
        }
    }
}

#[test]
fn all_pairs_up_to_16_data_disks() {
    for count in 1..=16 {
        let blocks = disks(count, UNIT_BYTES);
        let data = slices(&blocks);
        let (right_p, right_q) = reference::parity(&data);
        // P and Q lost: made anew, together and each alone.
        let (mut p, mut q) = (vec![1; UNIT_BYTES], vec![2; UNIT_BYTES]);
        crate::gen_pq(&data, &mut p, &mut q);
        assert!(p == right_p && q == right_q);
        let (mut p, mut q) = (vec![1; UNIT_BYTES], vec![2; UNIT_BYTES]);
        crate::xor_gen(&data, &mut p);
        crate::gen_q(&data, &mut q);
        assert!(p == right_p && q == right_q);
        for low in 0..count {
            lose(&data, &p, &q, low, None);
            (low + 1..count).for_each(|high| lose(&data, &p, &q, low, Some(high)));
        }
    }
}

#[test]
fn the_most_disks_there_can_be() {
    let blocks = disks(MAX_DATA_DISKS, UNIT_BYTES);
    let data = slices(&blocks);
    let (right_p, right_q) = reference::parity(&data);
    let (mut p, mut q) = (vec![1; UNIT_BYTES], vec![2; UNIT_BYTES]);
    crate::gen_pq(&data, &mut p, &mut q);
    assert!(p == right_p && q == right_q);
    assert!(crate::check_p(&data, &p) && !crate::check_pq(&data, &p, &q).any());
    for low in [0, 1, 100, 252, 253] {
        lose(&data, &p, &q, low, None);
        [1, 2, 101, 199, 253].into_iter().filter(|high| *high > low).for_each(|high| lose(&data, &p, &q, low, Some(high)));
    }
}

/// Every length class, so that every choice is made and used.
#[test]
fn every_length_class() {
    for (count, len_bytes) in [(3, 4096), (9, 4096), (3, 65536), (9, 65536), (3, 196_608)] {
        let blocks = disks(count, len_bytes);
        let data = slices(&blocks);
        let (p, q) = reference::parity(&data);
        let (mut to_p, mut to_q) = (vec![1; len_bytes], vec![2; len_bytes]);
        crate::gen_pq(&data, &mut to_p, &mut to_q);
        assert!(to_p == p && to_q == q);
        lose(&data, &p, &q, 1, None);
        lose(&data, &p, &q, 0, Some(2));
        assert!(crate::check_p(&data, &p));
        // Beyond the place where a check looks at what it has so far.
        to_q[len_bytes - 1] ^= 1;
        assert_eq!(crate::check_pq(&data, &p, &to_q), Differs { p: false, q: true });
        to_p[0] ^= 1;
        assert_eq!(crate::check_pq(&data, &to_p, &to_q), Differs { p: true, q: true });
        assert!(!crate::check_p(&data, &to_p));
    }
}

#[test]
fn an_update_is_what_making_it_anew_gives() {
    let before = disks(14, 1024);
    for set in [vec![0], vec![13], vec![3, 4, 5], vec![12, 0, 7], (0..14).collect()] {
        let (mut p, mut q) = reference::parity(&slices(&before));
        let (mut by_sum_p, mut by_sum_q) = (p.clone(), q.clone());
        let mut after = before.clone();
        for &index in &set {
            after[index] = super::noise(index as u64 + 1000, 1024);
        }
        let delta = |&index: &usize| Delta { index, old: &before[index], new: &after[index] };
        let deltas: Vec<Delta<'_>> = set.iter().map(delta).collect();
        crate::update(&deltas, Some(&mut p), Some(&mut q));
        let right = reference::parity(&slices(&after));
        assert_eq!((p, q), right, "{set:?}");

        let mut sums: Vec<Vec<u8>> = set.iter().map(|&index| before[index].clone()).collect();
        sums.iter_mut().zip(&set).for_each(|(sum, &index)| crate::xor_into(sum, &after[index]));
        let differences: Vec<(usize, &[u8])> = set.iter().copied().zip(sums.iter().map(Vec::as_slice)).collect();
        crate::update_by_difference(&differences, Some(&mut by_sum_p), Some(&mut by_sum_q));
        assert_eq!((by_sum_p, by_sum_q), right, "{set:?}");
    }
}

#[test]
fn nothing_to_do_does_nothing() {
    let (mut p, mut q) = (vec![3; UNIT_BYTES], vec![4; UNIT_BYTES]);
    crate::update(&[], Some(&mut p), Some(&mut q));
    crate::update(&[Delta { index: 0, old: &[1; UNIT_BYTES], new: &[2; UNIT_BYTES] }], None, None);
    assert!(p == [3; UNIT_BYTES] && q == [4; UNIT_BYTES]);
    crate::gen_pq(&[&[], &[]], &mut [], &mut []);
    assert!(crate::is_zero(&[]) && crate::is_zero(&[0; UNIT_BYTES]) && !crate::is_zero(&[1; UNIT_BYTES]));
}
