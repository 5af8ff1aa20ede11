//! A packed form for members whose arrays were filled with sectors that name their own place.
//!
//! Such a sector is one word of four bytes over and over, and so is parity of such sectors. In a chunk the words of sectors 0, 1, 2, ...
//! differ by what each bit of the sector's number adds (by XOR, in the lowest byte), in data, P and Q alike. So a chunk is its first word and a
//! byte for each bit, whatever the layout is; everything else is kept as it is, but for repeated bytes.
//!
//! A file: [`MAGIC`], the array's bytes (64 bits), the exit status of an export, how many more members may be lost, how many members follow
//! (a byte each); of each member its sectors (32 bits) and records that make them. A record's first byte: 0, zeros, so many sectors (16 bits);
//! 1 + m, a run of 2^m sectors: the first one's word (32 bits), m bytes; 255, one sector: (0..=127, so many bytes and one more) or
//! (128..=255, a byte that is there so many times less 125), until it is full. Numbers have their lowest byte first.

pub const SECTOR_BYTES: usize = 512;
const MAGIC: &[u8; 8] = b"members1";
const WORD_BYTES: usize = 4;
/// The longest run is 2^8 sectors: numbers in it fit in a byte.
const MOST_BITS: u8 = 8;
const ZEROS: u8 = 0;
const RUN: u8 = 1;
const RAW: u8 = 255;
/// Shortest repetition in a sector that is kept as it is, and what its length is stored with.
const REPEATED: usize = 3;

/// An array's members, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// How large the kernel said the array is.
    pub size_bytes: u64,
    /// 0, or 3 for a degraded array.
    pub exit: u8,
    /// Beyond what the array lacks.
    pub may_lose: u8,
    pub members: Vec<Vec<u8>>,
}

/// The contents of an array: every sector holds its number, under a mark that no number has.
pub fn numbered(len_bytes: usize) -> Vec<u8> {
    const MARK: u32 = 0xa500_0000;
    let sectors = 0..u32::try_from(len_bytes / SECTOR_BYTES).unwrap();
    sectors.flat_map(|number| (MARK | number).to_le_bytes().repeat(SECTOR_BYTES / WORD_BYTES)).collect()
}

impl Kept {
    pub fn pack(&self) -> Vec<u8> {
        let mut to = MAGIC.to_vec();
        to.extend(self.size_bytes.to_le_bytes());
        to.extend([self.exit, self.may_lose, u8::try_from(self.members.len()).unwrap()]);
        for member in &self.members {
            assert_eq!(member.len() % SECTOR_BYTES, 0, "a member is whole sectors");
            to.extend(u32::try_from(member.len() / SECTOR_BYTES).unwrap().to_le_bytes());
            pack_member(member, &mut to);
        }
        to
    }

    /// What [`Kept::pack`] made; panics on anything else.
    pub fn unpack(bytes: &[u8]) -> Kept {
        let mut from = From(bytes);
        assert_eq!(from.take(MAGIC.len()), MAGIC);
        let size_bytes = u64::from_le_bytes(from.take(8).try_into().unwrap());
        let (exit, may_lose, members) = (from.byte(), from.byte(), from.byte());
        let members = (0..members).map(|_| unpack_member(&mut from)).collect();
        assert!(from.0.is_empty(), "{} bytes are left", from.0.len());
        Kept { size_bytes, exit, may_lose, members }
    }
}

/// The word that a sector is made of, if it is.
fn word_of(sector: &[u8]) -> Option<u32> {
    let word = &sector[..WORD_BYTES];
    sector.chunks(WORD_BYTES).all(|other| other == word).then(|| u32::from_le_bytes(word.try_into().unwrap()))
}

/// The word of a run's sector.
fn word_at(first: u32, bits: &[u8], number: usize) -> u32 {
    let added = bits.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1).fold(0, |sum, (_, byte)| sum ^ byte);
    first ^ u32::from(added)
}

/// The bits of the longest run that `words` begin with.
fn longest_run(words: &[Option<u32>], first: u32) -> Vec<u8> {
    let mut bits = Vec::new();
    while bits.len() < usize::from(MOST_BITS) {
        let half = 1 << bits.len();
        let Some(&Some(next)) = words.get(half) else { break };
        let Ok(byte) = u8::try_from(next ^ first) else { break };
        bits.push(byte);
        let fits = words
            .get(..2 * half)
            .is_some_and(|words| words.iter().enumerate().all(|(number, word)| *word == Some(word_at(first, &bits, number))));
        if !fits {
            bits.pop();
            break;
        }
    }
    bits
}

