//! `kill -9` of a serving process under load: nothing that was flushed is lost, and a resync leaves no mismatch.
//!
//! `URAID_KILL_ROUNDS` says how often it is killed; a few times unless set.

use std::collections::HashMap;
use std::time::Duration;

use crate::lab::{Lab, eventually};
use crate::nbd::Nbd;
use crate::superblock::{self, RESYNC_OFFSET};

const BLOCK: usize = 4096;
/// Requests in flight.
const DEPTH: usize = 24;
/// Writes between flushes.
const FLUSH_EVERY: u64 = 40;
/// The longest write, in blocks.
const MAX_BLOCKS: u64 = 40;

/// Small and repeatable; xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a block may hold: a version is the number of the write that made it.
#[derive(Clone, Default)]
struct Block {
    /// Certain since the last flush.
    flushed: u64,
    /// Written since, in order; the first of them are acknowledged.
    since: Vec<u64>,
}

/// All of the array, as its user knows it.
struct Model {
    blocks: Vec<Block>,
    next_version: u64,
}

/// A request in flight.
enum Flight {
    Write {
        first: u64,
        count: u64,
        version: u64,
    },
    /// With the newest version of each block that was acknowledged when it was sent.
    Flush {
        covered: Vec<(u64, u64)>,
    },
}

fn contents(block: u64, version: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    if version > 0 {
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            let mixed = (block << 32 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(index as u32 % 64);
            word.copy_from_slice(&(mixed ^ index as u64).to_le_bytes());
        }
    }
    bytes
}

/// Writes at random places, with flushes now and then, until the server is gone. Blocks are written by one request at a time,
/// for of two at once nobody knows which comes last.
fn load(socket: &std::path::Path, model: &mut Model, random: &mut Random) {
    let mut nbd = Nbd::connect(socket).unwrap();
    let mut flights: HashMap<u64, Flight> = HashMap::new();
    let mut busy = vec![false; model.blocks.len()];
    let mut acknowledged: HashMap<u64, u64> = HashMap::new();
    let mut cookie = 0;
    loop {
        while flights.len() < DEPTH {
            cookie += 1;
            let (sent, flight) = if cookie % FLUSH_EVERY == 0 {
                (nbd.send_flush(cookie), Flight::Flush { covered: acknowledged.drain().collect() })
            } else {
                let count = 1 + random.below(MAX_BLOCKS);
                let first = random.below(model.blocks.len() as u64 - count);
                let range = first as usize..(first + count) as usize;
                if busy[range.clone()].contains(&true) {
                    break;
                }
                busy[range].fill(true);
                model.next_version += 1;
                let version = model.next_version;
                let data: Vec<u8> = (first..first + count).flat_map(|block| contents(block, version)).collect();
                // Noted before it is sent: it may arrive although sending it fails.
                (first..first + count).for_each(|block| model.blocks[block as usize].since.push(version));
                (nbd.send_write(cookie, first * BLOCK as u64, &data), Flight::Write { first, count, version })
            };
            flights.insert(cookie, flight);
            if sent.is_err() {
                return;
            }
        }
        let Ok(cookie) = nbd.reply() else { return };
        match flights.remove(&cookie).unwrap() {
            Flight::Write { first, count, version } => {
                busy[first as usize..(first + count) as usize].fill(false);
                acknowledged.extend((first..first + count).map(|block| (block, version)));
            }
            Flight::Flush { covered } => {
                for (block, version) in covered {
                    let block = &mut model.blocks[block as usize];
                    // Flushes are answered in any order.
                    block.flushed = block.flushed.max(version);
                    block.since.retain(|&later| later > block.flushed);
                }
            }
        }
    }
}

/// Compares the whole array with what it may hold, and takes what is found for certain from now on.
fn compare(socket: &std::path::Path, model: &mut Model, what: &str) {
    let mut nbd = Nbd::connect(socket).unwrap();
    let mut bytes = vec![0; 256 * BLOCK];
    for (chunk, blocks) in model.blocks.chunks_mut(256).enumerate() {
        let bytes = &mut bytes[..blocks.len() * BLOCK];
        nbd.read((chunk * 256 * BLOCK) as u64, bytes).unwrap();
        for (index, block) in blocks.iter_mut().enumerate() {
            let number = (chunk * 256 + index) as u64;
            let found = &bytes[index * BLOCK..][..BLOCK];
            let may_hold: Vec<u64> = [block.flushed].into_iter().chain(block.since.drain(..)).collect();
            let version = may_hold.iter().find(|&&version| contents(number, version) == found);
            let Some(&version) = version else { panic!("{what}: block {number} holds none of {may_hold:?}") };
            block.flushed = version;
        }
    }
}

