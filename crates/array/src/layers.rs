//! An array that is being reshaped, running: each part of it is read in the shape that it is in, or from the backup file.

use std::sync::{Arc, Mutex, PoisonError};

use uraid_device::Pool;
use uraid_engine::{FailureKind, Outcome, Request, RequestError};
use uraid_types::{Sector, SectorCount};

use crate::core::ReshapeStatus;
use crate::pump::Reply;
use crate::{Array, Backup, ReshapePart, ReshapeSource};

/// See the module.
pub(crate) struct Layers {
    pub other: Array,
    pub parts: Vec<ReshapePart>,
    pub backup: Option<Backup>,
    pub status: ReshapeStatus,
    /// Slots that are not in sync in the other shape.
    pub degraded: usize,
    pub pool: Pool,
}

impl Layers {
    /// Reads `len` sectors from `start` on; `own` sends to the array in the shape in which it is shown.
    pub fn read(&self, start: Sector, len: SectorCount, reply: Reply, own: impl Fn(Request, Reply)) {
        let pieces = self.pieces(start, len);
        let mut replies = Gather::replies(pieces.len(), reply).into_iter();
        for ((from, start, len), reply) in pieces.into_iter().zip(&mut replies) {
            let request = Request::Read { start, len };
            match from {
                ReshapeSource::Own => own(request, reply),
                ReshapeSource::Other => self.other.submit(request, reply),
                ReshapeSource::Backup(shift) => reply(self.saved(Sector(start.0.wrapping_add(shift)), len)),
            }
        }
    }

    /// The range by where it is. What lies beyond the array stays with the last part, whose array refuses it.
    fn pieces(&self, start: Sector, len: SectorCount) -> Vec<(ReshapeSource, Sector, SectorCount)> {
        let end = Sector(start.0.saturating_add(len.0));
        let mut pieces = Vec::new();
        let mut at = start;
        for (index, part) in self.parts.iter().enumerate() {
            let until = if index + 1 == self.parts.len() { end } else { part.end.min(end) };
            if until > at || index + 1 == self.parts.len() && pieces.is_empty() {
                pieces.push((part.from, at, SectorCount(until.0.saturating_sub(at.0))));
                at = until;
            }
        }
        pieces
    }

    fn saved(&self, start: Sector, len: SectorCount) -> Outcome {
        let failed = |message: String| RequestError { kind: FailureKind::Io, message, slots: Vec::new() };
        let backup = self.backup.as_ref().ok_or_else(|| failed("the backup file is not there".to_owned()))?;
        // No longer than a section, which lies within the file.
        let mut bytes = self.pool.take(len.bytes() as usize);
        backup.device().read_at(start.byte_offset(), &mut bytes).map_err(|error| failed(error.to_string()))?;
        Ok(vec![bytes.share()])
    }
}

/// The answers to the pieces of one read, until all of them have come.
struct Gather(Mutex<Waiting>);

struct Waiting {
    outcomes: Vec<Option<Outcome>>,
    reply: Option<Reply>,
}

impl Gather {
    /// A reply for each of `pieces`; the last to come makes `reply` whole.
    fn replies(pieces: usize, reply: Reply) -> Vec<Reply> {
        let waiting = Waiting { outcomes: (0..pieces).map(|_| None).collect(), reply: Some(reply) };
        let gather = Arc::new(Gather(Mutex::new(waiting)));
        let one = |index| {
            let gather = Arc::clone(&gather);
            Box::new(move |outcome| gather.take(index, outcome)) as Reply
        };
        (0..pieces).map(one).collect()
    }

    fn take(&self, index: usize, outcome: Outcome) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.outcomes[index] = Some(outcome);
        if waiting.outcomes.iter().any(Option::is_none) {
            return;
        }
        let outcomes: Outcome = std::mem::take(&mut waiting.outcomes)
            .into_iter()
            .flatten()
            .collect::<Result<Vec<_>, _>>()
            .map(|parts| parts.concat());
        if let Some(reply) = waiting.reply.take() {
            drop(waiting);
            reply(outcomes);
        }
    }
}
