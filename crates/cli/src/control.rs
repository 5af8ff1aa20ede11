//! What a running array is asked over its control socket, and what it answers.
//!
//! One line of JSON each way: `{"op": "status"}`, `{"op": "fail", "member": {"name": "disk3", "path": "/srv/disk3"}}`, and
//! `{"ok": ...}` or `{"error": "why"}` back.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uraid_array::MemberPath;
use uraid_array::core::Status;
use uraid_serve::{ServeError, control};

/// How long a running array may take to answer what it has at hand.
const SOON: Duration = Duration::from_secs(30);
/// How long it may take to finish writing and to stop.
const LATE: Duration = Duration::from_secs(600);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// A [`Running`].
    Status,
    /// Stop using a member.
    Fail {
        /// Which.
        member: MemberName,
    },
    /// Let go of a failed member or a spare.
    Remove {
        /// Which.
        member: MemberName,
    },
    /// Take a new spare.
    Add {
        /// Which.
        member: MemberName,
        /// Whatever it carries.
        force: bool,
    },
    /// Take a member back.
    ReAdd {
        /// Which.
        member: MemberName,
        /// Whatever it carries.
        force: bool,
    },
    /// Start a resync.
    Resync,
    /// Start a check.
    Check,
    /// Start a repair.
    Repair,
    /// Break a check or a repair off.
    StopSync,
    /// Set how fast runs over the array may go, in KiB/s of each member.
    SyncSpeed {
        /// While requests come in; `null` for a window at a time.
        min_kib: Option<u64>,
        /// At most.
        max_kib: Option<u64>,
    },
    /// Finish, mark clean, end the server; the answer comes when all that is done.
    Stop,
}

/// Why a member cannot be called what it is called.
pub const NOT_UTF8: &str =
    "its name is not UTF-8, and reports and the control socket hold nothing else; use a symbolic link to it";

/// A member as it was named, and where that is for whoever has another current directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberName {
    /// As typed.
    pub name: String,
    /// The same as a full path, symbolic links resolved where it exists.
    pub path: PathBuf,
}

impl MemberName {
    /// The member at `path`, seen from the current directory.
    ///
    /// # Errors
    /// There is no current directory, or the name is not UTF-8, which the control socket's JSON has to be.
    pub fn new(path: &Path) -> std::io::Result<MemberName> {
        if path.to_str().is_none() {
            return Err(std::io::Error::new(ErrorKind::InvalidInput, format!("{}: {NOT_UTF8}", path.display())));
        }
        Ok(MemberName { name: path.display().to_string(), path: full(path)? })
    }
}

/// A member's full path, symbolic links resolved where it exists.
///
/// # Errors
/// There is no current directory.
pub fn full(path: &Path) -> std::io::Result<PathBuf> {
    let member = MemberPath::new(path);
    let medium = member.medium.canonicalize().or_else(|_| std::path::absolute(&member.medium))?;
    Ok(member.named(&medium))
}

/// A running array: the answer to [`Request::Status`], and an entry of `uraid status --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// The name it runs under.
    pub name: String,
    /// The process that owns it.
    pub pid: u32,
    /// Where it is served by NBD.
    pub nbd: Vec<String>,
    /// The FUSE files.
    pub fuse: Vec<PathBuf>,
    /// The speed of the run under way, in KiB per second and member; 0 when nothing runs.
    pub speed_kib_s: u64,
    /// Where the members are, in the order of the array's own list; their names there are seen from its owner's directory.
    pub member_paths: Vec<String>,
    /// Seconds until the run ends at that speed; `None` when nothing runs or it stands still.
    pub finish_s: Option<u64>,
    /// The array.
    pub array: Status,
}

/// The array may run, but its control socket is not for this user.
#[derive(Debug)]
pub struct Denied {
    name: String,
    path: PathBuf,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { name, path } = self;
        write!(f, "{name}: {}: permission denied; only the user who runs the array may ask it", path.display())
    }
}

impl std::error::Error for Denied {}

/// Asks the running array `name` and gives what it answered.
///
/// # Errors
/// It does not run, does not answer, or says why it will not.
pub fn call(name: &str, request: &Request) -> anyhow::Result<Value> {
    let path = control::socket_path(name)?;
    let patience = match request {
        Request::Stop | Request::Add { .. } | Request::ReAdd { .. } => LATE,
        _ => SOON,
    };
    let mut answer = control::Client::call(&path, &serde_json::to_value(request)?, patience).map_err(|error| match error {
        ServeError::NotRunning { path, source } if source.kind() == ErrorKind::PermissionDenied => {
            Denied { name: name.to_owned(), path }.into()
        }
        ServeError::NotRunning { .. } => anyhow::anyhow!("{name}: no such array is running{}", others()),
        other => other.into(),
    })?;
    if let Some(why) = answer.get("error") {
        bail!("{name}: {}", why.as_str().unwrap_or("it failed without saying why"));
    }
    Ok(answer.get_mut("ok").map(Value::take).unwrap_or_default())
}

fn others() -> String {
    match control::list() {
        Ok(names) if names.is_empty() => format!(" (none is, in {})", control::run_dir().display()),
        Ok(names) => format!("; these are: {}", names.join(", ")),
        Err(error) => format!(" ({error})"),
    }
}

/// The running array `name`, with where it is served and how fast it goes.
///
/// # Errors
/// As [`call`].
pub fn running(name: &str) -> anyhow::Result<Running> {
    serde_json::from_value(call(name, &Request::Status)?).with_context(|| format!("{name}: its answer is not understood"))
}

/// The running array `name`.
///
/// # Errors
/// As [`call`].
pub fn status(name: &str) -> anyhow::Result<Status> {
    Ok(running(name)?.array)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_written_as_documented() {
        let member = MemberName { name: "d0".into(), path: "/srv/d0".into() };
        let written = [
            (Request::Status, json!({ "op": "status" })),
            (Request::StopSync, json!({ "op": "stop-sync" })),
            (
                Request::SyncSpeed { min_kib: None, max_kib: Some(1000) },
                json!({ "op": "sync-speed", "min_kib": null, "max_kib": 1000 }),
            ),
            (Request::Fail { member: member.clone() }, json!({ "op": "fail", "member": { "name": "d0", "path": "/srv/d0" } })),
            (
                Request::ReAdd { member, force: true },
                json!({ "op": "re-add", "member": { "name": "d0", "path": "/srv/d0" }, "force": true }),
            ),
        ];
        for (request, line) in written {
            assert_eq!(serde_json::to_value(&request).unwrap(), line);
            assert_eq!(serde_json::from_value::<Request>(line).unwrap(), request);
        }
        assert!(serde_json::from_value::<Request>(json!({ "op": "explode" })).is_err());
    }
}
