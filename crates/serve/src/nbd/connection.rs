//! One client: a thread that reads requests and hands them to the target, and a thread that writes replies as they come.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, unbounded};
use uraid_device::Shared;

use super::budget::{Budget, Part, Permit};
use super::negotiate::{Negotiation, Progress};
use super::proto::{self, Bounds, Command, RawRequest, Refusal, Session, error};
use super::server::Shop;
use crate::listen::{Stream, timed_out};
use crate::{Reply, Request, TargetError};

/// Replies that one system call may carry.
const BATCH: usize = 64;
/// A payload that is refused is read and dropped up to this many times the maximum; beyond, the connection ends.
const MAX_DROPPED_PAYLOADS: u32 = 4;
/// What a dropped payload is read into at a time.
const DROP_BYTES: usize = 64 << 10;
/// CACHE reads this much at a time.
const CACHE_BYTES: u32 = 4 << 20;

/// A reply on its way. It counts as in flight until it has been written.
struct Outgoing {
    head: Vec<u8>,
    data: Vec<Shared>,
    _permits: [Permit; 2],
}

/// Serves one client to the end of its connection.
pub(super) fn serve(stream: &Arc<Stream>, shop: &Arc<Shop>, id: u64) -> io::Result<()> {
    let limits = &shop.limits;
    stream.set_timeouts(Some(limits.stall.min(limits.handshake)), Some(limits.stall))?;
    let Some(session) = negotiate(stream, shop, id)? else { return Ok(()) };
    stream.set_timeouts(Some(limits.stall), Some(limits.stall))?;
    let (replies, outgoing) = unbounded();
    let reader = Reader {
        stream: Arc::clone(stream),
        shop: Arc::clone(shop),
        session,
        bounds: Bounds {
            size_bytes: shop.export.size_bytes,
            read_only: shop.export.read_only,
            max_payload_bytes: shop.export.max_payload_bytes,
        },
        budget: Budget::new(limits.requests_per_connection, limits.bytes_per_connection),
        part: Arc::default(),
        replies,
    };
    let stream = Arc::clone(stream);
    let writer = std::thread::Builder::new().name("nbd-writer".into()).spawn(move || write_replies(&stream, &outgoing))?;
    let read = reader.run();
    // The writer ends when the last reply of what is in flight has been written or dropped.
    drop(reader);
    if writer.join().is_err() {
        tracing::error!("the thread that writes NBD replies panicked");
    }
    read
}

fn negotiate(stream: &Stream, shop: &Shop, id: u64) -> io::Result<Option<Session>> {
    let deadline = Instant::now() + shop.limits.handshake;
    let (mut negotiation, mut out) = Negotiation::new(shop.export.clone(), shop.limits.for_handshake());
    let mut buffer = vec![0; DROP_BYTES];
    loop {
        (&mut &*stream).write_all(&out)?;
        out.clear();
        let want = negotiation.wants_bytes().min(buffer.len());
        let got = (&mut &*stream).read(&mut buffer[..want])?;
        if got == 0 || Instant::now() > deadline || shop.stopping.load(Ordering::SeqCst) {
            return Ok(None);
        }
        match negotiation.feed(&buffer[..got], &mut out) {
            Progress::More => {}
            // Before the client knows: then it is not one of those who may have to go.
            Progress::Transmission(session) if shop.is_taken_in(id) => {
                (&mut &*stream).write_all(&out)?;
                return Ok(Some(session));
            }
            Progress::Transmission(_) => return Ok(None),
            Progress::Close => {
                (&mut &*stream).write_all(&out)?;
                return Ok(None);
            }
        }
    }
}

struct Reader {
    stream: Arc<Stream>,
    shop: Arc<Shop>,
    session: Session,
    bounds: Bounds,
    budget: Arc<Budget>,
    /// Of what all connections share.
    part: Arc<Part>,
    replies: Sender<Outgoing>,
}

