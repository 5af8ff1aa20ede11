//! The array's side of the control socket.

use std::collections::HashMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Lines, MAX_CALL_BYTES, NoLine, run_dir};
use crate::listen::{Listener, StopAccepting, Stream};
use crate::{Listen, ServeError, lock};

/// Connections at once; one more is told so and closed.
const MAX_CONNECTIONS: usize = 16;
/// How long a client may be silent before or within a call, and how long it may not take an answer.
const SILENCE: Duration = Duration::from_secs(60);

/// Answers a call. It may take long; other connections are served meanwhile. A panic becomes an error in the answer.
pub type Handler = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// A control socket that answers. It stops when dropped.
pub struct Server {
    path: PathBuf,
    stop_accepting: StopAccepting,
    acceptor: Option<JoinHandle<()>>,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Connections {
    streams: Mutex<HashMap<u64, Arc<Stream>>>,
    one_ended: Condvar,
}

impl Connections {
    fn forget(&self, id: u64) {
        lock(&self.streams).remove(&id);
        self.one_ended.notify_all();
    }
}

impl Server {
    /// Listens at `path` and hands each call to `handler`. The directory is made with mode 0700 if it is missing.
    ///
    /// # Errors
    /// Somebody else listens there, something else is there, or the directory is unfit.
    pub fn start(path: &Path, handler: Handler) -> Result<Server, ServeError> {
        run_dir::make_dir_of(path)?;
        let (listener, stop_accepting) = Listener::bind(&Listen::Unix(path.to_owned()), false)?;
        let connections: Arc<Connections> = Arc::default();
        let acceptor = {
            let connections = Arc::clone(&connections);
            let mut next_id = 0;
            let accept = move || {
                listener.accept_each(|stream| {
                    next_id += 1;
                    welcome(&connections, next_id, stream, &handler);
                });
            };
            let thread = std::thread::Builder::new().name("control-accept".into());
            thread.spawn(accept).map_err(|source| ServeError::Thread { source })?
        };
        Ok(Server { path: path.to_owned(), stop_accepting, acceptor: Some(acceptor), connections })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no more calls and unlinks the socket. Calls that the handler is busy with still get their answer.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.stop_accepting.stop();
        if acceptor.join().is_err() {
            tracing::error!("the thread that accepts control connections panicked");
        }
        lock(&self.connections.streams).values().for_each(|stream| stream.stop_reading());
    }

    /// Stops, and waits until the calls that run have been answered, at most `timeout`. False when some have not.
    ///
    /// Not to be called by the handler, whose own call it would wait for.
    pub fn finish(&mut self, timeout: Duration) -> bool {
        self.stop();
        let streams = lock(&self.connections.streams);
        let waited = self.connections.one_ended.wait_timeout_while(streams, timeout, |streams| !streams.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn welcome(connections: &Arc<Connections>, id: u64, stream: Stream, handler: &Handler) {
    let stream = Arc::new(stream);
    if let Err(error) = stream.set_timeouts(Some(SILENCE), Some(SILENCE)) {
        tracing::debug!("a control connection ended at once: {error}");
        return;
    }
    {
        let mut all = lock(&connections.streams);
        if all.len() >= MAX_CONNECTIONS {
            answer(&stream, &json!({ "error": format!("{MAX_CONNECTIONS} clients are connected already") }));
            return;
        }
        all.insert(id, Arc::clone(&stream));
    }
    let (all, handler) = (Arc::clone(connections), Arc::clone(handler));
    let serve = move || {
        serve(&stream, &handler);
        all.forget(id);
    };
    if let Err(error) = std::thread::Builder::new().name("control".into()).spawn(serve) {
        tracing::warn!("a control client was turned away: cannot start a thread: {error}");
        connections.forget(id);
    }
}

fn serve(stream: &Stream, handler: &Handler) {
    let mut lines = Lines::new(stream, MAX_CALL_BYTES);
    loop {
        let line = match lines.next(|_| Ok(())) {
            Ok(line) => line,
            Err(NoLine::TooLong) => {
                answer(stream, &json!({ "error": format!("a call takes at most {MAX_CALL_BYTES} bytes") }));
                return;
            }
            Err(NoLine::Broken(error)) => {
                tracing::debug!("a control connection broke: {error}");
                return;
            }
            Err(NoLine::End | NoLine::Silent) => return,
        };
        let reply = match serde_json::from_slice(&line) {
            Ok(call) => catch_unwind(AssertUnwindSafe(|| handler(call)))
                .unwrap_or_else(|_| json!({ "error": "the call failed inside the server; its log says more" })),
            Err(error) => json!({ "error": format!("not JSON: {error}") }),
        };
        if !answer(stream, &reply) {
            return;
        }
    }
}

/// Sends one line; false when the client is gone.
fn answer(mut stream: &Stream, value: &Value) -> bool {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    stream.write_all(&line).is_ok()
}
