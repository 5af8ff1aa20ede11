//! The kernel's modules: where each one is, and in which order they can be loaded.
//!
//! The unpacked package has no `modules.dep`, and a guest that loads only what it is told needs none: each module file
//! names what it depends on in its `.modinfo` section, as `depends=a,b`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What every guest gets. `crc32c_generic` comes first since `libcrc32c` asks for the algorithm only when it starts.
pub(crate) const ALWAYS: &[&str] =
    &["crc32c_generic", "md_mod", "linear", "raid0", "raid1", "raid10", "raid456", "loop", "nbd", "ext4"];

/// Every module below `dir`, by name.
pub(crate) fn index(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if let (Some("ko"), Some(stem)) = (path.extension().and_then(|e| e.to_str()), path.file_stem()) {
                found.insert(name_of(&stem.to_string_lossy()), path);
            }
        }
    }
    found
}

/// The kernel takes dashes in a module's name for underscores.
fn name_of(stem: &str) -> String {
    stem.replace('-', "_")
}

/// Files of the `wanted` modules and all they depend on, each after what it needs. A name without a file is built into
/// the kernel, or the guest's script will notice.
pub(crate) fn load_order<'a>(
    modules: &'a BTreeMap<String, PathBuf>,
    wanted: impl IntoIterator<Item = &'a str>,
) -> io::Result<Vec<&'a Path>> {
    let mut order = Vec::new();
    for name in wanted {
        visit(modules, &name_of(name), &mut order)?;
    }
    Ok(order)
}

fn visit<'a>(modules: &'a BTreeMap<String, PathBuf>, name: &str, order: &mut Vec<&'a Path>) -> io::Result<()> {
    let Some(path) = modules.get(name) else { return Ok(()) };
    if order.contains(&path.as_path()) {
        return Ok(());
    }
    for needed in depends(&fs::read(path)?) {
        visit(modules, &name_of(&needed), order)?;
    }
    order.push(path);
    Ok(())
}

/// The names in the `depends=` entry of a module file.
fn depends(image: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = image.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let value = image[at + KEY.len()..].split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_comes_after_what_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("6.1/kernel/drivers");
        fs::create_dir_all(&sub).unwrap();
        let module = |name: &str, depends: &str| {
            fs::write(sub.join(format!("{name}.ko")), format!("ELF\0license=X\0depends={depends}\0name=y\0")).unwrap();
        };
        module("raid456", "md-mod,xor");
        module("md-mod", "");
        module("xor", "tx");
        module("tx", "");
        let modules = index(dir.path());
        let order = load_order(&modules, ["raid456", "md-mod", "built_in"]).unwrap();
        let names: Vec<_> = order.iter().map(|p| p.file_stem().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["md-mod", "tx", "xor", "raid456"]);
    }
}
