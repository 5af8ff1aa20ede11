//! The name of the processor, so that saved reports say what they are of.

/// As `/proc/cpuinfo` has it; `None` where it has no name, or no such file is there.
pub fn name() -> Option<String> {
    model(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn model(cpuinfo: &str) -> Option<String> {
    let value = |line: &str| {
        line.strip_prefix("model name").and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim().to_owned())
    };
    cpuinfo.lines().find_map(value).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_model_is_named() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7601 32-Core Processor\n";
        assert_eq!(super::model(text).as_deref(), Some("AMD EPYC 7601 32-Core Processor"));
        assert_eq!(super::model("model name\t:\n"), None);
    }
}
