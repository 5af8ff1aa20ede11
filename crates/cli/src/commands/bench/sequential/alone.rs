//! The members without an array: each read or written from its data's start to its end, all at once, through the same queue.

use std::path::PathBuf;
use std::sync::Arc;

use uraid_array::{open_member, scan};
use uraid_device::{Device, Io, IoOp, OpenOptions, Pool, QueueOptions, Shared, queue};

use crate::commands::quickstart::pattern::Pattern;
use crate::signals::Stop;

/// Bytes of one operation, and operations in flight on each member: as much as an array asks of its members at once.
const PIECE_BYTES: u64 = 512 << 10;
const DEPTH: usize = 4;

/// The members' data areas, all of one length.
pub struct Members {
    paths: Vec<PathBuf>,
    starts: Vec<u64>,
    len_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Members {
    /// Of the array that was made on `paths`.
    ///
    /// # Errors
    /// They are no members.
    pub fn of(paths: &[PathBuf]) -> anyhow::Result<Members> {
        let mut starts = Vec::new();
        let mut len_bytes = u64::MAX;
        for path in paths {
            let found = scan(open_member(path, OpenOptions::look())?).map_err(|refused| anyhow::anyhow!("{refused}"))?;
            let superblock = found.superblock();
            let used = if superblock.used_size.is_zero() { superblock.data_size } else { superblock.used_size };
            starts.push(superblock.data_offset.byte_offset());
            len_bytes = len_bytes.min(used.bytes() / PIECE_BYTES * PIECE_BYTES);
        }
        anyhow::ensure!(len_bytes > 0, "the members hold less than {PIECE_BYTES} bytes; choose a larger --member-size");
        Ok(Members { paths: paths.to_vec(), starts, len_bytes })
    }

    /// Bytes that are read or written, all members together.
    pub fn bytes(&self) -> u64 {
        self.len_bytes * self.paths.len() as u64
    }

    /// Reads all of them.
    ///
    /// # Errors
    /// Of a member, or the command was to end.
    pub fn read(&self, stop: &Stop) -> anyhow::Result<()> {
        self.pass(Direction::Read, stop)
    }

    /// Writes all of them, and makes it durable.
    ///
    /// # Errors
    /// As [`Members::read`].
    pub fn write(&self, stop: &Stop) -> anyhow::Result<()> {
        self.pass(Direction::Write, stop)
    }

    fn pass(&self, direction: Direction, stop: &Stop) -> anyhow::Result<()> {
        let open = if direction == Direction::Write { OpenOptions::own() } else { OpenOptions::look() };
        let mut members = queue(&QueueOptions::default());
        let devices = self.paths.iter().map(|path| open_member(path, open)).collect::<Result<Vec<Arc<dyn Device>>, _>>()?;
        let keys: Vec<usize> = devices.iter().map(|device| members.add(Arc::clone(device))).collect();
        // What is read goes to the same few buffers, and what is written comes from one: the caches treat an array no worse.
        let pool = Pool::new(DEPTH * keys.len() * PIECE_BYTES as usize);
        let mut bytes = pool.take(PIECE_BYTES as usize);
        Pattern::new(2).fill(0, &mut bytes);
        let bytes: Shared = bytes.share();
        let op = |index: usize, at_bytes: u64| {
            let offset_bytes = self.starts[index] + at_bytes;
            match direction {
                Direction::Read => IoOp::Read { offset_bytes, into: pool.take(PIECE_BYTES as usize) },
                Direction::Write => IoOp::Write { offset_bytes, from: vec![bytes.clone()] },
            }
        };
        let mut next = vec![0; keys.len()];
        let mut send = |members: &mut Box<dyn uraid_device::Queue>, index: usize| {
            if next[index] < self.len_bytes {
                members.submit(Io { token: index as u64, member: keys[index], op: op(index, next[index]) });
                next[index] += PIECE_BYTES;
            }
        };
        for _ in 0..DEPTH {
            (0..keys.len()).for_each(|index| send(&mut members, index));
        }
        let mut done = Vec::new();
        while members.in_flight() > 0 {
            stop.check()?;
            members.wait(None, &mut done);
            for completion in done.drain(..) {
                completion.result?;
                // The token is a member's index.
                send(&mut members, completion.token as usize);
            }
        }
        if direction == Direction::Write {
            devices.iter().try_for_each(|device| device.flush())?;
        }
        Ok(())
    }
}
