use super::*;

const GOOD: Block = Block { readable: true, writable: true };
const GONE: Block = Block { readable: false, writable: false };

fn trusted() -> ParityTrust {
    ParityTrust::of(None, Sector(8), false)
}

fn make(data: &[Block], p: Block, q: Option<Block>, written: &[usize], trust: ParityTrust) -> Option<Plan> {
    let written: Vec<bool> = (0..data.len()).map(|index| written.contains(&index)).collect();
    plan(&Rows { data, p, q, written: &written, trust }, Preference::default())
}

/// Ten members, RAID6: the published arithmetic of read-modify-write against reconstruct-write.
#[test]
fn member_ios_of_the_published_raid6() {
    let count = |written: usize| {
        let written: Vec<usize> = (0..written).collect();
        let plan = make(&[GOOD; 8], GOOD, Some(GOOD), &written, trusted()).unwrap();
        (plan.reads() + written.len() + 2, matches!(plan.method, Method::ReadModifyWrite(_)))
    };
    assert_eq!(count(1), (6, true));
    assert_eq!(count(2), (8, true));
    assert_eq!(count(4), (10, false));
    assert_eq!(count(8), (10, false));
}

#[test]
fn stale_parity_is_never_modified() {
    let stale = ParityTrust::of(Some(Sector(0)), Sector(8), false);
    let plan = make(&[GOOD; 8], GOOD, Some(GOOD), &[0], stale).unwrap();
    assert_eq!((plan.method, plan.reads()), (Method::Reconstruct, 7));
    assert_ne!(ParityTrust::of(Some(Sector(0)), Sector(8), true), ParityTrust::Stale);
    assert_ne!(ParityTrust::of(Some(Sector(8)), Sector(8), false), ParityTrust::Stale);
}

#[test]
fn lost_members_change_the_method() {
    // A write to the lost member itself: all other data makes the parity that stands in for it.
    let plan = make(&[GOOD, GONE, GOOD], GOOD, None, &[1], trusted()).unwrap();
    assert_eq!((plan.method, plan.read_data), (Method::Reconstruct, vec![0, 2]));
    // A write beside the lost member: only the difference keeps the lost data reachable.
    let plan = make(&[GOOD, GONE, GOOD], GOOD, None, &[0], trusted()).unwrap();
    assert!(matches!(plan.method, Method::ReadModifyWrite(_)));
    // RAID6, both kinds at once.
    let plan = make(&[GONE, GONE, GOOD, GOOD], GOOD, Some(GOOD), &[0], trusted()).unwrap();
    assert_eq!((plan.method, plan.reads()), (Method::RebuildFirst, 4));
    // No parity left: data goes out alone.
    let plan = make(&[GOOD; 3], GONE, None, &[0], trusted()).unwrap();
    assert_eq!((plan.method, plan.reads()), (Method::DataOnly, 0));
}

#[test]
fn too_much_lost_is_no_plan() {
    assert_eq!(make(&[GONE, GONE, GOOD], GOOD, None, &[0], trusted()), None);
    assert_eq!(make(&[GONE, GOOD, GOOD], GONE, None, &[0], trusted()), None);
    assert_eq!(make(&[GONE, GONE, GONE, GOOD], GOOD, Some(GOOD), &[0], trusted()), None);
}

/// Multiplication in the field of Q, bit by bit.
fn multiply(a: u8, b: u8) -> u8 {
    let double = |value: u8| value << 1 ^ if value & 0x80 != 0 { 0x1d } else { 0 };
    let (mut sum, mut a) = (0, a);
    for bit in 0..8 {
        sum ^= if b >> bit & 1 != 0 { a } else { 0 };
        a = double(a);
    }
    sum
}

/// a^254 is 1 / a.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |power, _| multiply(power, a))
}

/// Is each of `wanted` a combination of `known`? Rows of coefficients over the old data blocks.
fn follows(known: &[Vec<u8>], wanted: &[Vec<u8>]) -> bool {
    let mut basis: Vec<(usize, Vec<u8>)> = Vec::new();
    let reduce = |basis: &[(usize, Vec<u8>)], mut row: Vec<u8>| {
        for (pivot, other) in basis {
            let factor = row[*pivot];
            row.iter_mut().zip(other).for_each(|(value, other)| *value ^= multiply(factor, *other));
        }
        row
    };
    for row in known {
        let row = reduce(&basis, row.clone());
        if let Some(pivot) = row.iter().position(|&value| value != 0) {
            let scale = inverse(row[pivot]);
            basis.push((pivot, row.iter().map(|&value| multiply(value, scale)).collect()));
        }
    }
    wanted.iter().all(|row| reduce(&basis, row.clone()).iter().all(|&value| value == 0))
}

/// One case of the search: members as bits, data from 0 on, then P, then Q.
struct Case {
    data: usize,
    parity: usize,
    lost: u32,
    written: u32,
    stale: bool,
}

