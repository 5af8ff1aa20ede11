//! A member that fails on demand.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Device, DeviceError, DeviceInfo, Identity, Operation};

/// One way to fail: which operations, where, when, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    operations: Vec<Operation>,
    /// Bytes of the member; what touches any of them fails. Flushes touch none and all.
    ranges: Vec<Range<u64>>,
    let_through: u64,
    times: u64,
    errno: i32,
    healed_by_writing: bool,
}

impl Fault {
    /// Every one of `operations` fails with `errno`, everywhere and for ever.
    #[must_use]
    pub fn new(operations: &[Operation], errno: i32) -> Fault {
        let everywhere = 0..u64::MAX;
        Fault {
            operations: operations.to_vec(),
            ranges: vec![everywhere],
            let_through: 0,
            times: u64::MAX,
            errno,
            healed_by_writing: false,
        }
    }

    /// The member is dead: everything fails with EIO.
    #[must_use]
    pub fn dead() -> Fault {
        Fault::new(&[Operation::Read, Operation::Write, Operation::Flush, Operation::Zero], libc::EIO)
    }

    /// Bad sectors: reads that touch `range` (in bytes) fail with EIO, until the sectors are written again.
    #[must_use]
    pub fn bad_sectors(range: Range<u64>) -> Fault {
        Fault::new(&[Operation::Read], libc::EIO).within(range).healed_by_writing()
    }

    /// Only what touches `range`, in bytes of the member. Flushes are not limited by it.
    #[must_use]
    pub fn within(self, range: Range<u64>) -> Fault {
        Fault { ranges: vec![range], ..self }
    }

    /// Lets the first `operations` that it could fail through.
    #[must_use]
    pub fn after(self, operations: u64) -> Fault {
        Fault { let_through: operations, ..self }
    }

    /// Fails no more than `times`.
    #[must_use]
    pub fn times(self, times: u64) -> Fault {
        Fault { times, ..self }
    }

    /// What is written or zeroed fails no more.
    #[must_use]
    pub fn healed_by_writing(self) -> Fault {
        Fault { healed_by_writing: true, ..self }
    }

    fn touches(&self, operation: Operation, bytes: &Range<u64>) -> bool {
        let somewhere = || self.ranges.iter().any(|range| range.start < bytes.end && bytes.start < range.end);
        self.operations.contains(&operation) && (operation == Operation::Flush || somewhere())
    }

    /// Whether it fails this operation; uses up one of those to let through or one of its times.
    fn strikes(&mut self, operation: Operation, bytes: &Range<u64>) -> bool {
        if !self.touches(operation, bytes) || self.times == 0 {
            return false;
        }
        if self.let_through > 0 {
            self.let_through -= 1;
            return false;
        }
        if self.times != u64::MAX {
            self.times -= 1;
        }
        true
    }

    fn heal(&mut self, bytes: &Range<u64>) {
        let rest = |range: &Range<u64>| {
            let before = range.start..range.end.min(bytes.start);
            let behind = range.start.max(bytes.end)..range.end;
            [before, behind].into_iter().filter(|rest| rest.start < rest.end)
        };
        self.ranges = self.ranges.iter().flat_map(rest).collect();
    }
}

#[derive(Default)]
struct Plan {
    faults: Vec<Fault>,
    struck: u64,
}

/// Sets and lifts the faults of a [`Faulty`] member while it runs; clones control the same one.
#[derive(Clone, Default)]
pub struct FaultControl(Arc<Mutex<Plan>>);

impl FaultControl {
    /// Adds a fault. Of several that match, the one added first strikes.
    pub fn add(&self, fault: Fault) {
        self.plan().faults.push(fault);
    }

    /// Lifts all faults.
    pub fn clear(&self) {
        self.plan().faults.clear();
    }

    /// Operations failed so far.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.plan().struck
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strike(&self, operation: Operation, bytes: &Range<u64>) -> Option<i32> {
        let mut plan = self.plan();
        let errno = plan.faults.iter_mut().find_map(|fault| fault.strikes(operation, bytes).then_some(fault.errno))?;
        plan.struck += 1;
        Some(errno)
    }

    fn heal(&self, bytes: &Range<u64>) {
        let mut plan = self.plan();
        plan.faults.iter_mut().filter(|fault| fault.healed_by_writing).for_each(|fault| fault.heal(bytes));
        plan.faults.retain(|fault| !fault.ranges.is_empty());
    }
}

/// Fails operations on the member below as its [`FaultControl`] says. A failed operation does not reach the member.
pub struct Faulty {
    below: Arc<dyn Device>,
    control: FaultControl,
}

impl Faulty {
    /// Over `below`, without a fault yet.
    #[must_use]
    pub fn new(below: Arc<dyn Device>) -> Faulty {
        Faulty { below, control: FaultControl::default() }
    }

    /// What sets and lifts faults from anywhere.
    #[must_use]
    pub fn control(&self) -> FaultControl {
        self.control.clone()
    }

