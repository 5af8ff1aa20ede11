//! Requests under way: how many pieces are out, what came back, and when the reply may go.

use uraid_device::Shared;
use uraid_geometry::Geometry;
use uraid_types::{Sector, SectorCount, StripeNo};

use crate::Engine;
use crate::event::{Effect, FailureKind, Outcome, Request, RequestError, RequestId};
use crate::extents::Rows;
use crate::stripe_read::StripePiece;

/// A request with pieces still out.
#[derive(Debug)]
pub(crate) struct Pending {
    id: RequestId,
    fua: bool,
    remaining: usize,
    parts: Vec<Option<Shared>>,
    error: Option<RequestError>,
}

/// One piece of a read: the request and the place of its bytes in the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPiece {
    pub request: usize,
    pub part: usize,
}

/// Acknowledgements that wait until the loss of a member is on disk on the others.
#[derive(Debug)]
pub(crate) struct Parked {
    pub generation: u64,
    pub requests: Vec<usize>,
}

impl Engine {
    pub(crate) fn request(&mut self, id: RequestId, request: Request) {
        if let Err(error) = self.admit(&request) {
            self.reply(id, Err(error));
            return;
        }
        match request {
            Request::Flush => {
                let key = self.open_request(id, false);
                self.flush_for(key);
            }
            // Telling that contents no longer matter obliges nobody to forget them; parity must not be left behind.
            Request::Trim { .. } => self.reply(id, Ok(Vec::new())),
            Request::Read { start, len } => self.read(id, start, len),
            Request::Write { start, data, fua } => {
                let len = SectorCount::floor_bytes(data.len() as u64);
                self.write(id, start, len, fua, |offset, len| {
                    let offset = offset.len_bytes();
                    data.slice(offset..offset + len.len_bytes())
                });
            }
            Request::Zero { start, len, fua, .. } => {
                // One piece's worth of zeros serves them all: a request may span the whole array.
                let zeros = self.pool.zeroed(len.min(self.longest_piece()).len_bytes()).share();
                self.write(id, start, len, fua, |_, len| zeros.slice(0..len.len_bytes()));
            }
        }
    }

    /// Is it a request that may start now?
    fn admit(&self, request: &Request) -> Result<(), RequestError> {
        if self.stopping {
            return Err(RequestError::stopping());
        }
        if let Some(why) = &self.broken {
            return Err(RequestError::new(FailureKind::Io, why.clone()));
        }
        let (start, len, writes) = match *request {
            Request::Flush => return Ok(()),
            Request::Read { start, len } => (start, len, false),
            Request::Write { start, ref data, .. } => (start, self.sectors_of(data)?, true),
            Request::Zero { start, len, .. } | Request::Trim { start, len } => (start, len, true),
        };
        if writes && self.read_only {
            return Err(RequestError::new(FailureKind::ReadOnly, "the array is read-only"));
        }
        let aligned = start.0.is_multiple_of(self.block.0) && len.0.is_multiple_of(self.block.0);
        let inside = start.0.checked_add(len.0).is_some_and(|end| end <= self.geometry.capacity().0);
        if len.is_zero() || !aligned || !inside {
            let message = format!(
                "{len} at array {start}: not within the array's {} in whole blocks of {} bytes",
                self.geometry.capacity(),
                self.block.bytes()
            );
            return Err(RequestError::new(FailureKind::OutOfRange, message));
        }
        Ok(())
    }

    fn sectors_of(&self, data: &Shared) -> Result<SectorCount, RequestError> {
        SectorCount::from_bytes(data.len() as u64)
            .ok_or_else(|| RequestError::new(FailureKind::OutOfRange, format!("{} bytes are not whole sectors", data.len())))
    }

    pub(crate) fn open_request(&mut self, id: RequestId, fua: bool) -> usize {
        // The one piece counted here is closed once all others are out, so that an early end cannot reply too soon.
        self.requests.insert(Pending { id, fua, remaining: 1, parts: Vec::new(), error: None })
    }

    pub(crate) fn add_read_piece(&mut self, request: usize) -> ReadPiece {
        let pending = &mut self.requests[request];
        pending.remaining += 1;
        pending.parts.push(None);
        ReadPiece { request, part: pending.parts.len() - 1 }
    }

    pub(crate) fn add_write_piece(&mut self, request: usize) {
        self.requests[request].remaining += 1;
    }

