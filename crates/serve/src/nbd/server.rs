//! The server: who is connected, starting and stopping.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use uraid_device::Pool;

use super::budget::Budget;
use super::connection;
use super::negotiate::{Export, HandshakeLimits};
use crate::listen::{Listener, StopAccepting, Stream};
use crate::{ByteTarget, Listen, ServeError, Target, lock};

/// The protocol's limit for a name or a description, in bytes.
const MAX_STRING_BYTES: usize = 4096;
/// The smallest preferred size that the protocol allows beside a minimum of 1.
const MIN_PREFERRED_BYTES: u32 = 4096;
/// Payload buffers kept for the next requests, in bytes.
const KEEP_BYTES: usize = 8 << 20;

/// What an NBD server offers, and how much it takes.
#[derive(Clone, Debug, Default)]
pub struct NbdOptions {
    /// The export's name, at most 4096 bytes; the empty name always finds the export too.
    pub name: String,
    /// For people, at most 4096 bytes.
    pub description: String,
    /// Listen beyond loopback. NBD has no login.
    pub allow_remote: bool,
    /// Limits.
    pub limits: NbdLimits,
}

/// Limits of an NBD server. At a limit nothing is refused that can wait: the server reads no further until there is room.
#[derive(Clone, Debug)]
pub struct NbdLimits {
    /// Clients that are past their handshake; while there are so many, one more is closed at once. Default 64.
    pub connections: usize,
    /// Bytes that one READ or WRITE carries, from 4096. Default 32 MiB.
    pub payload_bytes: u32,
    /// Requests in flight on one connection. Default 128.
    pub requests_per_connection: usize,
    /// Bytes in flight on one connection. Default 64 MiB.
    pub bytes_per_connection: usize,
    /// Requests in flight over all connections. Default 1024.
    pub requests: usize,
    /// Bytes in flight over all connections. Default 256 MiB. Each connection may have its share of them (by `connections`) even
    /// when they are used up: who does not take his replies keeps nobody else waiting.
    pub bytes: usize,
    /// Data of one option of the handshake, in bytes. Default 64 KiB.
    pub option_bytes: u32,
    /// Options in one handshake. Default 256.
    pub options: u32,
    /// How long a handshake may take. Default 30 s.
    pub handshake: Duration,
    /// Handshakes at once; one more ends the oldest of them. Default 64.
    pub handshakes: usize,
    /// How long a client may neither go on with a request that it began nor take a reply. Default 60 s.
    pub stall: Duration,
    /// How long [`NbdServer::stop`] waits for what is in flight. Default 10 s.
    pub stop: Duration,
    /// How long it waits for clients to take the last replies. Default 1 s.
    pub last_replies: Duration,
}

impl Default for NbdLimits {
    fn default() -> NbdLimits {
        NbdLimits {
            connections: 64,
            payload_bytes: 32 << 20,
            requests_per_connection: 128,
            bytes_per_connection: 64 << 20,
            requests: 1024,
            bytes: 256 << 20,
            option_bytes: 64 << 10,
            options: 256,
            handshake: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            handshakes: 64,
            stop: Duration::from_secs(10),
            last_replies: Duration::from_secs(1),
        }
    }
}

impl NbdLimits {
    pub(super) fn for_handshake(&self) -> HandshakeLimits {
        HandshakeLimits { max_option_bytes: self.option_bytes, max_options: self.options }
    }
}

/// What all connections share.
pub(super) struct Shop {
    pub(super) target: Arc<dyn Target>,
    pub(super) export: Export,
    pub(super) limits: NbdLimits,
    /// From when a request has been read until its reply has been written.
    pub(super) budget: Arc<Budget>,
    /// What the target has not answered yet.
    pub(super) working: Arc<Budget>,
    pub(super) pool: Pool,
    pub(super) stopping: AtomicBool,
    connections: Mutex<HashMap<u64, Client>>,
    connection_ended: Condvar,
}

