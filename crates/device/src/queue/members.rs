//! The members of a queue, and what a queue refuses before any back end sees it.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::{Completion, Io};
use crate::{Device, DeviceError};

#[derive(Default)]
pub(super) struct Members(Vec<Member>);

struct Member {
    name: String,
    /// `None` once removed.
    device: Option<Arc<dyn Device>>,
}

impl Members {
    pub fn add(&mut self, device: Arc<dyn Device>) -> usize {
        self.0.push(Member { name: device.info().name.clone(), device: Some(device) });
        self.0.len() - 1
    }

    pub fn remove(&mut self, member: usize) {
        if let Some(member) = self.0.get_mut(member) {
            member.device = None;
        }
    }

    /// Is the member there, and not removed?
    pub fn has(&self, member: usize) -> bool {
        self.0.get(member).is_some_and(|member| member.device.is_some())
    }

    /// The member that `io` is for, when it is there and takes such an operation; else `io` completed with the reason.
    pub fn admit(&self, io: Io) -> Result<(Arc<dyn Device>, Io), Completion> {
        let member = self.0.get(io.member);
        let (operation, offset_bytes, len_bytes) = (io.op.operation(), io.op.offset_bytes(), io.op.len_bytes());
        let found = match member.and_then(|member| member.device.as_ref()) {
            Some(device) => device.check(operation, offset_bytes, len_bytes).map(|()| Arc::clone(device)),
            None => {
                let name = member.map_or_else(|| format!("member {}", io.member), |member| member.name.clone());
                let source = io::Error::new(ErrorKind::NotConnected, "not a member of this queue, or no longer");
                Err(DeviceError::at(name, operation, offset_bytes, len_bytes, source))
            }
        };
        match found {
            Ok(device) => Ok((device, io)),
            Err(error) => Err(complete(io, Err(error))),
        }
    }
}

pub(super) fn complete(io: Io, result: Result<(), DeviceError>) -> Completion {
    Completion { token: io.token, member: io.member, op: io.op, result }
}
