//! The handshake: bytes in, bytes and one outcome out. No I/O.
//!
//! Fixed newstyle only. Source of the format: the NetworkBlockDevice project's `proto.md`.

use super::proto::{BASE_ALLOCATION_ID, Session, be32, export_flag};

const INIT_MAGIC: &[u8; 8] = b"NBDMAGIC";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FLAG_FIXED_NEWSTYLE: u32 = 1 << 0;
const FLAG_NO_ZEROES: u32 = 1 << 1;

/// Options by number.
pub mod option {
    /// Choose an export, the old way.
    pub const EXPORT_NAME: u32 = 1;
    /// End the handshake.
    pub const ABORT: u32 = 2;
    /// List exports.
    pub const LIST: u32 = 3;
    /// Encrypt.
    pub const STARTTLS: u32 = 5;
    /// Ask about an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List meta contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose meta contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options by number.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// A piece of information.
    pub const INFO: u32 = 3;
    /// A meta context.
    pub const META_CONTEXT: u32 = 4;
    /// Not supported.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// Malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// Too long.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// Its description.
    pub const DESCRIPTION: u16 = 2;
    /// Sizes of requests.
    pub const BLOCK_SIZE: u16 = 3;
}

const BASE_ALLOCATION: &[u8] = b"base:allocation";
/// Zeros after the reply to EXPORT_NAME that a client without NO_ZEROES waits for.
const OLD_PADDING_BYTES: usize = 124;
const OPTION_HEADER_BYTES: usize = 16;
/// Longest data of an option that is skipped rather than ending the connection.
const MAX_SKIPPED_BYTES: usize = 16 << 20;

/// The export that is offered.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name; the empty name finds it too.
    pub name: String,
    /// For people.
    pub description: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Are writes refused?
    pub read_only: bool,
    /// What clients are told to align to, a power of two of at most 4096; whatever is smaller is served all the same.
    pub block_bytes: u32,
    /// The size of request that is served best, a power of two from 4096.
    pub preferred_bytes: u32,
    /// Most bytes that one READ or WRITE carries.
    pub max_payload_bytes: u32,
}

impl Export {
    /// The transmission flags.
    #[must_use]
    pub fn flags(&self, structured: bool) -> u16 {
        use export_flag as f;
        let mut flags = f::HAS_FLAGS | f::SEND_FLUSH | f::SEND_FUA | f::CAN_MULTI_CONN | f::SEND_CACHE;
        flags |= if self.read_only { f::READ_ONLY } else { f::SEND_TRIM | f::SEND_WRITE_ZEROES | f::SEND_FAST_ZERO };
        flags | if structured { f::SEND_DF } else { 0 }
    }

    fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }
}

/// Limits on what a client may send before it has chosen an export.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeLimits {
    /// Longest data of one option in bytes; longer ones are refused.
    pub max_option_bytes: u32,
    /// Most options; the connection ends after that many.
    pub max_options: u32,
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It takes more bytes, no more than [`Negotiation::wants_bytes`].
    More,
    /// The next byte belongs to the first request.
    Transmission(Session),
    /// Send what is to be sent, then close.
    Close,
}

enum State {
    ClientFlags,
    OptionHeader,
    OptionData { option: u32 },
    Skip { option: u32, left: usize },
    Ended,
}

/// One client's handshake.
pub struct Negotiation {
    export: Export,
    limits: HandshakeLimits,
    state: State,
    buffer: Vec<u8>,
    wants: usize,
    options_seen: u32,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export name for which `base:allocation` was chosen.
    allocation_for: Option<Vec<u8>>,
}

impl Negotiation {
    /// A handshake that has just begun, and the greeting to send.
    #[must_use]
    pub fn new(export: Export, limits: HandshakeLimits) -> (Negotiation, Vec<u8>) {
        let mut greeting = Vec::with_capacity(18);
        greeting.extend(INIT_MAGIC);
        greeting.extend(OPTION_MAGIC);
        greeting.extend(3u16.to_be_bytes());
        let negotiation = Negotiation {
            export,
            limits,
            state: State::ClientFlags,
            buffer: Vec::new(),
            wants: 4,
            options_seen: 0,
            fixed: false,
            no_zeroes: false,
            structured: false,
            allocation_for: None,
        };
        (negotiation, greeting)
    }