struct Client {
    stream: Arc<Stream>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshake,
    TakenIn,
    /// It was slow to shake hands when others wanted to, and is on its way out.
    Dropped,
}

fn count(connections: &HashMap<u64, Client>, stage: Stage) -> usize {
    connections.values().filter(|client| client.stage == stage).count()
}

/// A socket for an NBD server to come. Clients that connect wait until it is served; dropped, it is unlinked.
pub struct NbdSocket {
    listener: Listener,
    stop_accepting: StopAccepting,
}

impl NbdSocket {
    /// Listens, so that whatever stands in the way is known before an array is started for it.
    ///
    /// # Errors
    /// The address is taken, cannot be listened on, or is beyond loopback and not `allow_remote`.
    pub fn bind(listen: &Listen, allow_remote: bool) -> Result<NbdSocket, ServeError> {
        let (listener, stop_accepting) = Listener::bind(listen, allow_remote)?;
        Ok(NbdSocket { listener, stop_accepting })
    }
}

/// A running NBD server. It stops when dropped.
pub struct NbdServer {
    shop: Arc<Shop>,
    address: Listen,
    stop_accepting: StopAccepting,
    acceptor: Option<JoinHandle<()>>,
}

impl NbdServer {
    /// Listens, and serves `target` to whoever connects.
    ///
    /// # Errors
    /// The address is taken, cannot be listened on, or is beyond loopback without leave; the name or the description is too long.
    pub fn start(target: Arc<dyn Target>, listen: Listen, options: NbdOptions) -> Result<NbdServer, ServeError> {
        let socket = NbdSocket::bind(&listen, options.allow_remote)?;
        NbdServer::start_on(target, socket, options)
    }

    /// Serves `target` to whoever connects to `socket`.
    ///
    /// # Errors
    /// The name or the description is too long, or there is no thread for it.
    pub fn start_on(target: Arc<dyn Target>, socket: NbdSocket, options: NbdOptions) -> Result<NbdServer, ServeError> {
        let target = ByteTarget::over(target);
        let NbdOptions { name, description, mut limits, .. } = options;
        if name.len() > MAX_STRING_BYTES || description.len() > MAX_STRING_BYTES {
            return Err(ServeError::BadExport { limit_bytes: MAX_STRING_BYTES });
        }
        limits.payload_bytes = limits.payload_bytes.max(MIN_PREFERRED_BYTES);
        let export = Export {
            name,
            description,
            size_bytes: target.size_bytes(),
            read_only: target.read_only(),
            block_bytes: target.told_block_bytes(),
            preferred_bytes: preferred(target.preferred_bytes(), limits.payload_bytes),
            max_payload_bytes: limits.payload_bytes,
        };
        let NbdSocket { listener, stop_accepting } = socket;
        let address = listener.address();
        let shop = Arc::new(Shop {
            target,
            export,
            // Others may hold all there is by not taking their replies: that must not keep anybody waiting for ever.
            budget: Budget::shared(limits.requests, limits.bytes, limits.bytes / limits.connections.max(1)),
            working: Budget::new(usize::MAX, usize::MAX),
            limits,
            pool: Pool::new(KEEP_BYTES),
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            connection_ended: Condvar::new(),
        });
        let acceptor = {
            let shop = Arc::clone(&shop);
            let mut next_id = 0;
            let accept = move || {
                listener.accept_each(|stream| {
                    next_id += 1;
                    Shop::welcome(&shop, next_id, stream);
                });
            };
            let thread = std::thread::Builder::new().name("nbd-accept".into());
            thread.spawn(accept).map_err(|source| ServeError::Thread { source })?
        };
        Ok(NbdServer { shop, address, stop_accepting, acceptor: Some(acceptor) })
    }

