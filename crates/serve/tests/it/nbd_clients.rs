//! The NBD server against the clients that people use.

use std::sync::Arc;

use uraid_serve::{Listen, MemoryTarget, NbdOptions, NbdServer, Target};

use crate::support::{have, pattern, run, skip, try_run};

const SIZE: u64 = 8 << 20;

struct Served {
    memory: Arc<MemoryTarget>,
    uri: String,
    dir: tempfile::TempDir,
    _server: NbdServer,
}

fn served(block_bytes: u32) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd");
    let memory = Arc::new(MemoryTarget::new(SIZE, block_bytes));
    let options = NbdOptions { name: "md0".into(), description: "six members of RAID6".into(), ..NbdOptions::default() };
    let server = NbdServer::start(Arc::clone(&memory) as Arc<dyn Target>, Listen::Unix(path.clone()), options).unwrap();
    let uri = format!("nbd+unix:///md0?socket={}", path.display());
    Served { memory, uri, dir, _server: server }
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let served = served(512);
    let info: serde_json::Value = serde_json::from_str(&run("nbdinfo", &["--json", &served.uri])).unwrap();
    assert_eq!((&info["protocol"], &info["structured"]), (&"newstyle-fixed".into(), &true.into()));
    let export = &info["exports"][0];
    assert_eq!(export["export-name"], "md0");
    assert_eq!(export["description"], "six members of RAID6");
    assert_eq!(export["export-size"], SIZE);
    assert_eq!(export["contexts"], serde_json::json!(["base:allocation"]));
    for can in ["can_cache", "can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
        assert_eq!(export[can], true, "{can}");
    }
    assert_eq!(export["is_read_only"], false);
    assert_eq!((&export["block_size_minimum"], &export["block_size_maximum"]), (&1.into(), &(32 << 20).into()));
    assert_eq!(export["block_size_preferred"], 64 << 10);
    let list: serde_json::Value = serde_json::from_str(&run("nbdinfo", &["--list", "--json", &served.uri])).unwrap();
    assert_eq!(list["exports"][0]["export-name"], "md0");
    let map = run("nbdinfo", &["--map", "--json", &served.uri]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    assert_eq!(map[0]["length"], SIZE);
    assert_eq!(map[0]["type"], 0, "all of it is data");
    assert!(!try_run("nbdinfo", &[&served.uri.replace("md0", "md1")]).0, "an unknown export");
}

#[test]
fn nbdcopy_copies_by_tcp() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let memory = Arc::new(MemoryTarget::new(SIZE, 512));
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = NbdServer::start(Arc::clone(&memory) as Arc<dyn Target>, listen, NbdOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    let bytes = pattern(SIZE as usize, 13);
    std::fs::write(&from, &bytes).unwrap();
    run("nbdcopy", &[from.to_str().unwrap(), &format!("nbd://{}", server.address())]);
    assert!(memory.contents() == bytes);
}

#[test]
fn nbdcopy_copies_both_ways() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let served = served(4096);
    let (from, to) = (served.dir.path().join("from"), served.dir.path().join("to"));
    let bytes = pattern(SIZE as usize, 11);
    std::fs::write(&from, &bytes).unwrap();
    run("nbdcopy", &["--flush", from.to_str().unwrap(), &served.uri]);
    assert_eq!(served.memory.contents(), bytes);
    run("nbdcopy", &["--connections=4", &served.uri, to.to_str().unwrap()]);
    assert_eq!(std::fs::read(to).unwrap(), bytes);
}

/// nbdsh is a script; the module that it needs is another package.
fn have_nbdsh() -> bool {
    have(&["nbdsh"]) && (try_run("nbdsh", &["-c", "pass"]).0 || skip("nbdsh has no Python module nbd"))
}