    /// How many more bytes belong to the handshake for certain; reading no more than that leaves the first request unread.
    #[must_use]
    pub fn wants_bytes(&self) -> usize {
        match self.state {
            State::Ended => 0,
            State::Skip { left, .. } => left,
            _ => self.wants - self.buffer.len(),
        }
    }

    /// Takes the client's next bytes and appends what is to be sent to `out`.
    ///
    /// # Panics
    /// When given more than [`Negotiation::wants_bytes`].
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Progress {
        assert!(bytes.len() <= self.wants_bytes(), "{} bytes given, {} wanted", bytes.len(), self.wants_bytes());
        if let State::Skip { option, left } = self.state {
            let left = left - bytes.len();
            self.state = State::Skip { option, left };
            if left == 0 {
                reply(out, option, option_reply::ERR_TOO_BIG, b"the option's data is too long");
                self.expect(State::OptionHeader, OPTION_HEADER_BYTES);
            }
            return Progress::More;
        }
        self.buffer.extend_from_slice(bytes);
        let mut progress = Progress::More;
        while self.buffer.len() == self.wants && progress == Progress::More {
            let element = std::mem::take(&mut self.buffer);
            progress = self.step(&element, out);
            if matches!(self.state, State::Skip { .. }) {
                break;
            }
        }
        if progress != Progress::More {
            self.state = State::Ended;
        }
        progress
    }

    fn expect(&mut self, state: State, bytes: usize) {
        self.state = state;
        self.wants = bytes;
    }

    fn step(&mut self, element: &[u8], out: &mut Vec<u8>) -> Progress {
        match self.state {
            State::ClientFlags => {
                let flags = be32(element, 0);
                if flags & !(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
                    return Progress::Close;
                }
                self.fixed = flags & FLAG_FIXED_NEWSTYLE != 0;
                self.no_zeroes = flags & FLAG_NO_ZEROES != 0;
                self.expect(State::OptionHeader, OPTION_HEADER_BYTES);
                Progress::More
            }
            State::OptionHeader => self.header(element),
            State::OptionData { option } => {
                self.expect(State::OptionHeader, OPTION_HEADER_BYTES);
                self.option(option, element, out)
            }
            State::Skip { .. } | State::Ended => Progress::Close,
        }
    }

    fn header(&mut self, header: &[u8]) -> Progress {
        self.options_seen += 1;
        if header[..8] != *OPTION_MAGIC || self.options_seen > self.limits.max_options {
            return Progress::Close;
        }
        let option = be32(header, 8);
        let len = be32(header, 12) as usize;
        // A client of the first newstyle understands no replies to options.
        if !self.fixed && option != option::EXPORT_NAME {
            return Progress::Close;
        }
        if len <= self.limits.max_option_bytes as usize {
            self.expect(State::OptionData { option }, len);
        } else if len <= MAX_SKIPPED_BYTES && option != option::EXPORT_NAME {
            self.expect(State::Skip { option, left: len }, len);
        } else {
            return Progress::Close;
        }
        Progress::More
    }

    fn option(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Progress {
        use option_reply::{ACK, ERR_INVALID, ERR_UNSUP, SERVER};
        match option {
            option::EXPORT_NAME => return self.export_name(data, out),
            option::GO | option::INFO => return self.go(option, data, out),
            option::ABORT => {
                reply(out, option, ACK, b"");
                return Progress::Close;
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                reply(out, option, ERR_INVALID, b"this option takes no data");
            }
            option::LIST => {
                let name = self.export.name.as_bytes();
                let mut server = sized(name);
                server.extend(self.export.description.as_bytes());
                reply(out, option, SERVER, &server);
                reply(out, option, ACK, b"");
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                reply(out, option, ACK, b"");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(option, data, out),
            option::STARTTLS => reply(out, option, ERR_UNSUP, b"this server does not encrypt"),
            _ => reply(out, option, ERR_UNSUP, b"unknown option"),
        }
        Progress::More
    }

    fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Progress {
        // The option has no reply for an error.
        if !self.export.is_called(name) {
            return Progress::Close;
        }
        out.extend(self.export.size_bytes.to_be_bytes());
        out.extend(self.export.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; OLD_PADDING_BYTES]);
        }
        Progress::Transmission(self.session(name))
    }

