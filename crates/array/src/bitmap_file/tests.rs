//! Arrays whose bitmap is in a file: what is written in which order, and what becomes of a file that fails.

use std::sync::{Mutex, PoisonError};

use uraid_device::{DeviceInfo, Fault, Faulty, MemoryDevice, Operation, Pool};
use uraid_format::{BitmapVersion, Feature, Superblock};
use uraid_types::{Level, SectorCount};
use uuid::Uuid;

use super::*;
use crate::choose::AssembleProblem;
use crate::testing::{array, candidates, edit};
use crate::{Array, AssembleOptions, Assembly, RunOptions, assemble, scan, survey};

/// Bytes for each bit.
const CHUNK: u32 = 64 << 10;

/// What was done to which device, in order: at which byte.
type Log = Arc<Mutex<Vec<(String, Operation, u64)>>>;

/// Notes what changes the device below, once it is done.
struct Noted {
    below: Arc<dyn Device>,
    log: Log,
}

impl Noted {
    fn note(&self, operation: Operation, offset_bytes: u64) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push((self.below.info().name.clone(), operation, offset_bytes));
    }
}

impl Device for Noted {
    fn info(&self) -> &DeviceInfo {
        self.below.info()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.below.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.below.write_at(offset_bytes, from)?;
        self.note(Operation::Write, offset_bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.below.flush()?;
        self.note(Operation::Flush, 0);
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        self.below.zero(offset_bytes, len_bytes, hole)
    }
}

/// A mirror without a bitmap of its own, and the superblock of one of its members.
fn mirror() -> (Vec<Arc<dyn Device>>, Superblock) {
    let devices = array(Level::Raid1, 2, 0);
    devices.iter().for_each(|device| edit(device, |superblock| superblock.bitmap_offset = None));
    let superblock = scan(Arc::clone(&devices[0])).unwrap().superblock().clone();
    (devices, superblock)
}

/// The bitmap of the array of `superblock`, all clean and current, on 4 KiB of memory.
fn clean_file(superblock: &Superblock) -> (Arc<dyn Device>, FoundBitmap) {
    let mut head = BitmapSuper::new(superblock.bitmap_id(), superblock.used_size, CHUNK);
    head.events = superblock.events;
    let bits = Bitmap::new_clean(head.bits());
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("file", 4096, 512));
    let mut bytes = head.to_bytes().to_vec();
    bytes.extend(bits.bytes(0..4096 - bytes.len()));
    device.write_at(0, &Pool::new(0).copy(&bytes)).unwrap();
    (device, FoundBitmap { superblock: head, bits })
}

fn with_file(file: &BitmapFile) -> AssembleOptions {
    AssembleOptions { bitmap_file: Some(file.clone()), ..AssembleOptions::default() }
}

fn start(devices: &[Arc<dyn Device>], file: &BitmapFile) -> Assembly {
    assemble(candidates(devices), &with_file(file), None).unwrap_or_else(|error| panic!("{error}"))
}

fn write(array: &Array, region: u64) {
    let data = array.pool().zeroed(4096).share();
    array.write(region * u64::from(CHUNK), data, false).unwrap();
}

#[test]
fn the_bit_is_durable_before_the_data() {
    let (devices, superblock) = mirror();
    let log = Log::default();
    let noted =
        |below: &Arc<dyn Device>| -> Arc<dyn Device> { Arc::new(Noted { below: Arc::clone(below), log: Arc::clone(&log) }) };
    let (memory, found) = clean_file(&superblock);
    let file = BitmapFile { device: noted(&memory), found };
    let members: Vec<Arc<dyn Device>> = devices.iter().map(noted).collect();
    let array = Array::start(start(&members, &file), &RunOptions::default());
    let data = superblock.data_offset.byte_offset();
    for region in [3, 40] {
        log.lock().unwrap().clear();
        write(&array, region);
        let log = log.lock().unwrap().clone();
        let first = |name: &str, operation: Operation, at: &dyn Fn(u64) -> bool| {
            log.iter().position(|(own, done, byte)| own == name && *done == operation && at(*byte)).expect("it was done")
        };
        let last_of_file = log.iter().rposition(|(name, ..)| name == "file").unwrap();
        let bits = first("file", Operation::Write, &|_| true);
        let written = ["a", "b"].map(|name| first(name, Operation::Write, &|byte| byte >= data));
        assert!(bits < last_of_file && log[last_of_file].1 == Operation::Flush, "{log:?}");
        assert!(written.iter().all(|written| last_of_file < *written), "{log:?}");
        let seen = look_at_bitmap(&*memory, Sector(0), 4096).unwrap().bits.unwrap();
        assert!(seen.get(region), "{seen:?}");
    }
    array.stop();
    let seen = look_at_bitmap(&*memory, Sector(0), 4096).unwrap();
    let (head, bits) = (seen.superblock.unwrap(), seen.bits.unwrap());
    let after = scan(Arc::clone(&devices[1])).unwrap().superblock().clone();
    assert_eq!((bits.count(), head.events, after.bitmap_offset), (0, after.events, None));
    assert!(head.events_cleared > superblock.events && head.events_cleared <= head.events, "{head:?}");
}

