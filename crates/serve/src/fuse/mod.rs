//! The array's contents as a regular file, by FUSE and without libfuse.
//!
//! The mount point is itself a file: the root of the mounted file system is a regular file, which the kernel allows where the
//! mount point is one. The file has the array's size for ever. Reads and writes go past the page cache, so that other front ends
//! of the same array see them and are seen.

mod filesystem;
mod rewrites;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use self::filesystem::{ArrayFile, Gate};
use crate::{ByteTarget, ServeError, Target};

/// Why a file cannot be a mount point.
const MOUNTED: &str = "something is mounted on it already";

/// How a FUSE file is mounted.
#[derive(Clone, Debug, Default)]
pub struct FuseOptions {
    /// Let other users reach it too, as far as its mode lets them. Without it only the user who serves can, and root cannot either.
    pub allow_other: bool,
}

/// Where a FUSE file is to be. One that had to be made is removed when this is dropped.
pub struct MountPoint {
    /// In full, as the kernel knows mounts.
    path: PathBuf,
    created: bool,
}

impl MountPoint {
    /// Sees to it that `path` is a regular file on which nothing is mounted, so that whatever stands in the way is known before an
    /// array is started for it.
    ///
    /// # Errors
    /// `path` is no regular file, something is mounted there (also a dead FUSE mount), or it cannot be made.
    pub fn prepare(path: &Path) -> Result<MountPoint, ServeError> {
        let mut point = MountPoint { path: path.to_owned(), created: prepare(path)? };
        point.path = path.canonicalize().map_err(ServeError::file(path, "resolve the path"))?;
        Ok(point)
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.created {
            remove(&self.path);
        }
    }
}

/// A mounted FUSE file. It is unmounted when dropped.
pub struct FuseFile {
    path: PathBuf,
    /// Goes when the file is unmounted.
    point: Option<MountPoint>,
    gate: Arc<Gate>,
    session: Option<BackgroundSession>,
}

impl FuseFile {
    /// Shows `target` as the regular file `path`. A file that is there already is hidden until [`FuseFile::stop`]; else one is
    /// made, and removed at the end.
    ///
    /// # Errors
    /// `path` is no regular file, something is mounted there (also a dead FUSE mount), or mounting fails.
    pub fn start(target: Arc<dyn Target>, path: &Path, options: &FuseOptions) -> Result<FuseFile, ServeError> {
        FuseFile::start_on(target, MountPoint::prepare(path)?, options)
    }

    /// Shows `target` as the regular file at `point`.
    ///
    /// # Errors
    /// Something has been mounted there meanwhile, or mounting fails.
    pub fn start_on(target: Arc<dyn Target>, point: MountPoint, options: &FuseOptions) -> Result<FuseFile, ServeError> {
        let path = point.path.clone();
        if is_mount_point(&path) {
            return Err(ServeError::MountPoint { path, reason: MOUNTED.to_owned() });
        }
        let target = ByteTarget::over(target);
        let gate = Gate::new(Arc::clone(&target));
        let file = ArrayFile::new(&*target, Arc::clone(&gate));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("uraid".into()), MountOption::DefaultPermissions];
        config.mount_options.push(if target.read_only() { MountOption::RO } else { MountOption::RW });
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        // One thread takes requests, so that they reach the target in the kernel's order; it waits for none of them.
        config.n_threads = Some(1);
        let mounted = fuser::Session::new(file, &path, &config).and_then(fuser::Session::spawn);
        let session = mounted.map_err(ServeError::file(&path, "mount the FUSE file"))?;
        Ok(FuseFile { path, point: Some(point), gate, session: Some(session) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts. Without an error nothing is in flight any more.
    ///
    /// # Errors
    /// [`ServeError::Busy`] while somebody has the file open; it goes on being served then.
    pub fn stop(&mut self) -> Result<(), ServeError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match unmount(&self.path, false) {
            Ok(()) => {
                if let Err(error) = session.join() {
                    tracing::warn!("{}: the FUSE session ended with an error: {error}", self.path.display());
                }
                self.end();
                Ok(())
            }
            Err(error) => {
                self.session = Some(session);
                Err(error)
            }
        }
    }

    fn end(&mut self) {
        self.gate.close();
        self.point = None;
    }
}

impl Drop for FuseFile {
    fn drop(&mut self) {
        let Err(error) = self.stop() else { return };
        // Nobody can open it any more; whoever has it open gets errors, and the session ends with the last of them.
        tracing::warn!("{error}; it is detached");
        if let Err(error) = unmount(&self.path, true) {
            tracing::error!("{error}");
        }
        self.end();
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!("{}: cannot remove the mount point: {error}", path.display());
    }
}

/// Sees to it that `path` is a regular file on which nothing is mounted; true when it had to be made.
fn prepare(path: &Path) -> Result<bool, ServeError> {
    let unfit = |reason: String| Err(ServeError::MountPoint { path: path.to_owned(), reason });
    let is_dead = |error: &std::io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    let dead = || format!("a FUSE mount whose server has died is in its place; end it with: umount {}", path.display());
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            made.map_err(ServeError::file(path, "create the mount point")).map(|_| true)
        }
        Err(error) if is_dead(&error) => unfit(dead()),
        Err(error) => Err(ServeError::file(path, "examine the mount point")(error)),
        Ok(found) if found.is_dir() => unfit("it is a directory; give a file, which is made if it is missing".into()),
        Ok(found) if !found.is_file() => unfit("it is no regular file".into()),
        // The kernel may still remember the attributes of a dead mount, but it opens nothing there.
        Ok(_) if is_mount_point(path) => match File::open(path) {
            Err(error) if is_dead(&error) => unfit(dead()),
            _ => unfit(MOUNTED.into()),
        },
        Ok(_) => Ok(false),
    }
}

/// Asks the kernel's table of mounts, in which white space and backslashes of a path are written in octal.
fn is_mount_point(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let mut wanted = path.to_string_lossy().replace('\\', "\\134");
    for (character, octal) in [(' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")] {
        wanted = wanted.replace(character, octal);
    }
    let Ok(table) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    table.lines().any(|line| line.split(' ').nth(4) == Some(&*wanted))
}

fn unmount(path: &Path, detach: bool) -> Result<(), ServeError> {
    let flags = if detach { UnmountFlags::DETACH | UnmountFlags::NOFOLLOW } else { UnmountFlags::NOFOLLOW };
    match rustix::mount::unmount(path, flags) {
        Ok(()) => Ok(()),
        // Somebody else has unmounted it.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(ServeError::Busy { path: path.to_owned() }),
        Err(Errno::PERM) => unmount_by_helper(path, detach),
        Err(error) => Err(ServeError::file(path, "unmount the FUSE file")(error.into())),
    }
}

/// Without root the set-user-id helper that mounted it unmounts it.
fn unmount_by_helper(path: &Path, detach: bool) -> Result<(), ServeError> {
    for helper in ["fusermount3", "fusermount"] {
        let Ok(output) = Command::new(helper).arg(if detach { "-uz" } else { "-u" }).arg("--").arg(path).output() else {
            continue;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        return match output.status.success() {
            true => Ok(()),
            false if said.contains("busy") => Err(ServeError::Busy { path: path.to_owned() }),
            false => Err(ServeError::file(path, "unmount the FUSE file")(std::io::Error::other(said.trim().to_owned()))),
        };
    }
    let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "neither fusermount3 nor fusermount is installed");
    Err(ServeError::file(path, "unmount the FUSE file")(missing))
}
