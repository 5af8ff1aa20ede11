//! A member that takes its time.

use std::sync::Arc;
use std::time::Duration;

use crate::{Device, DeviceError, DeviceInfo, Identity};

/// Delays every operation on the member below by a fixed time and a time for each byte.
pub struct Slow {
    below: Arc<dyn Device>,
    per_operation: Duration,
    nanos_per_byte: f64,
}

impl Slow {
    /// Over `below`: `per_operation` for each, and moving bytes at `bytes_per_second` (infinity: no time; more than 0).
    ///
    /// # Panics
    /// When `bytes_per_second` is not more than 0.
    #[must_use]
    pub fn new(below: Arc<dyn Device>, per_operation: Duration, bytes_per_second: f64) -> Slow {
        assert!(bytes_per_second > 0.0, "{bytes_per_second} bytes per second");
        Slow { below, per_operation, nanos_per_byte: 1e9 / bytes_per_second }
    }

    /// What an operation that moves `len_bytes` is delayed by.
    #[must_use]
    pub fn delay(&self, len_bytes: u64) -> Duration {
        self.per_operation + Duration::from_nanos((len_bytes as f64 * self.nanos_per_byte) as u64)
    }

    fn pause(&self, len_bytes: u64) {
        std::thread::sleep(self.delay(len_bytes));
    }
}

impl Device for Slow {
    fn info(&self) -> &DeviceInfo {
        self.below.info()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.pause(into.len() as u64);
        self.below.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.pause(from.len() as u64);
        self.below.write_at(offset_bytes, from)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.pause(0);
        self.below.flush()
    }

    /// Takes the fixed time only: zeroing moves no bytes.
    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        self.pause(0);
        self.below.zero(offset_bytes, len_bytes, hole)
    }

    fn identity(&self) -> Option<Identity> {
        self.below.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn delays_add_up_and_data_passes() {
        let slow = Slow::new(Arc::new(MemoryDevice::new("m", 4096, 512)), Duration::from_micros(10), 1e9);
        assert_eq!(slow.delay(1000), Duration::from_micros(11));
        slow.write_at(512, &[3; 512]).unwrap();
        slow.zero(0, 512, false).unwrap();
        slow.flush().unwrap();
        let mut back = [1; 1024];
        slow.read_at(0, &mut back).unwrap();
        assert_eq!((back[0], back[512]), (0, 3));
        assert!(slow.descriptor().is_none() && slow.info().name == "m");
        let at_once = Slow::new(Arc::new(MemoryDevice::new("m", 4096, 512)), Duration::ZERO, f64::INFINITY);
        assert_eq!(at_once.delay(u64::MAX), Duration::ZERO);
    }
}
