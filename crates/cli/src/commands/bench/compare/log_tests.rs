use super::*;

/// Published figures: kernel, gen(), xor() in MB/s.
const E5_2687W_V3: [(&str, u32, u32); 6] = [
    ("sse2x1", 11441, 8099),
    ("sse2x2", 13359, 8910),
    ("sse2x4", 16128, 10009),
    ("avx2x1", 22242, 15406),
    ("avx2x2", 25699, 16521),
    ("avx2x4", 29847, 18617),
];
const W_2145: [(&str, u32, u32); 9] = [
    ("sse2x1", 13144, 9962),
    ("sse2x2", 16863, 11425),
    ("sse2x4", 19089, 11988),
    ("avx2x1", 26285, 19335),
    ("avx2x2", 33953, 21255),
    ("avx2x4", 38492, 19722),
    ("avx512x1", 37621, 21017),
    ("avx512x2", 46859, 26173),
    ("avx512x4", 54210, 28041),
];
const EPYC_7601: [(&str, u32, u32); 6] = [
    ("sse2x1", 6136, 5931),
    ("sse2x2", 12941, 8173),
    ("sse2x4", 13089, 7318),
    ("avx2x1", 15164, 10990),
    ("avx2x2", 20316, 11886),
    ("avx2x4", 20726, 10095),
];

fn lines(rates: &[(&str, u32, u32)], recovery: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (kernel, made, updated) in rates {
        lines.push(format!("raid6: {kernel:<8} gen() {made:5} MB/s"));
        lines.push(format!("raid6: {kernel:<8} xor() {updated:5} MB/s"));
    }
    let (kernel, made, updated) = rates[rates.len() - 1];
    lines.push(format!("raid6: using algorithm {kernel} gen() {made} MB/s"));
    lines.push(format!("raid6: .... xor() {updated} MB/s, rmw enabled"));
    lines.push(format!("raid6: using {recovery} recovery algorithm"));
    lines
}

fn assert_is(machine: &Machine, rates: &[(&str, u32, u32)], recovery: &str) {
    let expected = |pick: fn(&(&str, u32, u32)) -> u32| -> Vec<Named> {
        rates.iter().map(|row| named(row.0, f64::from(pick(row)))).collect()
    };
    assert_eq!(machine.generate, expected(|row| row.1));
    assert_eq!(machine.update, expected(|row| row.2));
    let (kernel, made, updated) = rates[rates.len() - 1];
    assert_eq!(machine.chosen, Some(named(kernel, f64::from(made))));
    assert_eq!(machine.chosen_update_mib_per_second, Some(f64::from(updated)));
    assert_eq!(machine.recovery.as_deref(), Some(recovery));
}

#[test]
fn one_mail_with_three_machines_is_three_machines() {
    let heads =
        ["Xeon E5-2687W v3:", "And here a W-2145 at work, newer kernel but the same settings as the other one has:", "EPYC 7601"];
    let logs = [lines(&E5_2687W_V3, "avx2x2"), lines(&W_2145, "avx512x2"), lines(&EPYC_7601, "avx2x2")];
    for prefix in [
        "",
        "> ",
        ">> > [    0.123456] ",
        "[    1.5] ",
        "Nov 30 12:00:00 box kernel: ",
        "Nov 30 12:00:00 box kernel: [ 3.25] ",
        "<6>[ 0.1] ",
    ] {
        for end in ["\n", "\r\n"] {
            let mut mail = String::new();
            for (head, log) in heads.iter().zip(&logs) {
                mail += &format!("> {head}{end}{end}");
                log.iter().for_each(|line| mail += &format!("{prefix}{line}{end}"));
            }
            let found = machines(&mail);
            assert_eq!(found.len(), 3, "{mail}");
            assert_is(&found[0], &E5_2687W_V3, "avx2x2");
            assert_is(&found[1], &W_2145, "avx512x2");
            assert_is(&found[2], &EPYC_7601, "avx2x2");
            let names: Vec<&str> = found.iter().map(|machine| machine.name.as_str()).collect();
            assert_eq!(names, ["Xeon E5-2687W v3", "", "EPYC 7601"]);
        }
    }
    // With nothing between them the figures themselves tell: they come a second time.
    assert_eq!(machines(&logs.concat().join("\n")).len(), 3);
}

