//! The process that owns a running array: its front ends, its control socket, its orderly end.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use signal_hook::iterator::Signals;
use uraid_array::core::{Command, Status};
use uraid_array::{Array, Assembly, RunOptions, SyncSpeed};
use uraid_device::OpenOptions;
use uraid_engine::SyncKind;
use uraid_report::Rate;
use uraid_serve::control::{Server, socket_path};
use uraid_serve::{
    ArrayTarget, ByteTarget, FuseFile, FuseOptions, Listen, MountPoint, NbdOptions, NbdServer, NbdSocket, ServeError, Target,
};

use crate::control::{MemberName, Request, Running, full};
use crate::members::open_over;

/// How often the owner looks at its array.
const LOOK: Duration = Duration::from_millis(500);
/// How long the last answer on the control socket may take to go out.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// Where the array is to be served.
#[derive(Clone, Debug, Default)]
pub struct FrontEnds {
    /// NBD servers.
    pub nbd: Vec<Listen>,
    /// NBD beyond this machine.
    pub nbd_allow_remote: bool,
    /// FUSE files.
    pub fuse: Vec<PathBuf>,
}

/// What ends the owner's wait.
enum Wake {
    Signal(i32),
    /// `uraid stop`; the answer is due when all is done.
    Stop(Sender<Result<(), String>>),
}

/// What the control socket's threads see.
struct Shared {
    name: String,
    /// Set once the array runs.
    array: OnceLock<Array>,
    /// Where it is served, set once it is.
    nbd: OnceLock<Vec<String>>,
    fuse: OnceLock<Vec<PathBuf>>,
    /// Where changes of members go, if not to them.
    overlay: Option<PathBuf>,
    speed: Mutex<Speed>,
    wake: Sender<Wake>,
}

/// How fast the run under way goes.
#[derive(Default)]
struct Speed {
    run: Option<(String, u64, Rate)>,
}

impl Speed {
    fn note(&mut self, status: &Status, now: Instant) {
        let Some(sync) = &status.sync else {
            self.run = None;
            return;
        };
        let done_bytes = sync.done_sectors * 512;
        match &mut self.run {
            Some((kind, last, rate)) if *kind == sync.kind && *last <= done_bytes => {
                rate.note(now, done_bytes);
                *last = done_bytes;
            }
            run => *run = Some((sync.kind.clone(), done_bytes, Rate::new(now, done_bytes))),
        }
    }

    fn of(&self, status: &Status) -> (u64, Option<u64>) {
        match (&self.run, &status.sync) {
            (Some((kind, _, rate)), Some(sync)) if *kind == sync.kind => {
                (rate.kib_per_s(), rate.remaining_s(sync.end_sectors * 512))
            }
            _ => (0, None),
        }
    }
}

/// An array that this process owns.
pub struct Owner {
    shared: Arc<Shared>,
    array: Array,
    nbd: Vec<NbdServer>,
    fuse: Vec<FuseFile>,
    control: Server,
    wakes: Receiver<Wake>,
}