    pub(crate) fn read_piece_done(&mut self, piece: ReadPiece, result: Result<Shared, RequestError>) {
        let result = result.map(|bytes| self.requests[piece.request].parts[piece.part] = Some(bytes));
        self.piece_done(piece.request, result);
    }

    pub(crate) fn piece_done(&mut self, request: usize, result: Result<(), RequestError>) {
        let pending = &mut self.requests[request];
        if let Err(error) = result {
            pending.error.get_or_insert(error);
        }
        pending.remaining -= 1;
        if pending.remaining > 0 {
            return;
        }
        if pending.fua && pending.error.is_none() {
            pending.fua = false;
            pending.remaining = 1;
            self.flush_for(request);
            return;
        }
        let Pending { id, parts, error, .. } = self.requests.remove(request);
        let outcome = match error {
            Some(error) => Err(error),
            None => Ok(parts.into_iter().map(|part| part.expect("every piece of a read brings its bytes")).collect()),
        };
        self.reply(id, outcome);
    }

    /// Write pieces that have reached their members: acknowledged once every loss of a member is on disk on the others.
    pub(crate) fn writes_done(&mut self, requests: Vec<usize>, failure: Option<RequestError>) {
        let failure = failure.or_else(|| self.broken_error());
        if failure.is_none() && self.meta.durable < self.meta.failure {
            self.parked.push(Parked { generation: self.meta.failure, requests });
            return;
        }
        for request in requests {
            self.piece_done(request, failure.clone().map_or(Ok(()), Err));
        }
    }

    pub(crate) fn unpark(&mut self) {
        let (ready, waiting) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| parked.generation <= self.meta.durable || self.broken.is_some());
        self.parked = waiting;
        let ready: Vec<Parked> = ready;
        for parked in ready {
            self.writes_done(parked.requests, None);
        }
    }

    pub(crate) fn broken_error(&self) -> Option<RequestError> {
        self.broken.as_ref().map(|why| RequestError::new(FailureKind::Io, why.clone()))
    }

    pub(crate) fn reply(&mut self, id: RequestId, outcome: Outcome) {
        self.out.push(Effect::Reply { id, outcome });
    }

    fn read(&mut self, id: RequestId, start: Sector, len: SectorCount) {
        let request = self.open_request(id, false);
        match self.geometry {
            Geometry::Copies(_) => {
                let mut at = start;
                while at < start + len {
                    let left = SectorCount((start + len).0 - at.0);
                    let piece = self.add_read_piece(request);
                    at += self.read_copies(at, left, piece);
                }
            }
            Geometry::Parity(_) => self.read_stripes(request, start, len),
        }
        self.piece_done(request, Ok(()));
    }

    /// Splits a read at chunk bounds and hands each stripe its pieces at once, so that what is lost is rebuilt in one go.
    fn read_stripes(&mut self, request: usize, start: Sector, len: SectorCount) {
        let mut pieces: Vec<(StripeNo, StripePiece)> = Vec::new();
        let mut at = start;
        while at < start + len {
            let piece = self.add_read_piece(request);
            let parity = self.parity();
            let place = parity.stripe_of(at);
            let part = SectorCount(((start + len).0 - at.0).min(parity.chunk().0 - place.offset.0));
            let rows = rows_at(parity.member_sector(place.stripe, place.offset).0, part);
            pieces.push((place.stripe, StripePiece { piece, index: place.index, rows }));
            at += part;
        }
        let mut pieces = pieces.into_iter().peekable();
        while let Some((stripe, piece)) = pieces.next() {
            let mut of_stripe = vec![piece];
            while let Some((_, piece)) = pieces.next_if(|(next, _)| *next == stripe) {
                of_stripe.push(piece);
            }
            self.read_stripe(stripe, of_stripe);
        }
    }

    /// Splits a write; `data` gives the bytes of a piece by its offset from `start` and its length.
    fn write(
        &mut self,
        id: RequestId,
        start: Sector,
        len: SectorCount,
        fua: bool,
        data: impl Fn(SectorCount, SectorCount) -> Shared,
    ) {
        let request = self.open_request(id, fua);
        let mut at = start;
        let end = start + len;
        while at < end {
            let left = SectorCount(end.0 - at.0);
            let offset = SectorCount(at.0 - start.0);
            self.add_write_piece(request);
            at += self.write_at(at, left, request, |len| data(offset, len));
        }
        self.piece_done(request, Ok(()));
    }
}

/// `rows` as sectors from `start`.
pub(crate) fn rows_at(start: u64, len: SectorCount) -> Rows {
    start..start + len.0
}