    fn pass(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        match self.control.strike(operation, &range(offset_bytes, len_bytes)) {
            None => Ok(()),
            Some(errno) => {
                let source = io::Error::from_raw_os_error(errno);
                Err(DeviceError::at(&self.info().name, operation, offset_bytes, len_bytes, source))
            }
        }
    }
}

fn range(offset_bytes: u64, len_bytes: u64) -> Range<u64> {
    offset_bytes..offset_bytes.saturating_add(len_bytes)
}

/// Has no descriptor, so that a queue makes its calls here.
impl Device for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.below.info()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.pass(Operation::Read, offset_bytes, into.len() as u64)?;
        self.below.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.pass(Operation::Write, offset_bytes, from.len() as u64)?;
        self.below.write_at(offset_bytes, from)?;
        self.control.heal(&range(offset_bytes, from.len() as u64));
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.pass(Operation::Flush, 0, 0)?;
        self.below.flush()
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        self.pass(Operation::Zero, offset_bytes, len_bytes)?;
        self.below.zero(offset_bytes, len_bytes, hole)?;
        self.control.heal(&range(offset_bytes, len_bytes));
        Ok(())
    }

    fn in_memory(&self) -> bool {
        self.below.in_memory()
    }

    fn identity(&self) -> Option<Identity> {
        self.below.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    fn member() -> (Faulty, FaultControl) {
        let faulty = Faulty::new(Arc::new(MemoryDevice::new("m", 64 << 10, 512)));
        let control = faulty.control();
        (faulty, control)
    }

    fn errno(result: Result<(), DeviceError>) -> Option<i32> {
        result.err().and_then(|error| error.source.raw_os_error())
    }

    #[test]
    fn a_range_fails_whatever_touches_it() {
        let (member, control) = member();
        control.add(Fault::new(&[Operation::Read], libc::EIO).within(1024..1536));
        control.add(Fault::new(&[Operation::Write], libc::ENOSPC).within(4096..8192));
        assert_eq!(errno(member.read_at(0, &mut [0; 1024])), None);
        assert_eq!(errno(member.read_at(0, &mut [0; 1536])), Some(libc::EIO));
        assert_eq!(errno(member.read_at(1536, &mut [0; 512])), None);
        assert_eq!(errno(member.write_at(1024, &[0; 512])), None);
        assert_eq!(errno(member.read_at(1024, &mut [0; 512])), Some(libc::EIO), "no bad sector: writing does not heal it");
        let full = member.write_at(3584, &[0; 1024]).unwrap_err();
        assert_eq!((full.source.kind(), full.name.as_str()), (io::ErrorKind::StorageFull, "m"));
        assert_eq!(errno(member.zero(4096, 512, true)), None);
        assert_eq!(control.struck(), 3);
    }

    #[test]
    fn a_bad_sector_is_repaired_by_writing_it() {
        let (member, control) = member();
        control.add(Fault::bad_sectors(1024..3072));
        member.write_at(1536, &[1; 512]).unwrap();
        assert_eq!(errno(member.read_at(1024, &mut [0; 512])), Some(libc::EIO));
        assert_eq!(errno(member.read_at(1536, &mut [0; 512])), None);
        assert_eq!(errno(member.read_at(2048, &mut [0; 512])), Some(libc::EIO));
        member.write_at(0, &[1; 1536]).unwrap();
        member.zero(2048, 2048, false).unwrap();
        assert_eq!(errno(member.read_at(0, &mut [0; 8192])), None);
    }

    #[test]
    fn a_failed_write_neither_reaches_the_member_nor_heals() {
        let (member, control) = member();
        control.add(Fault::bad_sectors(0..512));
        control.add(Fault::new(&[Operation::Write], libc::EIO).times(1));
        assert_eq!(errno(member.write_at(0, &[9; 512])), Some(libc::EIO));
        assert_eq!(errno(member.read_at(0, &mut [0; 512])), Some(libc::EIO));
        control.clear();
        let mut back = [1; 512];
        member.read_at(0, &mut back).unwrap();
        assert_eq!(back, [0; 512]);
    }

    #[test]
    fn faults_start_late_and_end() {
        let (member, control) = member();
        control.add(Fault::new(&[Operation::Flush], libc::EIO).after(2).times(1));
        let results: Vec<_> = (0..4).map(|_| errno(member.flush())).collect();
        assert_eq!(results, [None, None, Some(libc::EIO), None]);
        control.add(Fault::dead());
        assert_eq!(errno(member.read_at(0, &mut [0; 512])), Some(libc::EIO));
        assert_eq!(errno(member.write_at(0, &[0; 512])), Some(libc::EIO));
        assert_eq!(errno(member.zero(0, 512, true)), Some(libc::EIO));
        assert_eq!(errno(member.flush()), Some(libc::EIO));
        control.clear();
        assert_eq!(errno(member.flush()), None);
    }
}
