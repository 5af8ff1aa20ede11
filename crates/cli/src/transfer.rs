//! Long reads and writes of an array: several pieces in flight, in order, in bounded memory.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};

use uraid_array::Array;
use uraid_device::Shared;
use uraid_engine::{Outcome, Request, RequestError};
use uraid_types::{Sector, SectorCount};

/// Bytes of a piece, where stripes do not say otherwise.
const PIECE_BYTES: u64 = 1 << 20;
/// A stripe up to this length is one piece: written whole it needs no old data, read whole it is rebuilt once.
const LARGEST_PIECE_BYTES: u64 = 8 << 20;
/// Pieces in flight.
const DEPTH: usize = 8;
/// Bytes in flight, where pieces are large; two pieces at least.
const IN_FLIGHT_BYTES: u64 = 32 << 20;

/// Requests in flight, in the order in which they were sent.
struct InFlight<'a> {
    array: &'a Array,
    sent: VecDeque<(u64, Receiver<Outcome>)>,
    depth: usize,
    piece_bytes: u64,
}

impl<'a> InFlight<'a> {
    fn new(array: &'a Array) -> InFlight<'a> {
        let stripe_bytes = array.stripe_bytes().max(1);
        let piece_bytes = if stripe_bytes <= PIECE_BYTES {
            PIECE_BYTES / stripe_bytes * stripe_bytes
        } else if stripe_bytes <= LARGEST_PIECE_BYTES {
            stripe_bytes
        } else {
            PIECE_BYTES
        };
        let depth = usize::try_from(IN_FLIGHT_BYTES / piece_bytes).unwrap_or(DEPTH).clamp(2, DEPTH);
        InFlight { array, sent: VecDeque::new(), depth, piece_bytes }
    }

    /// The best length in bytes of a piece at `offset_bytes`: up to the end of a stripe.
    fn len_at(&self, offset_bytes: u64) -> u64 {
        self.piece_bytes - offset_bytes % self.piece_bytes
    }

    fn send(&mut self, offset_bytes: u64, request: Request) {
        let (told, outcome) = sync_channel(1);
        let reply = move |outcome| {
            // Nobody waits for it any more when an earlier one has failed.
            let _gone = told.send(outcome);
        };
        self.array.submit(request, Box::new(reply));
        self.sent.push_back((offset_bytes, outcome));
    }

    fn wait_for_first(&mut self) -> Option<(u64, Outcome)> {
        let (offset_bytes, outcome) = self.sent.pop_front()?;
        Some((offset_bytes, outcome.recv().unwrap_or_else(|_| Err(RequestError::stopping()))))
    }
}

/// Reads a range from its start to its end.
pub struct Reader<'a> {
    in_flight: InFlight<'a>,
    next_bytes: u64,
    end_bytes: u64,
}

impl<'a> Reader<'a> {
    /// Of `range`, whose ends are multiples of the array's block.
    pub fn new(array: &'a Array, range: std::ops::Range<u64>) -> Reader<'a> {
        Reader { in_flight: InFlight::new(array), next_bytes: range.start, end_bytes: range.end }
    }

    fn read_ahead(&mut self) {
        while self.in_flight.sent.len() < self.in_flight.depth && self.next_bytes < self.end_bytes {
            let len_bytes = self.in_flight.len_at(self.next_bytes).min(self.end_bytes - self.next_bytes);
            let (start, len) = (sector(self.next_bytes), SectorCount::floor_bytes(len_bytes));
            self.in_flight.send(self.next_bytes, Request::Read { start, len });
            self.next_bytes += len_bytes;
        }
    }
}

impl Iterator for Reader<'_> {
    /// Where in the array, and the bytes in order.
    type Item = (u64, Outcome);

    fn next(&mut self) -> Option<(u64, Outcome)> {
        self.read_ahead();
        self.in_flight.wait_for_first()
    }
}

/// Writes pieces, whole stripes where they are not too large.
pub struct Writer<'a> {
    in_flight: InFlight<'a>,
}

impl<'a> Writer<'a> {
    /// To `array`.
    pub fn new(array: &'a Array) -> Writer<'a> {
        Writer { in_flight: InFlight::new(array) }
    }

    /// The best length in bytes of a piece at `offset_bytes`: up to the end of a stripe.
    pub fn len_at(&self, offset_bytes: u64) -> usize {
        // No more than `LARGEST_PIECE_BYTES`.
        self.in_flight.len_at(offset_bytes) as usize
    }

    /// Sends a piece, waiting for the earliest one while too many are in flight.
    ///
    /// # Errors
    /// Of an earlier piece, with its place.
    pub fn write(&mut self, offset_bytes: u64, data: Shared) -> anyhow::Result<()> {
        while self.in_flight.sent.len() >= self.in_flight.depth {
            self.wait_for_first()?;
        }
        self.in_flight.send(offset_bytes, Request::Write { start: sector(offset_bytes), data, fua: false });
        Ok(())
    }

    /// Waits for all pieces and makes them durable.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(mut self) -> anyhow::Result<()> {
        while !self.in_flight.sent.is_empty() {
            self.wait_for_first()?;
        }
        self.in_flight.array.flush().map_err(|error| anyhow::anyhow!("the array cannot be flushed: {error}"))
    }

    fn wait_for_first(&mut self) -> anyhow::Result<()> {
        match self.in_flight.wait_for_first() {
            Some((offset_bytes, Err(error))) => anyhow::bail!("the array cannot be written at byte {offset_bytes}: {error}"),
            Some((_, Ok(_))) | None => Ok(()),
        }
    }
}

fn sector(offset_bytes: u64) -> Sector {
    Sector(SectorCount::floor_bytes(offset_bytes).0)
}