impl Reader {
    fn run(&self) -> io::Result<()> {
        let mut header = [0; proto::REQUEST_BYTES];
        while read_header(&self.stream, &mut header)? {
            let Some(raw) = RawRequest::parse(&header) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a request without its magic number"));
            };
            match proto::check(&raw, self.session, self.bounds) {
                Ok(Command::Disconnect) => return Ok(()),
                Ok(command) => self.accept(raw, command)?,
                Err(refusal) => self.refuse(&raw, &refusal)?,
            }
        }
        Ok(())
    }

    /// Waits until `bytes` more may be in flight, on this connection and on all together.
    fn permits(&self, bytes: u32) -> [Permit; 2] {
        let bytes = bytes as usize;
        [self.budget.take(bytes), self.shop.budget.take_part(bytes, &self.part)]
    }

    fn refuse(&self, raw: &RawRequest, refusal: &Refusal) -> io::Result<()> {
        if u64::from(refusal.payload_bytes) > u64::from(MAX_DROPPED_PAYLOADS) * u64::from(self.bounds.max_payload_bytes) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a payload far beyond the maximum"));
        }
        self.drop_payload(refusal.payload_bytes)?;
        let head = proto::failure(raw.cookie, self.session, refusal.errno, refusal.message);
        send(&self.replies, Outgoing { head, data: Vec::new(), _permits: self.permits(0) });
        Ok(())
    }

    fn drop_payload(&self, bytes: u32) -> io::Result<()> {
        let mut buffer = vec![0; DROP_BYTES.min(bytes as usize)];
        let mut left = bytes as usize;
        while left > 0 {
            let take = left.min(buffer.len());
            (&*self.stream).read_exact(&mut buffer[..take])?;
            left -= take;
        }
        Ok(())
    }

    /// Takes a checked request: its payload, its place in the budgets, and then hands it on.
    fn accept(&self, raw: RawRequest, command: Command) -> io::Result<()> {
        let bytes = match command {
            Command::Read | Command::Write { .. } => raw.len,
            Command::Cache => raw.len.min(CACHE_BYTES),
            _ => 0,
        };
        let permits = self.permits(bytes);
        let payload = match command {
            Command::Write { .. } => {
                let mut buffer = self.shop.pool.take(raw.len as usize);
                (&*self.stream).read_exact(&mut buffer)?;
                Some(buffer.share())
            }
            _ => None,
        };
        // Asked after the permit was taken: whoever stops the server sees either the permit here or is seen by us.
        let working = self.shop.working.take(0);
        if self.shop.stopping.load(Ordering::SeqCst) {
            let head = proto::failure(raw.cookie, self.session, error::ESHUTDOWN, "the server is stopping");
            send(&self.replies, Outgoing { head, data: Vec::new(), _permits: permits });
            return Ok(());
        }
        let RawRequest { offset, len, cookie, .. } = raw;
        let request = match (command, payload) {
            (Command::Write { fua }, Some(data)) => Request::Write { offset, data, fua },
            (Command::Read, _) => Request::Read { offset, len },
            (Command::Flush, _) => Request::Flush,
            (Command::Trim { fua }, _) => Request::Trim { offset, len: u64::from(len), fua },
            (Command::WriteZeroes { fua, may_trim, fast_only }, _) => {
                Request::Zero { offset, len: u64::from(len), fua, may_trim, fast_only }
            }
            (Command::Cache, _) => {
                cache(Arc::clone(&self.shop), offset, len, self.reply(raw, command, permits, working));
                return Ok(());
            }
            (Command::BlockStatus, _) => {
                let head = proto::all_allocated(cookie, len);
                send(&self.replies, Outgoing { head, data: Vec::new(), _permits: permits });
                return Ok(());
            }
            (Command::Write { .. }, None) | (Command::Disconnect, _) => {
                unreachable!("a write has its payload, DISC ends the loop")
            }
        };
        self.shop.target.submit(request, self.reply(raw, command, permits, working));
        Ok(())
    }

    /// What turns the target's outcome into the reply to `raw`.
    fn reply(&self, raw: RawRequest, command: Command, permits: [Permit; 2], working: Permit) -> Reply {
        let (session, replies) = (self.session, self.replies.clone());
        let promise = Promise { raw, command, session, replies, permits: Some(permits), _working: working };
        Box::new(move |outcome| promise.keep(outcome))
    }
}