#[test]
fn other_lines_of_the_log_do_not_part_a_machine() {
    let mut log =
        String::from("[ 0.08] smpboot: CPU0: AMD EPYC 7601 32-Core Processor (family: 0x17, model: 0x1, stepping: 0x2)\n");
    for (index, line) in lines(&EPYC_7601, "avx2x2").iter().enumerate() {
        log += &format!("[ {index}.5] {line}\n[ {index}.6] tsc: Refined TSC clocksource calibration: 2194.8 MHz\n");
    }
    log += "[ 30.0] xor: automatically using best checksumming function   avx       \n";
    let found = machines(&log);
    assert_eq!(found.len(), 1);
    assert_is(&found[0], &EPYC_7601, "avx2x2");
    assert_eq!(
        (found[0].name.as_str(), found[0].chosen_xor.as_ref().unwrap().kernel.as_str()),
        ("AMD EPYC 7601 32-Core Processor", "avx")
    );
}

#[test]
fn checksum_lines_of_all_ages() {
    let old = "raid5: automatically using best checksumming function: pIII_sse\n   pIII_sse  :  3490.000 MB/sec\n\
               raid5: using function: pIII_sse (3490.000 MB/sec)\n";
    let found = machines(old);
    assert_eq!((found.len(), &found[0].chosen_xor), (1, &Some(named("pIII_sse", 3490.0))));
    let measured = "xor: measuring software checksum speed\n   8regs     :  1234.000 MB/sec\n   p5_mmx    :  6229.000 MB/sec\n\
                    xor: using function: p5_mmx (6229.000 MB/sec)\n";
    let found = machines(measured);
    assert_eq!(found[0].xor, [named("8regs", 1234.0), named("p5_mmx", 6229.0)]);
    assert_eq!(found[0].chosen_xor, Some(named("p5_mmx", 6229.0)));
    let new = "raid6: skipped pq benchmark and selected avx512x4\nraid6: using avx512x2 recovery algorithm\n\
               xor: using function: avx (24832.000 MB/sec)";
    let found = machines(new);
    assert_eq!(
        (found.len(), &found[0].chosen, &found[0].chosen_xor),
        (1, &Some(named("avx512x4", 0.0)), &Some(named("avx", 24832.0)))
    );
    assert!(found[0].best_generate().is_none());
}

#[test]
fn resync_speeds_are_the_median_of_those_seen() {
    let text = "processor: EPYC 7601\nmd0 : active raid6 loop0[0]\n  [16/16] [UUUUUUUUUUUUUUUU]\n\
                [=>..]  resync =  5.0% (1/2) finish=4.1min speed=34671K/sec\n\
                [=>..]  resync =  9.0% (1/2) finish=4.1min speed=34000K/sec\n\
                [=>..]  resync = 19.0% (1/2) finish=4.1min speed=35000K/sec\n";
    let found = machines(text);
    let resync = found[0].main_resync().unwrap();
    assert_eq!((resync.kib_per_second_and_member, resync.members, resync.parities), (34671.0, Some(16), 2));
    let found = machines("md1 : active (read-only) raid5 a[0]\n [5/4] [_UUUU]\n resync = 1% speed=1000K/sec");
    let resync = found[0].main_resync().unwrap();
    assert_eq!((resync.members, resync.parities), (Some(5), 1));
}

#[test]
fn garbage_is_no_machine() {
    let pieces = [
        "raid6:",
        "raid6: ",
        "gen()",
        "xor()",
        "xor:",
        "raid5: ",
        ":",
        "[",
        "]",
        "[0.1]",
        ">",
        "<",
        "MB/s",
        "using",
        "algorithm",
        "speed=",
        "resync",
        "K/sec",
        "99999999999999999999999",
        "-1",
        "NaN",
        "inf",
        "ß",
        "\u{0}",
        "\r",
        "\n",
        " ",
        "[U",
        "/",
        "] [U",
        "CPU",
        "kernel: ",
    ];
    let mut state = 1_u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += pieces[(state >> 33) as usize % pieces.len()];
        }
        machines(&text);
    }
    for text in [
        "",
        "nothing here",
        "raid6: avx2x4 gen() many MB/s",
        "raid6: avx2x4 gen() -5 MB/s",
        "raid6: avx2x4 gen() NaN MB/s",
        "speed=1K/sec",
        "{}",
    ] {
        assert!(machines(text).is_empty(), "{text}");
    }
}
