//! Runs a script file under the real md by hand:
//! `cargo run -p uraid-referee --example guest -- SCRIPT [DISK-IMAGE]...`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, error::Error, fs};

use uraid_referee::{Guest, Referee};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let script = fs::read_to_string(args.next().ok_or("usage: guest SCRIPT [DISK-IMAGE]...")?)?;
    let disks: Vec<PathBuf> = args.collect();
    let disks: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
    let output = Referee::find()?.run(&Guest::with_disks(&script, &disks))?;
    print!("{}", output.stdout);
    Ok(ExitCode::from(u8::try_from(output.status).unwrap_or(u8::MAX)))
}
