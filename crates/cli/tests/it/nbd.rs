//! A small NBD client that keeps requests in flight and notices when its server dies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const MAGIC_REQUEST: u32 = 0x2560_9513;
const MAGIC_REPLY: u32 = 0x6744_6698;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// A connection in the transmission phase, with simple replies.
pub struct Nbd {
    stream: UnixStream,
}

impl Nbd {
    /// Connects by EXPORT_NAME to the default export.
    pub fn connect(socket: &Path) -> io::Result<Nbd> {
        let mut stream = UnixStream::connect(socket)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(greeting[..16], *b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; option 1 with an empty name.
        stream.write_all(&3u32.to_be_bytes())?;
        stream.write_all(&[&b"IHAVEOPT"[..], &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat())?;
        // Size and flags.
        stream.read_exact(&mut [0; 10])?;
        Ok(Nbd { stream })
    }

    fn request(&mut self, command: u16, cookie: u64, offset: u64, len: u32, payload: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(28 + payload.len());
        head.extend(MAGIC_REQUEST.to_be_bytes());
        head.extend(0u16.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        head.extend(len.to_be_bytes());
        head.extend(payload);
        self.stream.write_all(&head)
    }

    pub fn send_write(&mut self, cookie: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        self.request(WRITE, cookie, offset, data.len() as u32, data)
    }

    pub fn send_flush(&mut self, cookie: u64) -> io::Result<()> {
        self.request(FLUSH, cookie, 0, 0, &[])
    }

    /// The next reply that carries no data: its cookie.
    pub fn reply(&mut self) -> io::Result<u64> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[..4], MAGIC_REPLY.to_be_bytes());
        match u32::from_be_bytes(head[4..8].try_into().unwrap()) {
            0 => Ok(u64::from_be_bytes(head[8..].try_into().unwrap())),
            errno => Err(io::Error::other(format!("NBD error {errno}"))),
        }
    }

    /// Reads, with nothing else in flight.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.request(READ, 0, offset, into.len() as u32, &[])?;
        self.reply()?;
        self.stream.read_exact(into)
    }
}