    fn session(&self, name: &[u8]) -> Session {
        Session { structured: self.structured, base_allocation: self.allocation_for.as_deref() == Some(name) }
    }

    fn go(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let Some((name, wanted)) = parse_go(data) else {
            reply(out, option, option_reply::ERR_INVALID, b"malformed request for an export");
            return Progress::More;
        };
        if !self.export.is_called(name) {
            reply(out, option, option_reply::ERR_UNKNOWN, b"no export of this name");
            return Progress::More;
        }
        let export = &self.export;
        let mut inform = |kind: u16, payload: &[&[u8]]| {
            let mut data = kind.to_be_bytes().to_vec();
            data.extend(payload.concat());
            reply(out, option, option_reply::INFO, &data);
        };
        inform(info::EXPORT, &[&export.size_bytes.to_be_bytes(), &export.flags(self.structured).to_be_bytes()]);
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wanted.contains(&kind) {
                inform(kind, &[text.as_bytes()]);
            }
        }
        if wanted.contains(&info::BLOCK_SIZE) {
            let sizes = [export.block_bytes, export.preferred_bytes, export.max_payload_bytes].map(u32::to_be_bytes);
            inform(info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        }
        reply(out, option, option_reply::ACK, b"");
        if option == option::GO { Progress::Transmission(self.session(name)) } else { Progress::More }
    }

    fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let setting = option == option::SET_META_CONTEXT;
        // A choice replaces the one before, also where it fails.
        if setting {
            self.allocation_for = None;
        }
        if !self.structured {
            return reply(out, option, option_reply::ERR_INVALID, b"meta contexts need structured replies");
        }
        let Some((name, queries)) = parse_queries(data) else {
            return reply(out, option, option_reply::ERR_INVALID, b"malformed meta context queries");
        };
        if !self.export.is_called(name) {
            return reply(out, option, option_reply::ERR_UNKNOWN, b"no export of this name");
        }
        let exact = queries.contains(&BASE_ALLOCATION);
        let found = if setting { exact } else { exact || queries.is_empty() || queries.contains(&&b"base:"[..]) };
        if found {
            // The id means nothing in a list.
            let id = if setting { BASE_ALLOCATION_ID } else { 0 };
            reply(out, option, option_reply::META_CONTEXT, &[&id.to_be_bytes(), BASE_ALLOCATION].concat());
        }
        if setting && found {
            self.allocation_for = Some(name.to_vec());
        }
        reply(out, option, option_reply::ACK, b"");
    }
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(length(data).to_be_bytes());
    out.extend(data);
}

/// A string after its length.
fn sized(text: &[u8]) -> Vec<u8> {
    let mut out = length(text).to_be_bytes().to_vec();
    out.extend(text);
    out
}

fn length(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("names and descriptions are limited to 4096 bytes")
}

/// Splits a string with its length off the front.
fn take_sized(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_at_checked(4)?;
    rest.split_at_checked(be32(len, 0) as usize)
}

/// The export name and the kinds of information asked for.
fn parse_go(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (name, rest) = take_sized(data)?;
    let (count, kinds) = rest.split_at_checked(2)?;
    let count = usize::from(u16::from_be_bytes([count[0], count[1]]));
    let kinds: Vec<u16> = kinds
        .len()
        .eq(&(count * 2))
        .then(|| kinds.chunks_exact(2).map(|kind| u16::from_be_bytes([kind[0], kind[1]])).collect())?;
    Some((name, kinds))
}

