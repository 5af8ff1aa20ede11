//! Byte-granular requests over a target of blocks.
//!
//! A read is rounded out and its pieces are cut. A write whose ends lie within blocks reads those blocks first and writes whole
//! blocks; until it has ended, nobody else writes the blocks it has read (`claims`). Whole-block requests pass uncopied.

mod claims;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use uraid_device::{Buf, Pool, Shared};

use self::claims::{Claim, Claims, Ticket};
use crate::{Reply, Request, Target, TargetError, lock};

/// Bytes that the pool keeps for the copies of unaligned writes.
const KEEP_BYTES: usize = 1 << 20;

type Outcome = Result<Vec<Shared>, TargetError>;
type Job = Box<dyn FnOnce(Held) + Send>;

/// A target that takes any offset and length; [`Target::block_bytes`] is 1.
///
/// An unaligned trim gives up only the whole blocks within its range. An unaligned zeroing is done as zeroing of the whole
/// blocks and then rewriting the blocks at the ends.
pub struct ByteTarget {
    inner: Arc<Inner>,
}

struct Inner {
    target: Arc<dyn Target>,
    block: u64,
    pool: Pool,
    state: Mutex<State>,
}

struct State {
    claims: Claims<Job>,
    ready: VecDeque<(Ticket, Job)>,
    /// Some thread is running what is ready. It keeps a target that answers at once from nesting one job in another.
    draining: bool,
}

/// A granted claim; it ends when this is dropped.
struct Held {
    inner: Arc<Inner>,
    ticket: Ticket,
}

impl Drop for Held {
    fn drop(&mut self) {
        {
            let state = &mut *lock(&self.inner.state);
            state.claims.release(self.ticket, &mut state.ready);
            if state.draining || state.ready.is_empty() {
                return;
            }
            state.draining = true;
        }
        loop {
            let (ticket, job) = {
                let mut state = lock(&self.inner.state);
                let Some(next) = state.ready.pop_front() else {
                    state.draining = false;
                    return;
                };
                next
            };
            job(Held { inner: Arc::clone(&self.inner), ticket });
        }
    }
}

impl ByteTarget {
    /// Lays byte-granular requests over `target`.
    #[must_use]
    pub fn new(target: Arc<dyn Target>) -> ByteTarget {
        let block = u64::from(target.block_bytes());
        let state = State { claims: Claims::new(), ready: VecDeque::new(), draining: false };
        ByteTarget { inner: Arc::new(Inner { target, block, pool: Pool::new(KEEP_BYTES), state: Mutex::new(state) }) }
    }

    /// `target` itself if it takes any offset and length, else a [`ByteTarget`] over it.
    #[must_use]
    pub fn over(target: Arc<dyn Target>) -> Arc<dyn Target> {
        if target.block_bytes() == 1 { target } else { Arc::new(ByteTarget::new(target)) }
    }
}

impl Target for ByteTarget {
    fn size_bytes(&self) -> u64 {
        let size = self.inner.target.size_bytes();
        size - size % self.inner.block
    }

    fn read_only(&self) -> bool {
        self.inner.target.read_only()
    }

    fn block_bytes(&self) -> u32 {
        1
    }

    fn told_block_bytes(&self) -> u32 {
        self.inner.target.told_block_bytes()
    }

    fn preferred_bytes(&self) -> u32 {
        self.inner.target.preferred_bytes()
    }

    fn submit(&self, request: Request, reply: Reply) {
        let (offset, len) = match &request {
            Request::Read { offset, len } => (*offset, u64::from(*len)),
            Request::Write { offset, data, .. } => (*offset, data.len() as u64),
            Request::Trim { offset, len, .. } | Request::Zero { offset, len, .. } => (*offset, *len),
            Request::Flush => return self.inner.target.submit(request, reply),
        };
        let size = self.size_bytes();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return reply(Err(TargetError::new(libc::EINVAL, format!("bytes {offset}+{len} lie beyond the end at {size}"))));
        }
        if len == 0 {
            return reply(Ok(Vec::new()));
        }
        let inner = &self.inner;
        match request {
            Request::Read { offset, len } => inner.read(offset, len, reply),
            Request::Trim { offset, len, fua } => match inner.whole_blocks(offset, len) {
                (_, 0) => reply(Ok(Vec::new())),
                (offset, len) => {
                    inner.run(inner.claim(offset, len), move |inner, held| {
                        inner.target.submit(Request::Trim { offset, len, fua }, releasing(held, reply));
                    });
                }
            },
            Request::Write { data, fua, .. } => inner.run(inner.claim(offset, len), move |inner, held| {
                inner.write(offset, data, fua, releasing(held, reply));
            }),
            Request::Zero { fua, may_trim, fast_only, .. } => inner.run(inner.claim(offset, len), move |inner, held| {
                inner.zero(Zeroing { offset, len, fua, may_trim, fast_only }, releasing(held, reply));
            }),
            Request::Flush => unreachable!("handled above"),
        }
    }
}

