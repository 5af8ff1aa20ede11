//! An NBD client's bytes: the handshake in pieces of any length, then requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_fuzz::bounded;
use uraid_serve::nbd::negotiate::{Export, HandshakeLimits, Negotiation, Progress};
use uraid_serve::nbd::proto::{Bounds, Command, REQUEST_BYTES, RawRequest, Session, check};

const SIZE_BYTES: u64 = 1 << 30;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || {
        let Some((&step, mut rest)) = input.split_first() else { return };
        let export = Export {
            name: "md0".to_owned(),
            description: String::new(),
            size_bytes: SIZE_BYTES,
            read_only: step & 1 != 0,
            block_bytes: 1,
            preferred_bytes: 4096,
            max_payload_bytes: 32 << 20,
        };
        let limits = HandshakeLimits { max_option_bytes: 4096, max_options: 16 };
        let (mut negotiation, _greeting) = Negotiation::new(export, limits);
        let mut out = Vec::new();
        loop {
            let wants = negotiation.wants_bytes();
            let take = wants.min(usize::from(step) + 1).min(rest.len());
            if take == 0 {
                break;
            }
            let (now, later) = rest.split_at(take);
            rest = later;
            if !matches!(negotiation.feed(now, &mut out), Progress::More) {
                break;
            }
            assert!(out.len() <= 64 << 10, "answers without end");
        }
        let bounds = Bounds { size_bytes: SIZE_BYTES, read_only: step & 1 != 0, max_payload_bytes: 32 << 20 };
        let session = Session { structured: step & 2 != 0, base_allocation: step & 4 != 0 };
        for request in rest.chunks_exact(REQUEST_BYTES) {
            let request = request.first_chunk().expect("a chunk of that length");
            let Some(raw) = RawRequest::parse(request) else { break };
            if let Ok(Command::Read | Command::Write { .. } | Command::Trim { .. }) = check(&raw, session, bounds) {
                assert!(raw.offset + u64::from(raw.len) <= SIZE_BYTES, "a range beyond the export was let through");
            }
        }
    });
});