/// The export name and the queries.
fn parse_queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = take_sized(data)?;
    let (count, mut rest) = rest.split_at_checked(4)?;
    let mut queries = Vec::new();
    for _ in 0..be32(count, 0) {
        let (query, after) = take_sized(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HandshakeLimits = HandshakeLimits { max_option_bytes: 8192, max_options: 32 };

    fn export() -> Export {
        Export {
            name: "md0".into(),
            description: "RAID6".into(),
            size_bytes: 1 << 30,
            read_only: false,
            block_bytes: 1,
            preferred_bytes: 65536,
            max_payload_bytes: 32 << 20,
        }
    }

    fn opt(option: u32, data: &[u8]) -> Vec<u8> {
        [OPTION_MAGIC.as_slice(), &option.to_be_bytes(), &length(data).to_be_bytes(), data].concat()
    }

    /// Feeds `bytes` in pieces of at most `piece`; what was sent, the outcome and the bytes left over.
    fn run(bytes: &[u8], piece: usize) -> (Vec<u8>, Progress, usize) {
        let (mut negotiation, _) = Negotiation::new(export(), LIMITS);
        let mut out = Vec::new();
        let mut rest = bytes;
        loop {
            let take = negotiation.wants_bytes().min(piece).min(rest.len());
            if take == 0 {
                return (out, Progress::More, rest.len());
            }
            let progress = negotiation.feed(&rest[..take], &mut out);
            rest = &rest[take..];
            if progress != Progress::More {
                return (out, progress, rest.len());
            }
        }
    }

    fn run_options(flags: u32, options: &[Vec<u8>]) -> (Vec<(u32, Vec<u8>)>, Progress) {
        let bytes = [flags.to_be_bytes().to_vec(), options.concat()].concat();
        let (mut out, progress, _) = run(&bytes, usize::MAX);
        let mut replies = Vec::new();
        while out.len() >= 20 && out[..8] == OPTION_REPLY_MAGIC.to_be_bytes() {
            let len = be32(&out, 16) as usize;
            replies.push((be32(&out, 12), out[20..20 + len].to_vec()));
            out.drain(..20 + len);
        }
        (replies, progress)
    }

    fn go(name: &str, kinds: &[u16]) -> Vec<u8> {
        let mut data = sized(name.as_bytes());
        data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
        kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
        opt(option::GO, &data)
    }

    fn queries(option: u32, name: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = sized(name.as_bytes());
        data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
        queries.iter().for_each(|query| data.extend(sized(query.as_bytes())));
        opt(option, &data)
    }

    #[test]
    fn the_greeting_is_fixed_newstyle() {
        let (_, greeting) = Negotiation::new(export(), LIMITS);
        assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
    }

    #[test]
    fn go_informs_and_starts() {
        let (replies, progress) = run_options(3, &[go("", &[info::BLOCK_SIZE, info::NAME, 77])]);
        let kinds: Vec<u32> = replies.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [3, 3, 3, 1]);
        assert_eq!(replies[0].1[..10], [0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]);
        assert_eq!(replies[1].1, b"\0\x01md0");
        assert_eq!(replies[2].1, [0, 3, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0, 0, 0]);
        assert_eq!(progress, Progress::Transmission(Session::default()));
    }

    #[test]
    fn export_name_pads_only_for_old_clients() {
        for (flags, len) in [(1, 134), (3, 10), (0, 134)] {
            let bytes = [u32::to_be_bytes(flags).to_vec(), opt(option::EXPORT_NAME, b"md0"), vec![9; 5]].concat();
            let (out, progress, left) = run(&bytes, usize::MAX);
            assert_eq!((out.len(), progress, left), (len, Progress::Transmission(Session::default()), 5));
        }
        assert_eq!(run_options(3, &[opt(option::EXPORT_NAME, b"other")]).1, Progress::Close);
    }

    #[test]
    fn a_context_counts_only_for_the_export_it_was_chosen_for() {
        let structured = opt(option::STRUCTURED_REPLY, b"");
        let set = queries(option::SET_META_CONTEXT, "md0", &["x:y", "base:allocation"]);
        let (replies, progress) = run_options(3, &[structured.clone(), set.clone(), go("md0", &[])]);
        assert_eq!(replies[1], (4, b"\0\0\0\x01base:allocation".to_vec()));
        assert_eq!(progress, Progress::Transmission(Session { structured: true, base_allocation: true }));
        let (_, progress) = run_options(3, &[structured.clone(), set.clone(), go("", &[])]);
        assert_eq!(progress, Progress::Transmission(Session { structured: true, base_allocation: false }));
        let reset = queries(option::SET_META_CONTEXT, "md0", &[]);
        let (_, progress) = run_options(3, &[structured, set.clone(), reset, go("md0", &[])]);
        assert_eq!(progress, Progress::Transmission(Session { structured: true, base_allocation: false }));
        assert_eq!(run_options(3, &[set]).0[0].0, option_reply::ERR_INVALID);
    }

    #[test]
    fn contexts_are_listed_by_namespace_and_all() {
        let structured = opt(option::STRUCTURED_REPLY, b"");
        for (asked, found) in [(&["base:"][..], 1), (&[], 1), (&["other:"], 0), (&["base:allocation"], 1)] {
            let list = queries(option::LIST_META_CONTEXT, "", asked);
            let (replies, _) = run_options(3, &[structured.clone(), list]);
            assert_eq!(replies.iter().filter(|(kind, _)| *kind == option_reply::META_CONTEXT).count(), found, "{asked:?}");
        }
    }

    #[test]
    fn what_is_not_supported_is_said_and_the_handshake_goes_on() {
        let long = opt(99, &vec![0; 10_000]);
        let options =
            [opt(option::STARTTLS, b""), opt(11, b""), opt(1234, b"abc"), long, go("nobody", &[]), opt(option::LIST, b"x")];
        let (replies, progress) = run_options(3, &options);
        let kinds: Vec<u32> = replies.iter().map(|(kind, _)| kind & 0x7fff_ffff).collect();
        assert_eq!((kinds, progress), (vec![1, 1, 1, 9, 6, 3], Progress::More));
    }

    #[test]
    fn list_and_abort() {
        let (replies, progress) = run_options(3, &[opt(option::LIST, b""), opt(option::ABORT, b"")]);
        assert_eq!(replies, [(2, b"\0\0\0\x03md0RAID6".to_vec()), (1, vec![]), (1, vec![])]);
        assert_eq!(progress, Progress::Close);
    }

    #[test]
    fn bad_beginnings_and_floods_end_the_connection() {
        assert_eq!(run_options(4, &[]).1, Progress::Close);
        assert_eq!(run_options(0, &[opt(option::LIST, b"")]).1, Progress::Close);
        assert_eq!(run_options(3, &[b"IHAVEOPX\0\0\0\x03\0\0\0\0".to_vec()]).1, Progress::Close);
        assert_eq!(run_options(3, &vec![opt(option::LIST, b""); 33]).1, Progress::Close);
        let huge = [OPTION_MAGIC.as_slice(), &99u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat();
        assert_eq!(run_options(3, &[huge]).1, Progress::Close);
    }

    fn any_option() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (0u32..12, prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(option, data)| opt(option, &data)),
            (prop::collection::vec(0u16..6, 0..5)).prop_map(|kinds| go("md0", &kinds)),
            Just(opt(option::STRUCTURED_REPLY, b"")),
            Just(queries(option::SET_META_CONTEXT, "md0", &["base:allocation"])),
            prop::collection::vec(any::<u8>(), 0..40),
        ]
    }

    proptest! {
        #[test]
        fn garbage_never_panics_and_pieces_do_not_matter(flags in 0u32..5, options in prop::collection::vec(any_option(), 0..8),
                                                         piece in 1usize..40) {
            let bytes = [flags.to_be_bytes().to_vec(), options.concat()].concat();
            prop_assert_eq!(run(&bytes, piece), run(&bytes, usize::MAX));
        }
    }
}