/// md takes a bitmap for current whose events are not behind the members'. Such a one has the bits of all that was written.
#[test]
fn a_file_that_fails_is_left_behind_before_anything_is_written_without_it() {
    for (operation, after) in (0..7).flat_map(|after| [(Operation::Write, after), (Operation::Flush, after)]) {
        let (devices, superblock) = mirror();
        let (memory, found) = clean_file(&superblock);
        let faulty = Faulty::new(Arc::clone(&memory));
        let control = faulty.control();
        control.add(Fault::new(&[operation], 5).after(after));
        let file = BitmapFile { device: Arc::new(faulty), found };
        let array = Array::start(start(&devices, &file), &RunOptions::default());
        let mut behind = false;
        for region in [1, 20, 33, 20, 40] {
            write(&array, region);
            let seen = look_at_bitmap(&*memory, Sector(0), 4096).unwrap();
            let events = devices.iter().map(|device| scan(Arc::clone(device)).unwrap().superblock().events);
            behind = seen.superblock.unwrap().events < events.max().unwrap();
            assert!(behind || seen.bits.unwrap().get(region), "{operation:?} after {after}: region {region}");
        }
        let status = array.status().unwrap();
        assert_eq!((status.degraded, status.bitmap.is_none()), (0, control.struck() > 0), "{operation:?} after {after}");
        assert_eq!(behind, control.struck() > 0, "{operation:?} after {after}");
        array.stop();
        let found = candidates(&devices);
        assert!(found.iter().all(|member| member.superblock().resync_offset.is_none()), "stopped cleanly");
    }
}

#[test]
fn a_file_has_to_be_the_arrays() {
    let (devices, superblock) = mirror();
    let (device, found) = clean_file(&superblock);
    let good = BitmapFile { device, found };
    assert!(start(&devices, &good).bitmap.is_some_and(|bitmap| bitmap.current && bitmap.set.is_empty()));
    let survey = survey(&candidates(&devices), &with_file(&good), None);
    assert_eq!(survey[0].bitmap_bits.map(|(set, _)| set), Some(0));
    let problem = |devices: &[Arc<dyn Device>], file: &BitmapFile| {
        let error = assemble(candidates(devices), &with_file(file), None).map(|_| ()).unwrap_err();
        assert!(matches!(error.problem, AssembleProblem::BitmapFile { .. }), "{error}");
        error.to_string()
    };
    let changed = |change: &dyn Fn(&mut FoundBitmap)| {
        let mut file = good.clone();
        change(&mut file.found);
        problem(&devices, &file)
    };
    assert!(changed(&|found| found.superblock.id = Uuid::nil()).contains("belongs to array"));
    assert!(changed(&|found| found.superblock.version = BitmapVersion::Lockless).contains("version 6 at byte 4"));
    assert!(changed(&|found| found.superblock.sync_size = SectorCount(8)).contains("sync_size at byte 40 is 8"));
    assert!(changed(&|found| found.bits = Bitmap::new_clean(5)).contains("it has 5 bits"));
    assert!(problem(&array(Level::Raid0, 2, 0), &good).contains("leave --bitmap out"));
    assert!(problem(&array(Level::Raid1, 2, 0), &good).contains("a bitmap on its members"));
    // Behind the members: it has missed writes.
    let mut old = good.clone();
    old.found.superblock.events = 0;
    let stale = start(&devices, &old).bitmap.unwrap();
    assert!(!stale.current && stale.set.len() as u64 == stale.bits);
    // In the place of the members' own.
    let devices = array(Level::Raid1, 2, 0);
    let superblock = scan(Arc::clone(&devices[0])).unwrap().superblock().clone();
    let (device, found) = clean_file(&superblock);
    let instead = AssembleOptions { drop_bitmap: true, ..with_file(&BitmapFile { device, found }) };
    assert!(assemble(candidates(&devices), &instead, None).unwrap().bitmap.is_some_and(|bitmap| bitmap.current));
    assert!(candidates(&devices).iter().all(|member| !member.superblock().has(Feature::Bitmap)));
}

#[test]
fn a_dropped_bitmap_is_gone_from_every_member_and_what_it_knew_is_resynced() {
    let plain = AssembleOptions { drop_bitmap: true, ..AssembleOptions::default() };
    for (version, resync_from) in [(4_u8, None), (5, Some(Sector(0))), (6, Some(Sector(0))), (9, Some(Sector(0)))] {
        let devices = array(Level::Raid5, 3, 1);
        for device in &devices {
            let start = scan(Arc::clone(device)).unwrap().superblock().bitmap_start().unwrap().byte_offset();
            let mut block = Pool::new(0).take(512);
            device.read_at(start, &mut block).unwrap();
            block[4] = version;
            device.write_at(start, &block).unwrap();
        }
        let refused = assemble(candidates(&devices), &AssembleOptions::default(), None).unwrap().read_only_because;
        assert_eq!(refused.is_some_and(|why| why.contains("--update=no-bitmap")), version != 4, "{version}");
        let looked = assemble(candidates(&devices), &AssembleOptions { read_only: true, ..plain.clone() }, None).unwrap();
        assert!(looked.superblocks_due && candidates(&devices)[0].superblock().has(Feature::Bitmap), "nothing was written");
        let assembly = assemble(candidates(&devices), &plain, None).unwrap();
        assert_eq!((assembly.resync_from, &assembly.read_only_because), (resync_from, &None), "{version}");
        for member in candidates(&devices) {
            let superblock = member.superblock();
            assert_eq!((superblock.bitmap_offset, superblock.has(Feature::Bitmap)), (None, false), "{}", member.name());
            assert_eq!(superblock.resync_offset, resync_from, "{}", member.name());
        }
    }
    // A cluster's array is looked at only.
    let devices = array(Level::Raid1, 2, 0);
    devices.iter().for_each(|device| edit(device, |superblock| superblock.set_feature(Feature::Clustered, true)));
    let because = assemble(candidates(&devices), &AssembleOptions::default(), None).unwrap().read_only_because.unwrap();
    assert!(because.contains("cluster"), "{because}");
    let assembly = assemble(candidates(&devices), &plain, None).unwrap();
    assert_eq!((assembly.resync_from, assembly.read_only_because), (Some(Sector(0)), None));
    assert!(!candidates(&devices)[0].superblock().has(Feature::Clustered));
}
