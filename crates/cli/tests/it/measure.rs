//! `bench` and `quickstart`.

mod compare;

use std::process::Stdio;

use crate::lab::{Lab, PATIENCE, eventually};

#[test]
fn parity_is_measured_in_the_kernels_words() {
    let lab = Lab::new();
    let text = lab.ok(&["bench", "parity", "--duration", "3ms"]).stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // As in the kernel's log: "raid6: sse2x4   gen() 16128 MB/s".
    let rates = |what: &str| lines.iter().filter(|line| line.len() == 5 && line[2] == what && line[4] == "MB/s").count();
    assert!(rates("gen()") >= 4 && rates("gen()") == rates("xor()"), "{text}");
    let using = lines.iter().find(|line| line.get(1..3) == Some(&["using", "algorithm"][..])).unwrap();
    assert!(lines.iter().any(|line| line[1] == using[3] && line[2] == "gen()" && line[3] == using[5]), "{text}");
    assert!(text.contains("raid6: XOR-only limit "), "{text}");
    let last = lines.last().unwrap();
    assert!(last[1] == "using" && last[3..5] == ["recovery", "algorithm,"], "{text}");
}

#[test]
fn every_bench_reports_its_fastest() {
    let lab = Lab::new();
    for what in ["parity", "xor", "crc32c"] {
        let report = lab.ok(&["bench", what, "--duration", "3ms", "--block", "8K", "--json"]).json();
        assert_eq!((report["block_bytes"].as_u64(), &report["report"]), (Some(8192), &format!("bench-{what}").into()));
        let kernels = report["kernels"].as_array().unwrap();
        let rate = |kernel: &&serde_json::Value| kernel["mib_per_second"].as_f64().unwrap_or(0.0);
        let best = kernels.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap();
        assert_eq!(report["fastest"], best["kernel"]);
        for kernel in kernels {
            assert_eq!(kernel["mib_per_second"].is_null(), !kernel["missing"].as_array().unwrap().is_empty(), "{kernel}");
        }
    }
    let report = lab.ok(&["bench", "parity", "--duration", "1ms", "--remeasure", "--json"]).json();
    let limit = |field: &str| report["limit"][field].as_f64().unwrap();
    let share = limit("chosen_mib_per_second") / limit("limit_mib_per_second");
    assert!((share - limit("share_of_limit")).abs() < 1e-9 && report.get("grid").is_none());
    lab.run(&["bench", "parity", "--data-disks", "255"]).expect(2);
    lab.run(&["bench", "xor", "--block", "100"]).expect(2);
}

#[test]
fn a_resync_is_measured_and_nothing_is_left() {
    let lab = Lab::new();
    let dir = lab.text("");
    let bench = ["bench", "resync", "--members", "5", "--member-size", "8M", "--dir", &dir, "--member-rate", "1MB/s"];
    let report = lab.ok(&[&bench[..], &["--json"]].concat()).json();
    assert_eq!((&report["members"], report["passes"].as_array().unwrap().len()), (&5.into(), 2));
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 0);
    for limit in ["bare_reads", "check", "generate", "memory_reads"] {
        assert!(report["limits"][limit].as_f64().unwrap() > 0.0, "{limit}");
    }
    // Members that slow bound any machine. Of what they move, 2 of 7 parts are parity written; then nothing is.
    let on = |pass: usize| &report["passes"][pass]["on_members"];
    assert_eq!([on(0), on(1)].map(|on| on["bound"].as_str().unwrap()), ["members", "members"]);
    assert_eq!([on(0), on(1)].map(|on| on["kib_per_second_and_member"].as_u64().unwrap()), [1024 * 5 / 7, 1024]);
    for pass in report["passes"].as_array().unwrap() {
        let time = |part: &str| pass["time"][part].as_f64().unwrap();
        assert!(time("waiting_seconds") + time("other_programs_seconds") <= time("available_seconds"), "{pass}");
    }

    let text = lab.ok(&[&bench[..], &["--sparse"]].concat()).stdout;
    assert!(
        text.contains("first, sparse, all zeros") && text.contains("waiting") && text.contains("bound by the members"),
        "{text}"
    );
    lab.run(&["bench", "resync", "--member-rate", "0", "--dir", &dir]).expect(2);
}

#[test]
fn the_whole_story_ends_well() {
    let lab = Lab::new();
    let dir = lab.text("");
    let story = ["quickstart", "--members", "6", "--member-size", "12M", "--chunk", "64", "--dir", &dir];
    let report = lab.ok(&[&story[..], &["--json"]].concat()).json();
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 0);
    assert_eq!((&report["equal"], &report["data_bytes"]), (&true.into(), &report["size_bytes"]));
    assert_eq!(report["size_bytes"], 4 * report["used_bytes_per_member"].as_u64().unwrap());
    let steps: Vec<&str> = report["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    let expected = [
        "measure parity code",
        "create",
        "resync",
        "write",
        "fail two members",
        "read with two lost",
        "recover onto two spares",
        "check",
        "stop",
        "assemble again",
        "read again",
    ];
    assert_eq!(steps, expected);
    let published: Vec<u64> = report["published"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["resync_kib_per_second_and_member"].as_u64().unwrap())
        .collect();
    assert_eq!(published, [87_533, 34_671]);

    let text = lab.ok(&[&story[..], &["--keep", "--data", "1M"]].concat()).stdout;
    assert!(text.contains("K/sec a member") && text.contains("all 1.00 MiB of data compared equal"), "{text}");
    let folder = std::fs::read_dir(lab.path("")).unwrap().next().unwrap().unwrap().path();
    let kept: Vec<String> = (0..8).map(|index| folder.join(format!("disk{index}")).to_str().unwrap().to_owned()).collect();
    // Slots 2 and 4 were lost; the spares have taken over.
    let now: Vec<&str> = [0, 1, 3, 5, 6, 7].map(|index| kept[index].as_str()).into();
    lab.ok(&[&["check"], &now[..]].concat());
}