impl Case {
    /// What a block is in terms of the old data; parity that may be wrong says nothing.
    fn row(&self, member: usize) -> Option<Vec<u8>> {
        let power = |exponent: usize| (0..exponent).fold(1, |power, _| multiply(power, 2));
        match member.checked_sub(self.data) {
            None => Some((0..self.data).map(|index| u8::from(index == member)).collect()),
            Some(_) if self.stale => None,
            Some(0) => Some(vec![1; self.data]),
            Some(_) => Some((0..self.data).map(power).collect()),
        }
    }

    /// What of the old data every parity block that can be written needs: its share of what is not replaced.
    fn needs(&self) -> Vec<Vec<u8>> {
        let healthy = Case { stale: false, ..*self };
        let parity = (self.data..self.data + self.parity).filter(|member| self.lost >> member & 1 == 0);
        let kept = |(index, value): (usize, u8)| if self.written >> index & 1 == 0 { value } else { 0 };
        parity.filter_map(|member| healthy.row(member)).map(|row| row.into_iter().enumerate().map(kept).collect()).collect()
    }

    /// The fewest reads with which all parity that can be written can be computed, found by trying every set of members. Where
    /// parity that may be stale is all there is of a lost block, what it says counts, as for a read, and holds for all parity written.
    fn fewest_reads(&self) -> Option<u32> {
        let unit = |index| (0..self.data).map(|other| u8::from(other == index)).collect();
        let kept = (0..self.data).filter(|index| self.written >> index & 1 == 0);
        self.fewest_for(&self.needs()).or_else(|| Case { stale: false, ..*self }.fewest_for(&kept.map(unit).collect::<Vec<_>>()))
    }

    fn fewest_for(&self, needs: &[Vec<u8>]) -> Option<u32> {
        let members = self.data + self.parity;
        let sets = (0..1_u32 << members).filter(|set| set & self.lost == 0);
        let enough = sets.filter(|set| {
            let read: Option<Vec<_>> =
                (0..members).filter(|member| set >> member & 1 != 0).map(|member| self.row(member)).collect();
            read.is_some_and(|read| follows(&read, needs))
        });
        enough.map(u32::count_ones).min()
    }

    fn plan(&self, preference: Preference) -> Option<Plan> {
        let block = |member: usize| if self.lost >> member & 1 == 0 { GOOD } else { GONE };
        let data: Vec<Block> = (0..self.data).map(block).collect();
        let written: Vec<bool> = (0..self.data).map(|index| self.written >> index & 1 != 0).collect();
        let synced_to = self.stale.then_some(Sector(0));
        let trust = ParityTrust::of(synced_to, Sector(8), false);
        let q = (self.parity == 2).then(|| block(self.data + 1));
        plan(&Rows { data: &data, p: block(self.data), q, written: &written, trust }, preference)
    }

    fn all(parity: usize) -> impl Iterator<Item = Case> {
        let sizes = (parity + 2..=8).map(move |members| members - parity);
        sizes.flat_map(move |data| {
            let losses = (0..1_u32 << (data + parity)).filter(move |lost| lost.count_ones() as usize <= parity);
            let writes = move |lost| (1..1_u32 << data).map(move |written| (lost, written));
            let cases = losses.flat_map(writes).flat_map(|(lost, written)| [(lost, written, false), (lost, written, true)]);
            cases.map(move |(lost, written, stale)| Case { data, parity, lost, written, stale })
        })
    }
}

/// Every write to every stripe of up to eight members, with as many members gone as the level bears, parity in sync or not.
#[test]
fn no_plan_reads_more_than_an_exhaustive_search_needs() {
    let mut tried = 0;
    for case in Case::all(1).chain(Case::all(2)) {
        let what = format!(
            "{} data, {} parity, lost {:b}, written {:b}, stale {}",
            case.data, case.parity, case.lost, case.written, case.stale
        );
        let planned = case.plan(Preference::default()).map(|plan| plan.reads() as u32);
        assert_eq!(planned, case.fewest_reads(), "{what}");
        tried += 1;
    }
    assert_eq!(tried, 11_412);
}

#[test]
fn the_policy_is_that_of_rmw_level() {
    let methods = |data: usize, written: u32| {
        [RmwPolicy::Never, RmwPolicy::Auto, RmwPolicy::Prefer].map(|rmw| {
            let case = Case { data, parity: 1, lost: 0, written, stale: false };
            let plan = case.plan(Preference { rmw, ..Preference::default() }).unwrap();
            matches!(plan.method, Method::ReadModifyWrite(_))
        })
    };
    assert_eq!(methods(5, 1), [false, true, true], "fewer I/Os");
    assert_eq!(methods(3, 1), [false, false, true], "as many");
    assert_eq!(methods(3, 0b11), [false, false, false], "more");
}

#[test]
fn a_write_back_that_waits_for_the_disk_to_turn_tips_the_scales() {
    let method = |rewrite: u32| {
        let case = Case { data: 8, parity: 2, lost: 0, written: 0b11, stale: false };
        let costs = IoCosts { read: 4, write: 4, rewrite };
        case.plan(Preference { costs, ..Preference::default() }).unwrap().method
    };
    // 4 reads and 4 write-backs against 6 reads and 4 writes.
    assert!(matches!(method(5), Method::ReadModifyWrite(_)));
    assert_eq!(method(7), Method::Reconstruct);
}