    /// Where it listens; the port that was taken when it was started on port 0.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Clients connected now.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.shop.connections).len()
    }

    /// Requests in flight, and the bytes that they carry or ask for.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        self.shop.budget.used()
    }

    /// Bytes of buffers that writes' payloads are held in.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.shop.pool.outstanding_bytes()
    }

    /// Stops: accepts no more, lets what is in flight end, answers later requests with ESHUTDOWN, then ends all connections and
    /// unlinks the socket. False when something was still in flight after the time that [`NbdLimits::stop`] gives; a client that does
    /// not take its replies is not waited for that long.
    pub fn stop(&mut self) -> bool {
        let Some(acceptor) = self.acceptor.take() else { return true };
        let deadline = Instant::now() + self.shop.limits.stop;
        self.shop.stopping.store(true, Ordering::SeqCst);
        self.stop_accepting.stop();
        if acceptor.join().is_err() {
            tracing::error!("the thread that accepts NBD connections panicked");
        }
        let idle = self.shop.working.wait_idle(deadline);
        self.shop.budget.wait_idle(deadline.min(Instant::now() + self.shop.limits.last_replies));
        let mut connections = lock(&self.shop.connections);
        connections.values().for_each(|client| client.stream.shutdown());
        while !connections.is_empty() && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.shop.connection_ended.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        idle && connections.is_empty()
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shop {
    /// Gives a new connection its thread, or closes it when there are enough.
    fn welcome(shop: &Arc<Shop>, id: u64, stream: Stream) {
        let stream = Arc::new(stream);
        {
            let mut connections = lock(&shop.connections);
            if shop.is_full(&connections) {
                return;
            }
            shop.make_room(&mut connections);
            connections.insert(id, Client { stream: Arc::clone(&stream), stage: Stage::Handshake });
        }
        let serving = Arc::clone(shop);
        let serve = move || {
            // The connection is forgotten however its thread ends.
            let _forget = Forget { shop: &serving, id };
            if let Err(error) = connection::serve(&stream, &serving, id) {
                tracing::debug!("an NBD connection ended: {error}");
            }
            stream.shutdown();
        };
        if let Err(error) = std::thread::Builder::new().name("nbd-reader".into()).spawn(serve) {
            tracing::warn!("an NBD client was turned away: cannot start a thread: {error}");
            shop.forget(id);
        }
    }

    fn is_full(&self, connections: &HashMap<u64, Client>) -> bool {
        let full = count(connections, Stage::TakenIn) >= self.limits.connections;
        if full {
            tracing::warn!("an NBD client was turned away: {} are connected", self.limits.connections);
        }
        full
    }

    /// Whoever connects and says nothing must not keep others out.
    fn make_room(&self, connections: &mut HashMap<u64, Client>) {
        if count(connections, Stage::Handshake) < self.limits.handshakes.max(1) {
            return;
        }
        let shaking = connections.iter_mut().filter(|(_, client)| client.stage == Stage::Handshake);
        if let Some((_, oldest)) = shaking.min_by_key(|(id, _)| **id) {
            tracing::warn!("an NBD client was dropped in its handshake: others wait");
            oldest.stage = Stage::Dropped;
            oldest.stream.shutdown();
        }
    }

    /// The client with `id` has shaken hands: is there room for it?
    pub(super) fn is_taken_in(&self, id: u64) -> bool {
        let mut connections = lock(&self.connections);
        if self.is_full(&connections) {
            return false;
        }
        match connections.get_mut(&id) {
            Some(client) if client.stage == Stage::Handshake => {
                client.stage = Stage::TakenIn;
                true
            }
            _ => false,
        }
    }

    fn forget(&self, id: u64) {
        lock(&self.connections).remove(&id);
        self.connection_ended.notify_all();
    }
}

struct Forget<'a> {
    shop: &'a Shop,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shop.forget(self.id);
    }
}

/// A preferred size that the protocol allows: a power of two between 4096 and the largest payload.
fn preferred(wish_bytes: u32, max_payload_bytes: u32) -> u32 {
    let largest = 1 << max_payload_bytes.ilog2();
    wish_bytes.checked_next_power_of_two().unwrap_or(largest).clamp(MIN_PREFERRED_BYTES, largest)
}