#[test]
fn too_little_room_is_said_before_anything_is_made() {
    let lab = Lab::new();
    let refused = lab.run(&["quickstart", "--dir", &lab.text(""), "--member-size", "1000T"]).expect(1);
    assert!(refused.stderr.contains("free") && refused.stderr.contains("--member-size"), "{}", refused.stderr);
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 0);
    lab.run(&["quickstart", "--members", "3", "--dir", &lab.text("")]).expect(2);
}

#[test]
fn a_signal_ends_the_story_and_clears_up() {
    for signal in ["-INT", "-TERM"] {
        let lab = Lab::new();
        let dir = lab.text("");
        let args = ["quickstart", "--members", "8", "--member-size", "256M", "--dir", &dir];
        let mut child = lab.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the members are made", || std::fs::read_dir(lab.path("")).unwrap().count() == 1);
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        let deadline = std::time::Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(std::time::Instant::now() < deadline, "it goes on after {signal}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{signal}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("stopped by a signal"));
        assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 0, "{signal}");
    }
}

#[test]
fn modelled_members_are_asked_what_the_arithmetic_says() {
    let lab = Lab::new();
    let bench = ["bench", "random-write", "--model", "ssd", "--threads", "16", "--runs", "2", "--blocks", "4K,128K,256K"];
    let report = lab.ok(&[&bench[..], &["--against", "rmw=never", "--svg", "bars.svg", "--json"]].concat()).json();
    let ios: Vec<[f64; 2]> = report["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| {
            assert_eq!(block["rates"]["member_ios"], block["rates"]["promised_member_ios"]);
            [&block["rates"], &block["against"]["rates"]].map(|rates| rates["member_ios"].as_f64().unwrap())
        })
        .collect();
    assert_eq!(ios, [[6.0, 10.0], [8.0, 10.0], [10.0, 10.0]], "the published arithmetic");
    let rates = |report: &serde_json::Value| report["blocks"][0]["rates"].clone();
    let again = lab.ok(&[&bench[..], &["--json"]].concat()).json();
    assert_eq!(rates(&again), rates(&report), "the same seed, the same figures");
    assert!(std::fs::read_to_string(lab.path("bars.svg")).unwrap().contains("128.00 KiB"));
    lab.run(&["bench", "random-write", "--level", "10"]).expect(2);
    lab.run(&["bench", "random-write", "--blocks", "1000"]).expect(2);
}

#[test]
fn sequential_rates_stand_beside_what_the_members_reach() {
    let lab = Lab::new();
    let dir = lab.text("");
    // Data members of how many; what of the members' bytes the array holds.
    for (level, share) in [("0", 1.0), ("1", 0.25), ("5", 0.75), ("6", 0.5), ("10", 0.5), ("linear", 1.0)] {
        let bench = ["bench", "sequential", "--members=4", "--member-size=4M", "--chunk=64", "--runs=3", "--level", level];
        let report = lab.ok(&[&bench[..], &["--dir", &dir, "--svg", "bars.svg", "--json"]].concat()).json();
        let number =
            |at: &str| report.pointer(at).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{at}: {report}"));
        let held = number("/array_bytes") / (4.0 * number("/bytes_per_member"));
        // The members' data is measured in whole pieces of half a MiB.
        assert!((share..share * 1.2).contains(&held), "{level}: {held} of the members' bytes");
        for (what, share) in [("read", 1.0), ("write", held)] {
            let [array, members, reachable, ratio] =
                ["array_mib_per_second", "members_mib_per_second", "reachable_mib_per_second", "ratio"]
                    .map(|key| number(&format!("/{what}/{key}")));
            assert!(array > 0.0 && (reachable / (members * share) - 1.0).abs() < 1e-9, "{level}: {report}");
            assert!((ratio / (array / reachable) - 1.0).abs() < 1e-9, "{level}: {report}");
        }
        assert!(std::fs::read_to_string(lab.path("bars.svg")).unwrap().contains("read, reachable"));
    }
    let left: Vec<_> = std::fs::read_dir(lab.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("uraid-bench")), "{left:?}");
    lab.run(&["bench", "sequential", "--runs=0"]).expect(2);
    let small = lab.run(&["bench", "sequential", "--member-size=300K", "--level=1", "--dir", &dir]).expect(1).stderr;
    assert!(small.contains("--member-size"), "{small}");
}
