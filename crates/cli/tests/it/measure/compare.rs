//! `bench compare`.

use crate::lab::Lab;

/// Two of the published machines, quoted in one mail.
const MAIL: &str = "\
> Two EPYC 7601:\r
> [    0.600000] raid6: avx2x1   gen() 15164 MB/s\r
> [    0.700000] raid6: avx2x1   xor() 10990 MB/s\r
> [    0.800000] raid6: avx2x2   gen() 20316 MB/s\r
> [    0.900000] raid6: avx2x2   xor() 11886 MB/s\r
> [    1.000000] raid6: avx2x4   gen() 20726 MB/s\r
> [    1.100000] raid6: avx2x4   xor() 10095 MB/s\r
> [    1.100001] raid6: using algorithm avx2x4 gen() 20726 MB/s\r
> [    1.100002] raid6: .... xor() 10095 MB/s, rmw enabled\r
> [    1.100003] raid6: using avx2x2 recovery algorithm\r
>  [==>..]  resync = 11.0% (1/2) finish=4.2min speed=34671K/sec\r
\r
And the workstation that I have here:\r
raid6: avx2x4   gen() 38492 MB/s\r
raid6: avx2x4   xor() 19722 MB/s\r
raid6: avx512x4 gen() 54210 MB/s\r
raid6: avx512x4 xor() 28041 MB/s\r
raid6: using avx512x2 recovery algorithm\r
";

fn lab_with(name: &str, text: &str) -> Lab {
    let lab = Lab::new();
    std::fs::write(lab.path(name), text).unwrap();
    lab
}

#[test]
fn a_mail_is_laid_side_by_side() {
    let lab = lab_with("mail.txt", MAIL);
    let text = lab.ok(&["bench", "compare", "mail.txt", "--svg", "out.svg", "--html", "out.html"]).stdout;
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(line("best gen()")[3..], ["20726", "(1.00)", "54210", "(2.62)"]);
    assert_eq!(line("best xor()")[3..], ["11886", "(1.00)", "28041", "(2.36)"]);
    assert_eq!(line("avx512x4 gen()")[2..], ["-", "54210"]);
    assert_eq!(line("recovery by")[2..], ["avx2x2", "avx512x2"]);
    // 34671 K/sec on 14 data members are 474 MiB/s, 2.3 per cent of 20726.
    assert!(text.contains("mail.txt#2 makes P and Q fastest") && text.contains("2.3 per cent"), "{text}");
    let picture = std::fs::read_to_string(lab.path("out.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("Two EPYC 7601") && picture.contains(">54210</text>"));
    let page = std::fs::read_to_string(lab.path("out.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg ") && page.contains("2.3 per cent"));
}

#[test]
fn own_reports_compare_with_a_log() {
    let lab = lab_with("boot.log", MAIL);
    let parity = lab.ok(&["bench", "parity", "--duration", "3ms", "--json"]);
    std::fs::write(lab.path("parity.json"), &parity.stdout).unwrap();
    let dir = lab.text("");
    let resync = lab.ok(&["bench", "resync", "--members", "5", "--member-size", "8M", "--dir", &dir, "--json"]);
    std::fs::write(lab.path("resync.json"), &resync.stdout).unwrap();
    let report = lab.ok(&["bench", "compare", "boot.log", "parity.json", "resync.json", "--json"]).json();
    let machines = report["machines"].as_array().unwrap();
    // Both reports are of this processor.
    assert_eq!((&report["report"], machines.len()), (&"bench-compare".into(), 3), "{report}");
    assert_eq!(machines[0]["resync"][0]["kib_per_second_and_member"], 34671.0);
    assert_eq!(
        machines[2]["resync"][0]["kib_per_second_and_member"].as_f64(),
        resync.json()["passes"][0]["kib_per_second_and_member"].as_f64()
    );
    let ran = parity.json()["kernels"].as_array().unwrap().iter().filter(|kernel| !kernel["mib_per_second"].is_null()).count();
    assert_eq!(machines[2]["generate"].as_array().unwrap().len(), ran);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let lab = lab_with("noise", "nothing of use\u{0}");
    let refused = lab.run(&["bench", "compare", "noise"]).expect(1);
    assert!(refused.stderr.contains("noise") && refused.stderr.contains("raid6:"), "{}", refused.stderr);
    lab.run(&["bench", "compare", "not-there"]).expect(1);
    lab.run(&["bench", "compare"]).expect(2);
}