/// A reply that is owed. A target that forgets it, as it may when it dies, has the client told EIO rather than waiting for ever.
struct Promise {
    raw: RawRequest,
    command: Command,
    session: Session,
    replies: Sender<Outgoing>,
    permits: Option<[Permit; 2]>,
    /// Given back once the reply is on its way.
    _working: Permit,
}

impl Promise {
    fn keep(mut self, outcome: Result<Vec<Shared>, TargetError>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result<Vec<Shared>, TargetError>) {
        let Some(permits) = self.permits.take() else { return };
        let (raw, session) = (&self.raw, self.session);
        let (head, data) = match (self.command, outcome) {
            (Command::Read, Ok(pieces)) if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() == u64::from(raw.len) => {
                (proto::read_head(raw.cookie, session, raw.offset, raw.len), pieces)
            }
            (Command::Read, Ok(_)) => {
                (proto::failure(raw.cookie, session, error::EIO, "the read came back with another length"), Vec::new())
            }
            // The protocol lets a server ignore a trim.
            (Command::Trim { .. }, Err(TargetError { errno: libc::EOPNOTSUPP, .. })) | (_, Ok(_)) => {
                (proto::success(raw.cookie), Vec::new())
            }
            (command, Err(error)) => {
                let fast_zero = matches!(command, Command::WriteZeroes { fast_only: true, .. });
                let errno = proto::wire_errno(error.errno, fast_zero);
                (proto::failure(raw.cookie, session, errno, &error.message), Vec::new())
            }
        };
        send(&self.replies, Outgoing { head, data, _permits: permits });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.send(Err(TargetError::new(libc::EIO, "the request was lost")));
    }
}

/// Reads the range piece by piece and drops it; `reply` gets the first error or the end.
fn cache(shop: Arc<Shop>, offset: u64, len: u32, reply: Reply) {
    if len == 0 {
        return reply(Ok(Vec::new()));
    }
    let now = len.min(CACHE_BYTES);
    let target = Arc::clone(&shop.target);
    let next: Reply = Box::new(move |outcome| match outcome {
        Ok(_) => cache(shop, offset + u64::from(now), len - now, reply),
        Err(error) => reply(Err(error)),
    });
    target.submit(Request::Read { offset, len: now }, next);
}

fn send(replies: &Sender<Outgoing>, outgoing: Outgoing) {
    // Without its writer a connection has ended and its replies are dropped.
    let _ = replies.send(outgoing);
}

/// Reads a request's fixed part. False at the end of the connection; a client may be silent between requests as long as it likes,
/// within one no longer than the read timeout.
fn read_header(stream: &Stream, header: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < header.len() {
        match (&mut &*stream).read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if timed_out(&error) && filled == 0 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn write_replies(stream: &Stream, outgoing: &Receiver<Outgoing>) {
    let mut alive = true;
    let mut batch: Vec<Outgoing> = Vec::with_capacity(BATCH);
    while let Ok(first) = outgoing.recv() {
        batch.push(first);
        batch.extend(outgoing.try_iter().take(BATCH - 1));
        if alive && let Err(error) = write_batch(stream, &batch) {
            tracing::debug!("an NBD client no longer takes replies: {error}");
            // The reader ends too; what is in flight ends without its replies.
            stream.shutdown();
            alive = false;
        }
        batch.clear();
    }
    if alive {
        stream.shutdown();
    }
}

fn write_batch(mut stream: &Stream, batch: &[Outgoing]) -> io::Result<()> {
    let mut all: Vec<IoSlice<'_>> = Vec::with_capacity(batch.len() * 2);
    for outgoing in batch {
        all.push(IoSlice::new(&outgoing.head));
        all.extend(outgoing.data.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)));
    }
    let mut left = &mut all[..];
    while !left.is_empty() {
        match stream.write_vectored(&left[..left.len().min(libc::UIO_MAXIOV as usize)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
