//! The thread that runs an array: it feeds the core with requests and completions and carries out what the core wants.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use uraid_device::{Completion, Device, Queue};
use uraid_engine::{Outcome, Request, RequestId};

use crate::core::{Command, CommandError, Core, Input, NewMember, Notice, Output, Status};

/// Called once, on the array's thread, when a request has ended; it must not block.
pub type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// What the handle sends to the thread.
pub(crate) enum Message {
    Request {
        request: Request,
        reply: Reply,
    },
    Command {
        command: Command,
        answer: Sender<Result<(), CommandError>>,
    },
    /// A command that brings a member along.
    Join {
        device: Arc<dyn Device>,
        member: Box<NewMember>,
        again: bool,
        answer: Sender<Result<(), CommandError>>,
    },
    Status {
        answer: Sender<Status>,
    },
    Shutdown,
}

/// Milliseconds between ticks.
const TICK: Duration = Duration::from_millis(50);
/// Messages taken before completions are looked at again.
const BATCH: usize = 256;

/// See the module.
pub(crate) struct Pump {
    core: Core,
    queue: Box<dyn Queue>,
    messages: Receiver<Message>,
    replies: HashMap<u64, Reply>,
    next_request: u64,
    answers: VecDeque<Sender<Result<(), CommandError>>>,
    outputs: Vec<Output>,
    completions: Vec<Completion>,
    started: Instant,
    last_tick: Option<Instant>,
    stopped: bool,
}

impl Pump {
    pub fn new(core: Core, queue: Box<dyn Queue>, messages: Receiver<Message>) -> Pump {
        Pump {
            core,
            queue,
            messages,
            replies: HashMap::new(),
            next_request: 0,
            answers: VecDeque::new(),
            outputs: Vec::new(),
            completions: Vec::new(),
            started: Instant::now(),
            last_tick: None,
            stopped: false,
        }
    }

    /// Runs until the array has stopped.
    pub fn run(mut self) {
        self.tick();
        self.feed(Input::Start);
        while !self.stopped {
            let more = self.take_messages();
            self.tick();
            let timeout = if more { Duration::ZERO } else { TICK };
            let mut completions = std::mem::take(&mut self.completions);
            self.queue.wait(Some(timeout), &mut completions);
            for Completion { token, op, result, .. } in completions.drain(..) {
                self.feed(Input::Completion { token, op, result });
            }
            self.completions = completions;
        }
        // Whoever still waits hears of it: dropped replies would leave a front end waiting for ever.
        while let Ok(message) = self.messages.try_recv() {
            self.refuse(message);
        }
    }

    /// True when there may be more.
    fn take_messages(&mut self) -> bool {
        for _ in 0..BATCH {
            match self.messages.try_recv() {
                Ok(message) => self.take_message(message),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    // Every handle is gone: nobody could ask for the end any more.
                    self.feed(Input::Shutdown);
                    return false;
                }
            }
        }
        true
    }

    fn take_message(&mut self, message: Message) {
        match message {
            Message::Request { request, reply } => {
                let id = self.next_request;
                self.next_request += 1;
                self.replies.insert(id, reply);
                self.feed(Input::Request { id: RequestId(id), request });
            }
            Message::Command { command, answer } => {
                self.answers.push_back(answer);
                self.feed(Input::Command(command));
            }
            Message::Join { device, mut member, again, answer } => {
                let key = self.queue.add(device);
                member.key = key;
                let (told, result) = crossbeam_channel::bounded(1);
                self.answers.push_back(told);
                self.feed(Input::Command(if again { Command::ReAdd(member) } else { Command::Add(member) }));
                let result = result.try_recv().unwrap_or(Err(CommandError::Broken));
                if result.is_err() {
                    self.queue.remove(key);
                }
                let _gone = answer.send(result);
            }
            Message::Status { answer } => {
                let _gone = answer.send(self.core.status());
            }
            Message::Shutdown => self.feed(Input::Shutdown),
        }
    }

    fn refuse(&mut self, message: Message) {
        match message {
            Message::Request { request, reply } => {
                let id = RequestId(self.next_request);
                self.next_request += 1;
                self.replies.insert(id.0, reply);
                self.feed(Input::Request { id, request });
            }
            Message::Command { answer, .. } | Message::Join { answer, .. } => {
                let _gone = answer.send(Err(CommandError::Broken));
            }
            Message::Status { answer } => {
                let _gone = answer.send(self.core.status());
            }
            Message::Shutdown => {}
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.last_tick.is_some_and(|last| now - last < TICK) {
            return;
        }
        self.last_tick = Some(now);
        let now_ms = u64::try_from((now - self.started).as_millis()).unwrap_or(u64::MAX);
        let wall_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.feed(Input::Tick { now_ms, wall_seconds });
    }

    fn feed(&mut self, input: Input) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.core.handle(input, &mut outputs);
        for output in outputs.drain(..) {
            self.carry_out(output);
        }
        self.outputs = outputs;
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Io(io) => self.queue.submit(io),
            Output::Reply { id, outcome } => {
                if let Some(reply) = self.replies.remove(&id.0) {
                    reply(outcome);
                }
            }
            Output::CommandDone(result) => {
                if let Some(answer) = self.answers.pop_front() {
                    let _gone = answer.send(result);
                }
            }
            Output::Release { key } => self.queue.remove(key),
            Output::Notice(notice) => log(&notice),
            Output::Stopped => self.stopped = true,
        }
    }
}

fn log(notice: &Notice) {
    match notice {
        Notice::MemberLost { name, slot, why } => tracing::error!("{name} ({slot}) has failed: {why}"),
        Notice::SpareLost { name, why } => tracing::error!("spare {name} has failed: {why}"),
        Notice::BitmapLost { name, why } => {
            tracing::error!("the bitmap's file {name} has failed: {why}; after an unclean stop a resync covers the whole array");
        }
        Notice::SpareActivated { name, slot } => tracing::warn!("spare {name} takes over {slot}"),
        Notice::Corrected { name, start, len } => {
            tracing::warn!("{name}: {len} at member data {start} could not be read; rebuilt and rewritten");
        }
        Notice::SyncEnded { progress, complete: true, .. } => {
            tracing::info!("{} done, {} mismatched sectors", progress.kind.name(), progress.mismatch_sectors);
        }
        Notice::SyncEnded { progress, why: None, .. } => {
            tracing::info!("{} stopped at sector {} of {}", progress.kind.name(), progress.done.0, progress.end.0);
        }
        Notice::SyncEnded { progress, why: Some(why), .. } => {
            tracing::warn!("{} ended at sector {} of {}: {why}", progress.kind.name(), progress.done.0, progress.end.0);
        }
    }
}