fn pack_member(member: &[u8], to: &mut Vec<u8>) {
    let words: Vec<Option<u32>> = member.chunks(SECTOR_BYTES).map(word_of).collect();
    let mut at = 0;
    while at < words.len() {
        let rest = &words[at..];
        at += match rest[0] {
            Some(0) => {
                let zeros = rest.iter().take(usize::from(u16::MAX)).take_while(|word| **word == Some(0)).count();
                to.push(ZEROS);
                to.extend(u16::try_from(zeros).unwrap().to_le_bytes());
                zeros
            }
            Some(first) => {
                let bits = longest_run(rest, first);
                to.push(RUN + bits.len() as u8);
                to.extend(first.to_le_bytes());
                to.extend(&bits);
                1 << bits.len()
            }
            None => {
                to.push(RAW);
                pack_sector(&member[at * SECTOR_BYTES..][..SECTOR_BYTES], to);
                1
            }
        };
    }
}

fn pack_sector(sector: &[u8], to: &mut Vec<u8>) {
    let same = |at: usize| sector[at..].iter().take(255 - 125).take_while(|byte| **byte == sector[at]).count();
    let mut at = 0;
    while at < sector.len() {
        let repeated = same(at);
        if repeated >= REPEATED {
            to.extend([(repeated + 125) as u8, sector[at]]);
            at += repeated;
        } else {
            let until =
                (at + 1..sector.len().min(at + 128)).find(|at| same(*at) >= REPEATED).unwrap_or(sector.len().min(at + 128));
            to.push((until - at - 1) as u8);
            to.extend(&sector[at..until]);
            at = until;
        }
    }
}

/// Bytes not yet read.
struct From<'a>(&'a [u8]);

impl<'a> From<'a> {
    fn take(&mut self, len_bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len_bytes);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(WORD_BYTES).try_into().unwrap())
    }
}

fn unpack_member(from: &mut From<'_>) -> Vec<u8> {
    let len_bytes = from.u32() as usize * SECTOR_BYTES;
    let mut member = Vec::with_capacity(len_bytes);
    while member.len() < len_bytes {
        match from.byte() {
            ZEROS => {
                let sectors = u16::from_le_bytes(from.take(2).try_into().unwrap());
                member.resize(member.len() + usize::from(sectors) * SECTOR_BYTES, 0);
            }
            RAW => unpack_sector(from, &mut member),
            run => {
                let (first, bits) = (from.u32(), from.take(usize::from(run - RUN)));
                for number in 0..1 << bits.len() {
                    member.extend(word_at(first, bits, number).to_le_bytes().repeat(SECTOR_BYTES / WORD_BYTES));
                }
            }
        }
    }
    assert_eq!(member.len(), len_bytes);
    member
}

fn unpack_sector(from: &mut From<'_>, member: &mut Vec<u8>) {
    let end = member.len() + SECTOR_BYTES;
    while member.len() < end {
        match usize::from(from.byte()) {
            control @ 0..128 => member.extend(from.take(control + 1)),
            control => member.resize(member.len() + control - 125, from.byte()),
        }
    }
}

#[test]
fn a_run_of_numbered_sectors_is_thirteen_bytes() {
    let contents = numbered(256 * SECTOR_BYTES);
    let kept = Kept { size_bytes: 0, exit: 0, may_lose: 0, members: vec![contents.clone()] };
    // The head is 19 bytes, a member's size 4, and the run: 1 byte, the word 0xa5000000, and what bits 0 to 7 add.
    let packed = kept.pack();
    assert_eq!(packed[23..], [9, 0, 0, 0, 0xa5, 1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(contents[255 * SECTOR_BYTES..][..8], [255, 0, 0, 0xa5, 255, 0, 0, 0xa5]);
    assert_eq!(Kept::unpack(&packed), kept);
}

#[test]
fn anything_is_unpacked_as_it_was() {
    let mut member = uraid_referee::pattern(5, 40 * SECTOR_BYTES);
    member[3 * SECTOR_BYTES..9 * SECTOR_BYTES].fill(0);
    member[9 * SECTOR_BYTES + 3..9 * SECTOR_BYTES + 300].fill(7);
    member[20 * SECTOR_BYTES..21 * SECTOR_BYTES].fill(0xff);
    // Numbers that do not begin where a run of theirs would, and a run that breaks off.
    member[22 * SECTOR_BYTES..39 * SECTOR_BYTES]
        .copy_from_slice(&numbered(40 * SECTOR_BYTES)[5 * SECTOR_BYTES..22 * SECTOR_BYTES]);
    let kept =
        Kept { size_bytes: 1 << 40, exit: 3, may_lose: 2, members: vec![member, Vec::new(), vec![0; 70_000 * SECTOR_BYTES]] };
    assert_eq!(Kept::unpack(&kept.pack()), kept);
}
