//! The members of a new array in order, with `--write-mostly` for those that come after it, as mdadm has it.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

/// See the module.
#[derive(Clone, Debug)]
pub struct MemberList {
    /// As given, the word `missing` too.
    pub paths: Vec<PathBuf>,
    /// By member: does it come after `--write-mostly`?
    pub write_mostly: Vec<bool>,
}

const MEMBERS: &str = "members";
const WRITE_MOSTLY: &str = "write_mostly";

impl MemberList {
    /// Does this stand for a member that is not there?
    pub fn is_missing(path: &Path) -> bool {
        path == Path::new("missing")
    }
}

impl clap::FromArgMatches for MemberList {
    fn from_arg_matches(matches: &ArgMatches) -> Result<MemberList, clap::Error> {
        let paths: Vec<PathBuf> = matches.get_many(MEMBERS).map(|paths| paths.cloned().collect()).unwrap_or_default();
        let given = matches.value_source(WRITE_MOSTLY) == Some(ValueSource::CommandLine);
        let from = if given { matches.index_of(WRITE_MOSTLY) } else { None };
        let places = matches.indices_of(MEMBERS).into_iter().flatten();
        let write_mostly: Vec<bool> = places.map(|place| from.is_some_and(|from| place > from)).collect();
        if given && !write_mostly.contains(&true) {
            let text = "--write-mostly is for the members that come after it; none does\n";
            return Err(clap::Error::raw(ErrorKind::ValueValidation, text));
        }
        Ok(MemberList { paths, write_mostly })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = <MemberList as clap::FromArgMatches>::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for MemberList {
    fn augment_args(command: Command) -> Command {
        let members = Arg::new(MEMBERS)
            .value_name("MEMBER")
            .help("Members, slot by slot, then spares; 'missing' for one that is not there")
            .value_parser(value_parser!(PathBuf))
            .action(ArgAction::Append)
            .num_args(1..)
            .required(true);
        let write_mostly = Arg::new(WRITE_MOSTLY)
            .short('W')
            .long("write-mostly")
            .help("Members after this are read only when nothing else can answer")
            .action(ArgAction::SetTrue);
        command.arg(members).arg(write_mostly)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