/// `reply`, ending the claim first.
fn releasing(held: Held, reply: Reply) -> Reply {
    Box::new(move |outcome| {
        drop(held);
        reply(outcome);
    })
}

struct Zeroing {
    offset: u64,
    len: u64,
    fua: bool,
    may_trim: bool,
    fast_only: bool,
}

impl Inner {
    /// The whole blocks within a range: start and length in bytes.
    fn whole_blocks(&self, offset: u64, len: u64) -> (u64, u64) {
        let start = offset.next_multiple_of(self.block);
        let end = (offset + len) / self.block * self.block;
        (start, end.saturating_sub(start))
    }

    fn claim(&self, offset: u64, len: u64) -> Claim {
        let end = offset + len;
        let span = offset / self.block..end.div_ceil(self.block);
        let first = (!offset.is_multiple_of(self.block)).then_some(span.start);
        let last = (!end.is_multiple_of(self.block)).then_some(span.end - 1);
        Claim { span, edges: [first, last.filter(|_| last != first)] }
    }

    /// Runs `job` once nobody else holds what it claims.
    fn run(self: &Arc<Inner>, claim: Claim, job: impl FnOnce(&Arc<Inner>, Held) + Send + 'static) {
        let job: Job = Box::new(move |held| job(&Arc::clone(&held.inner), held));
        let granted = lock(&self.state).claims.acquire(claim, job);
        if let Some((ticket, job)) = granted {
            job(Held { inner: Arc::clone(self), ticket });
        }
    }

    fn read(&self, offset: u64, len: u32, reply: Reply) {
        let start = offset / self.block * self.block;
        let end = (offset + u64::from(len)).next_multiple_of(self.block);
        let outer_len = end - start;
        if outer_len == u64::from(len) {
            return self.target.submit(Request::Read { offset, len }, reply);
        }
        let Ok(outer_len) = u32::try_from(outer_len) else {
            return reply(Err(TargetError::new(libc::EINVAL, format!("a read of {len} bytes is too long"))));
        };
        let skip = usize_of(offset - start);
        let cut_then_reply: Reply = Box::new(move |outcome| reply(outcome.and_then(|pieces| cut(pieces, skip, len as usize))));
        self.target.submit(Request::Read { offset: start, len: outer_len }, cut_then_reply);
    }

    fn write(self: &Arc<Inner>, offset: u64, data: Shared, fua: bool, reply: Reply) {
        let claim = self.claim(offset, data.len() as u64);
        let edges: Vec<u64> = claim.edges.into_iter().flatten().collect();
        if edges.is_empty() {
            return self.target.submit(Request::Write { offset, data, fua }, reply);
        }
        let inner = Arc::clone(self);
        self.read_blocks(&edges.clone(), move |blocks| match blocks {
            Err(error) => reply(Err(error)),
            Ok(blocks) => {
                let start = claim.span.start * inner.block;
                let mut buf = inner.pool.take(usize_of((claim.span.end - claim.span.start) * inner.block));
                for (edge, block) in edges.iter().zip(blocks) {
                    let at = usize_of(edge * inner.block - start);
                    buf[at..at + block.len()].copy_from_slice(&block);
                }
                let at = usize_of(offset - start);
                buf[at..at + data.len()].copy_from_slice(&data);
                inner.target.submit(Request::Write { offset: start, data: buf.share(), fua }, reply);
            }
        });
    }