fn rounds() -> u64 {
    std::env::var("URAID_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Kills, assembles, compares and checks one array after another.
fn kill_rounds(rounds: u64, members: usize, options: &[&str], seed: u64) {
    let lab = Lab::new();
    let members = lab.array(members, 12 << 20, options);
    let mut random = Random(seed);
    let mut model = Model { blocks: Vec::new(), next_version: 0 };
    let mut served = lab.assemble(&members, &["--nbd=unix:nbd"]);
    lab.wait_idle("md0");
    let mut dirty = 0;
    for round in 0..rounds {
        let size = served.report["array"]["size_bytes"].as_u64().unwrap();
        // Less than all of it, so that blocks are written again and again.
        model.blocks.resize((size / 2) as usize / BLOCK, Block::default());
        let after = Duration::from_millis(20 + random.below(600));
        let pid = served.pid();
        let (socket, model_ref, random_ref) = (lab.path("nbd"), &mut model, &mut random);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || load(&socket, model_ref, random_ref));
            std::thread::sleep(after);
            served.kill();
            writer.join().unwrap();
        });
        let what = format!("{options:?}, seed {seed}, round {round} (process {pid} killed after {after:?})");
        // All ones in a clean array, elsewhere the place from which a resync is due.
        dirty += usize::from(superblock::get_u64(&lab.path("d0"), RESYNC_OFFSET) != u64::MAX);
        served = lab.assemble(&members, &["--nbd=unix:nbd"]);
        compare(&lab.path("nbd"), &mut model, &what);
        assert_eq!(lab.check("md0"), 0, "{what}");
        compare(&lab.path("nbd"), &mut model, &format!("{what}, after the resync"));
    }
    assert!(rounds == 0 || dirty > 0, "it was never killed in mid-write");
    assert_eq!(served.stop().0, 0);
}

#[test]
fn kill_9_loses_nothing_flushed_at_parity_levels() {
    let rounds = rounds();
    kill_rounds(rounds.div_ceil(4), 6, &["--level=6", "--chunk=64K"], 11);
    kill_rounds(rounds.div_ceil(4), 4, &["--level=5", "--chunk=16K", "--bitmap=internal", "--bitmap-chunk=64K"], 12);
}

#[test]
fn kill_9_loses_nothing_flushed_at_levels_with_copies() {
    let rounds = rounds();
    kill_rounds(rounds.div_ceil(4), 4, &["--level=10", "--chunk=64K", "--bitmap=internal"], 13);
    kill_rounds(rounds.div_ceil(4), 3, &["--level=1"], 14);
}

#[test]
fn a_signal_under_load_ends_it_cleanly() {
    let lab = Lab::new();
    let members = lab.array(4, 12 << 20, &["--level=6", "--chunk=64K", "--assume-clean"]);
    let mut server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let size = server.report["array"]["size_bytes"].as_u64().unwrap();
    let mut model = Model { blocks: vec![Block::default(); size as usize / BLOCK], next_version: 0 };
    std::thread::scope(|scope| {
        let (socket, model) = (lab.path("nbd"), &mut model);
        let writer = scope.spawn(move || load(&socket, model, &mut Random(15)));
        eventually("a write has marked the array", || superblock::get_u64(&lab.path("d0"), RESYNC_OFFSET) != u64::MAX);
        server.signal("-TERM");
        assert_eq!(server.wait().0, 0);
        writer.join().unwrap();
    });
    for member in &members {
        assert_eq!(superblock::get_u64(&lab.path(member), RESYNC_OFFSET), u64::MAX, "{member} is clean");
    }
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    assert_eq!(server.report["array"]["resync_pending"], false);
    compare(&lab.path("nbd"), &mut model, "after a signal");
    assert_eq!(lab.check("md0"), 0);
    assert_eq!(server.stop().0, 0);
}

#[test]
#[should_panic(expected = "block 3 holds none of [7]")]
fn a_block_that_was_lost_is_noticed() {
    let lab = Lab::new();
    let members = lab.array(2, 12 << 20, &["--level=1", "--assume-clean"]);
    let _served = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let mut model = Model { blocks: vec![Block::default(); 8], next_version: 7 };
    model.blocks[3].flushed = 7;
    compare(&lab.path("nbd"), &mut model, "a canary");
}