impl Owner {
    /// Takes the name, starts the array, then its front ends. Members that are added are opened under `overlay`, if there is one.
    ///
    /// # Errors
    /// The name is taken (nothing was started then), or a front end cannot be started (the array has been stopped again).
    pub fn start(
        name: &str,
        assembly: Assembly,
        options: &RunOptions,
        front_ends: &FrontEnds,
        overlay: Option<PathBuf>,
    ) -> anyhow::Result<Owner> {
        let (wake, wakes) = channel();
        watch_signals(wake.clone())?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            array: OnceLock::new(),
            nbd: OnceLock::new(),
            fuse: OnceLock::new(),
            overlay,
            speed: Mutex::default(),
            wake,
        });
        let answers = Arc::clone(&shared);
        let control =
            Server::start(&socket_path(name)?, Arc::new(move |call| answers.answer(call))).map_err(|error| match error {
                ServeError::SocketInUse { .. } => {
                    anyhow::anyhow!("an array named {name} is running already; choose another --name")
                }
                other => other.into(),
            })?;
        // Whatever is wrong with a front end is found before the array is started, which writes.
        let sockets = front_ends.nbd.iter().map(|listen| NbdSocket::bind(listen, front_ends.nbd_allow_remote));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let points = front_ends.fuse.iter().map(|path| MountPoint::prepare(path)).collect::<Result<Vec<_>, _>>()?;
        let array = Array::start(assembly, options);
        let _first = shared.array.set(array.clone());
        let mut owner = Owner { shared, array, nbd: Vec::new(), fuse: Vec::new(), control, wakes };
        if let Err(error) = owner.serve(sockets, points) {
            owner.end(true).map_err(anyhow::Error::msg)?;
            return Err(error);
        }
        Ok(owner)
    }

    fn serve(&mut self, sockets: Vec<NbdSocket>, points: Vec<MountPoint>) -> anyhow::Result<()> {
        // One adapter for all, so that unaligned writes through different front ends cannot undo each other.
        let target: Arc<dyn Target> = Arc::new(ByteTarget::new(Arc::new(ArrayTarget::new(self.array.clone()))));
        for socket in sockets {
            let options = NbdOptions {
                name: self.shared.name.clone(),
                description: self.array.status().map(|status| describe(&status)).unwrap_or_default(),
                ..NbdOptions::default()
            };
            self.nbd.push(NbdServer::start_on(Arc::clone(&target), socket, options)?);
        }
        for point in points {
            self.fuse.push(FuseFile::start_on(Arc::clone(&target), point, &FuseOptions::default())?);
        }
        let _first = self.shared.nbd.set(self.nbd.iter().map(|server| server.address().to_string()).collect());
        let _first =
            self.shared.fuse.set(self.fuse.iter().map(|file| file.path().to_string_lossy().into_owned().into()).collect());
        Ok(())
    }

    /// The array as it is now.
    ///
    /// # Errors
    /// It has ended by itself.
    pub fn report(&self) -> anyhow::Result<Running> {
        self.shared.report().map_err(anyhow::Error::msg)
    }

    /// Waits until a signal or `uraid stop` ends the array, and ends it: front ends drained, everything durable, marked clean.
    /// Gives the array's last state.
    ///
    /// # Errors
    /// The array's thread has ended by itself.
    pub fn run(mut self) -> anyhow::Result<Status> {
        loop {
            let woken = self.wakes.recv_timeout(LOOK);
            let Some(status) = self.array.status() else {
                bail!("{}: the array has ended by itself; its superblocks show it as not cleanly stopped", self.shared.name);
            };
            match woken {
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    lock(&self.shared.speed).note(&status, Instant::now());
                }
                Ok(Wake::Signal(signal)) => {
                    tracing::info!("signal {signal}: stopping");
                    self.end(true).map_err(anyhow::Error::msg)?;
                    return Ok(status);
                }
                Ok(Wake::Stop(answer)) => {
                    let ended = self.end(false);
                    let is_over = ended.is_ok();
                    // A caller that has gone away does not keep the array alive.
                    let _gone = answer.send(ended);
                    if is_over {
                        if !self.control.finish(LAST_ANSWER) {
                            tracing::warn!("a client of the control socket has not taken its answer");
                        }
                        return Ok(status);
                    }
                }
            }
        }
    }

    /// Ends front ends, array and control socket, in this order. Unless `always`, a FUSE file that is in use keeps it all running.
    fn end(&mut self, always: bool) -> Result<(), String> {
        for file in &mut self.fuse {
            match file.stop() {
                Err(error) if !always => return Err(error.to_string()),
                // Its drop detaches it and says so.
                _ => {}
            }
        }
        self.fuse.clear();
        for server in &mut self.nbd {
            if !server.stop() {
                tracing::warn!("{}: requests were still in flight", server.address());
            }
        }
        self.nbd.clear();
        self.array.stop();
        self.control.stop();
        Ok(())
    }
}