    fn zero(self: &Arc<Inner>, zeroing: Zeroing, reply: Reply) {
        let Zeroing { offset, len, fua, may_trim, fast_only } = zeroing;
        let inner = Arc::clone(self);
        // The whole blocks first: where they refuse to be fast nothing has been done.
        let then: Reply = Box::new(move |outcome| match outcome {
            Err(error) => reply(Err(error)),
            Ok(_) => inner.zero_edges(offset, offset + len, fua, reply),
        });
        match self.whole_blocks(offset, len) {
            (_, 0) => then(Ok(Vec::new())),
            (offset, len) => self.target.submit(Request::Zero { offset, len, fua, may_trim, fast_only }, then),
        }
    }

    fn zero_edges(self: &Arc<Inner>, start: u64, end: u64, fua: bool, reply: Reply) {
        let edges: Vec<u64> = self.claim(start, end - start).edges.into_iter().flatten().collect();
        if edges.is_empty() {
            return reply(Ok(Vec::new()));
        }
        let inner = Arc::clone(self);
        self.read_blocks(&edges.clone(), move |blocks| match blocks {
            Err(error) => reply(Err(error)),
            Ok(blocks) => {
                let write = |(edge, mut block): (u64, Buf)| {
                    let at = edge * inner.block;
                    let from = usize_of(start.max(at) - at);
                    let to = usize_of(end.min(at + inner.block) - at);
                    block[from..to].fill(0);
                    Request::Write { offset: at, data: block.share(), fua }
                };
                let writes = edges.into_iter().zip(blocks).map(write).collect();
                submit_all(&*inner.target, writes, move |outcomes| reply(outcomes.map(|_| Vec::new())));
            }
        });
    }

    /// Reads single blocks, by number, into buffers of their own.
    fn read_blocks(self: &Arc<Inner>, blocks: &[u64], then: impl FnOnce(Result<Vec<Buf>, TargetError>) + Send + 'static) {
        let len = u32::try_from(self.block).expect("a block is small");
        let reads = blocks.iter().map(|block| Request::Read { offset: block * self.block, len }).collect();
        let inner = Arc::clone(self);
        submit_all(&*self.target, reads, move |outcomes| {
            then(outcomes.and_then(|all| {
                let to_buf = |pieces: Vec<Shared>| {
                    let mut buf = inner.pool.take(len as usize);
                    let mut filled = 0;
                    for piece in cut(pieces, 0, len as usize)? {
                        buf[filled..filled + piece.len()].copy_from_slice(&piece);
                        filled += piece.len();
                    }
                    Ok(buf)
                };
                all.into_iter().map(to_buf).collect()
            }));
        });
    }
}

type AllOutcomes = Result<Vec<Vec<Shared>>, TargetError>;

struct Gathering {
    missing: usize,
    outcomes: Vec<Outcome>,
    then: Option<Box<dyn FnOnce(AllOutcomes) + Send>>,
}

/// Submits all requests at once; `then` gets their outcomes in order, or the first error in order.
fn submit_all(target: &dyn Target, requests: Vec<Request>, then: impl FnOnce(AllOutcomes) + Send + 'static) {
    let outcomes = requests.iter().map(|_| Ok(Vec::new())).collect();
    let gathering = Gathering { missing: requests.len(), outcomes, then: Some(Box::new(then)) };
    let gathering = Arc::new(Mutex::new(gathering));
    for (index, request) in requests.into_iter().enumerate() {
        let gathering = Arc::clone(&gathering);
        let reply: Reply = Box::new(move |outcome| {
            let mut all = lock(&gathering);
            all.outcomes[index] = outcome;
            all.missing -= 1;
            if all.missing == 0 {
                let outcomes = std::mem::take(&mut all.outcomes);
                let then = all.then.take().expect("the last outcome comes once");
                drop(all);
                then(outcomes.into_iter().collect());
            }
        });
        target.submit(request, reply);
    }
}

/// The `len` bytes after the first `skip` of `pieces`.
fn cut(pieces: Vec<Shared>, mut skip: usize, len: usize) -> Outcome {
    let mut missing = len;
    let mut kept = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let take = missing.min(piece.len() - skip);
        if take > 0 {
            kept.push(piece.slice(skip..skip + take));
        }
        skip = 0;
        missing -= take;
    }
    if missing > 0 {
        return Err(TargetError::new(libc::EIO, format!("a read of {len} bytes came back {missing} bytes short")));
    }
    Ok(kept)
}

/// A length within a request; those fit memory.
fn usize_of(len: u64) -> usize {
    usize::try_from(len).expect("a request fits memory")
}