#[test]
fn nbdsh_tries_every_command_unaligned() {
    if !have_nbdsh() {
        return;
    }
    let served = served(4096);
    let script = r#"
assert h.can_multi_conn() and h.can_meta_context("base:allocation")
h.pwrite(b"hello" * 100, 4090, nbd.CMD_FLAG_FUA)
assert h.pread(500, 4090) == b"hello" * 100
chunks = []
def chunk(data, offset, status, error):
    chunks.append((bytes(data), offset, status))
h.pread_structured(500, 4090, chunk, nbd.CMD_FLAG_DF)
assert chunks == [(b"hello" * 100, 4090, nbd.READ_DATA)], chunks
h.zero(10, 4095, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(20, 4090) == b"hello" + bytes(10) + b"hello"
h.zero(8000, 5000, nbd.CMD_FLAG_FAST_ZERO)
h.trim(4096, 8192, nbd.CMD_FLAG_FUA)
h.cache(8000, 100)
h.flush()
def extents(context, offset, entries, error):
    assert context == "base:allocation" and entries == [1000, 0], (context, entries)
h.block_status(1000, 3, extents, nbd.CMD_FLAG_REQ_ONE)
h.set_strict_mode(0)
for call in [lambda: h.pread(1, h.get_size()), lambda: h.pread(34 << 20, 0), lambda: h.trim(2, h.get_size() - 1)]:
    try:
        call()
        assert False, "it was not refused"
    except nbd.Error as error:
        assert error.errno in ("EINVAL", "ENOSPC"), error
assert h.pread(5, 4090) == b"hello"
cookies = [h.aio_pread(nbd.Buffer(65536), at * 65536) for at in range(64)]
while cookies:
    h.poll(-1)
    cookies = [cookie for cookie in cookies if not h.aio_command_completed(cookie)]
h.shutdown()
"#;
    run("nbdsh", &["--base-allocation", "-u", &served.uri, "-c", script]);
}

#[test]
fn nbdsh_connects_the_old_way() {
    if !have_nbdsh() {
        return;
    }
    let served = served(512);
    let script = r#"
h.set_opt_mode(True)
h.set_handshake_flags(FLAGS)
h.set_request_structured_replies(False)
h.connect_uri("URI")
h.opt_go()
h.pwrite(b"x", 1)
assert h.pread(2, 0) == b"\0x"
h.shutdown()
"#;
    for flags in ["nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE", "nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE | nbd.HANDSHAKE_FLAG_NO_ZEROES"] {
        run("nbdsh", &["-c", &script.replace("FLAGS", flags).replace("URI", &served.uri)]);
    }
    // Without options at all there is only EXPORT_NAME.
    let oldest = script.replace("FLAGS", "0").replace("h.set_opt_mode(True)", "").replace("h.opt_go()", "");
    run("nbdsh", &["-c", &oldest.replace("URI", &served.uri)]);
}

#[test]
fn qemu_writes_reads_and_compares() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let served = served(512);
    let image = served.dir.path().join("image");
    std::fs::write(&image, pattern(SIZE as usize, 12)).unwrap();
    let image = image.to_str().unwrap();
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", image, &served.uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &served.uri]);
    let steps = [
        "write -P 0x5a 1000 3000",
        "read -P 0x5a 1000 3000",
        "write -f -P 0x11 64k 64k",
        "write -z -u 100k 20k",
        "read -P 0 100k 20k",
        "discard 1M 1M",
        "flush",
        "read -P 0x11 64k 36k",
    ];
    let mut arguments = vec!["-f", "raw"];
    steps.iter().for_each(|step| arguments.extend(["-c", step]));
    arguments.push(&served.uri);
    let said = run("qemu-io", &arguments);
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
    assert!(!try_run("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &served.uri]).0, "they differ now");
}

#[test]
fn fio_verifies_random_writes() {
    if !have(&["fio"]) {
        return;
    }
    let served = served(4096);
    if !try_run("fio", &["--enghelp=nbd"]).0 {
        skip("fio has no nbd engine");
        return;
    }
    let uri = format!("--uri={}", served.uri);
    let arguments = [
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=512-64k",
        "--bs_unaligned=0",
        "--iodepth=32",
        "--size=8m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--fsync=64",
    ];
    run("fio", &arguments);
}