fn watch_signals(wake: Sender<Wake>) -> anyhow::Result<()> {
    let mut signals = Signals::new(crate::signals::to_end_by()).context("cannot catch signals")?;
    let watch = move || {
        for signal in signals.forever() {
            // The owner that has ended is stopping already.
            let _gone = wake.send(Wake::Signal(signal));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("cannot start a thread")?;
    Ok(())
}

/// Where the member is that the array calls `name`.
fn path_of(name: &str) -> String {
    full(Path::new(name)).map_or_else(|_| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// `raid6 of 16, left-symmetric`.
fn describe(status: &Status) -> String {
    let layout = if status.layout == "-" { String::new() } else { format!(", {}", status.layout) };
    format!("{} of {}{layout}", status.level, status.raid_disks)
}

impl Shared {
    /// The answer to one line.
    fn answer(&self, call: Value) -> Value {
        let answer = match serde_json::from_value(call) {
            Ok(request) => self.obey(request),
            Err(error) => Err(format!("not understood: {error}")),
        };
        match answer {
            Ok(payload) => json!({ "ok": payload }),
            Err(why) => json!({ "error": why }),
        }
    }

    fn obey(&self, request: Request) -> Result<Value, String> {
        let array = self.array()?;
        let command = |command| array.command(command).map(|()| Value::Null).map_err(|error| error.to_string());
        match request {
            Request::Status => serde_json::to_value(self.report()?).map_err(|error| error.to_string()),
            Request::Fail { member } => command(Command::Fail { name: self.own_name(&member)? }),
            Request::Remove { member } => command(Command::Remove { name: self.own_name(&member)? }),
            Request::Add { member, force } => self.join(&member, false, force),
            Request::ReAdd { member, force } => self.join(&member, true, force),
            Request::Resync => command(Command::StartSync(SyncKind::Resync)),
            Request::Check => command(Command::StartSync(SyncKind::Check)),
            Request::Repair => command(Command::StartSync(SyncKind::Repair)),
            Request::StopSync => command(Command::StopSync),
            Request::SyncSpeed { min_kib, max_kib } => command(Command::SetSyncSpeed(SyncSpeed { min_kib, max_kib })),
            Request::Stop => self.stop(),
        }
    }

    fn array(&self) -> Result<&Array, String> {
        self.array.get().ok_or_else(|| "still starting; try again in a moment".to_owned())
    }

    fn status(&self) -> Result<Status, String> {
        self.array()?.status().ok_or_else(|| "the array has stopped".to_owned())
    }

    fn report(&self) -> Result<Running, String> {
        let status = self.status()?;
        let mut speed = lock(&self.speed);
        speed.note(&status, Instant::now());
        let (speed_kib_s, finish_s) = speed.of(&status);
        Ok(Running {
            name: self.name.clone(),
            pid: std::process::id(),
            nbd: self.nbd.get().cloned().unwrap_or_default(),
            fuse: self.fuse.get().cloned().unwrap_or_default(),
            speed_kib_s,
            member_paths: status.members.iter().map(|member| path_of(&member.name)).collect(),
            finish_s,
            array: status,
        })
    }

    /// The name that the array has for a member, by whatever path it was named.
    fn own_name(&self, member: &MemberName) -> Result<String, String> {
        let names = self.status()?.members.into_iter().map(|member| member.name);
        let is_meant = |name: &String| full(Path::new(name)).is_ok_and(|path| path == member.path);
        let mut names = names.filter(|name| is_meant(name) || *name == member.name).collect::<Vec<_>>();
        // The path decides; two members may be called the same from two directories.
        names.sort_by_key(|name| !is_meant(name));
        names.into_iter().next().ok_or_else(|| format!("{}: not a member of this array", member.name))
    }

    fn join(&self, member: &MemberName, again: bool, force: bool) -> Result<Value, String> {
        if let Ok(name) = self.own_name(member) {
            let status = self.status()?;
            let faulty = status.members.iter().any(|member| member.name == name && member.state == "faulty");
            let hint = if faulty { "; 'remove' it first" } else { "" };
            return Err(format!("{}: already a member of this array{hint}", member.name));
        }
        let device = open_over(&member.path, self.overlay.as_deref(), OpenOptions::own()).map_err(|error| error.to_string())?;
        self.array()?.join_device(device, again, force).map(|()| Value::Null).map_err(|error| error.to_string())
    }

    fn stop(&self) -> Result<Value, String> {
        let (answer, ended) = channel();
        self.wake.send(Wake::Stop(answer)).map_err(|_| "it is stopping already")?;
        ended.recv().map_err(|_| "it is stopping already")?.map(|()| Value::Null)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_one_run() {
        let start = Instant::now();
        let sync = |kind: &str, done_sectors| {
            let sync = json!({ "kind": kind, "done_sectors": done_sectors, "end_sectors": 8192, "mismatch_sectors": 0,
                "unreadable_sectors": 0, "complete": false });
            serde_json::from_value::<Status>(json!({ "level": "raid1", "layout": "-", "layout_number": 0, "size_bytes": 0,
                "chunk_bytes": 0, "member_bytes": 0, "raid_disks": 2, "metadata": "1.2", "uuid": "", "name": "", "events": 1,
                "state": "", "degraded": 0, "resync_pending": true, "read_only": false, "broken": null, "members": [],
                "up": "UU", "sync": sync, "last_sync": null, "bitmap": null }))
            .unwrap()
        };
        let mut speed = Speed::default();
        assert_eq!(speed.of(&sync("resync", 0)), (0, None));
        speed.note(&sync("resync", 0), start);
        speed.note(&sync("resync", 4096), start + Duration::from_secs(2));
        // 2 MiB in 2 s, and 2 MiB to go.
        assert_eq!(speed.of(&sync("resync", 4096)), (1024, Some(2)));
        speed.note(&sync("check", 1024), start + Duration::from_secs(3));
        assert_eq!(speed.of(&sync("check", 1024)), (0, None), "another run begins anew");
    }
}
