//! Where the parts of the referee are on this machine.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use crate::modules;

/// A part of the referee that this machine does not have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{part} is missing ({looked}); `cargo xtask test` installs it")]
pub struct Missing {
    /// What is missing, with the Debian package that has it.
    pub part: &'static str,
    /// The places that were looked at.
    pub looked: String,
}

/// A user-mode Linux kernel with its modules, and the programs that a guest needs.
#[derive(Debug, Clone)]
pub struct Referee {
    pub(crate) kernel: PathBuf,
    pub(crate) busybox: PathBuf,
    /// Module name (dashes as underscores) to file.
    pub(crate) modules: BTreeMap<String, PathBuf>,
}

impl Referee {
    /// Looks for the kernel under `$URAID_REFEREE_DIR`, else `$XDG_CACHE_HOME/uraid-referee` (`~/.cache` when unset), else
    /// among the installed packages; and for mdadm and busybox among the installed packages.
    ///
    /// # Errors
    /// [`Missing`] names the first part that was not found.
    pub fn find() -> Result<Self, Missing> {
        let roots = kernel_roots();
        let looked = || roots.iter().map(|r| r.display().to_string()).collect::<Vec<_>>().join(", ");
        let (root, kernel) = roots
            .iter()
            .map(|root| (root, root.join("usr/bin/linux.uml")))
            .find(|(_, kernel)| kernel.is_file())
            .ok_or_else(|| Missing { part: "a user-mode Linux kernel (package user-mode-linux)", looked: looked() })?;
        let modules = modules::index(&root.join("usr/lib/uml/modules"));
        if !modules.contains_key("md_mod") {
            return Err(Missing { part: "the md module of user-mode Linux (package user-mode-linux)", looked: looked() });
        }
        program("mdadm", "mdadm (package mdadm)")?;
        let busybox = program("busybox", "busybox (package busybox-static)")?;
        Ok(Self { kernel, busybox, modules })
    }
}

/// The directories that may hold an unpacked (or the installed) package user-mode-linux, in order of preference.
fn kernel_roots() -> Vec<PathBuf> {
    let var = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    var("URAID_REFEREE_DIR").into_iter().chain(cache.map(|c| c.join("uraid-referee"))).chain([PathBuf::from("/")]).collect()
}

/// Finds a program in the system directories (which a user's `PATH` need not name) or in `PATH`.
pub(crate) fn program(name: &str, part: &'static str) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(PathBuf::from)
        .chain(env::split_paths(&path))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Missing { part, looked: format!("{name} in the system directories and PATH") })
}
