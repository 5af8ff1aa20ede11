//! Reading bytes of a member wherever they lie.

use uraid_device::{Device, DeviceError, Pool};

/// Up to `len_bytes` bytes from `offset_bytes` on, fewer where the member ends; they need not be whole logical blocks.
///
/// # Errors
/// A read that failed.
pub(crate) fn bytes_at(device: &dyn Device, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, DeviceError> {
    let info = device.info();
    let block = u64::from(info.logical_block_bytes);
    let whole = info.size_bytes - info.size_bytes % block;
    let end = offset_bytes.saturating_add(len_bytes).min(info.size_bytes);
    if offset_bytes >= end {
        return Ok(Vec::new());
    }
    let from = offset_bytes - offset_bytes % block;
    let to = end.div_ceil(block).saturating_mul(block).min(whole);
    if offset_bytes >= to {
        return Ok(Vec::new());
    }
    let mut buf = Pool::new(0).take(usize::try_from(to - from).expect("a part of a member's metadata fits the address space"));
    device.read_at(from, &mut buf)?;
    let skip = (offset_bytes - from) as usize;
    Ok(buf[skip..(end.min(to) - from) as usize].to_vec())
}

#[cfg(test)]
mod tests {
    use uraid_device::MemoryDevice;

    use super::*;

    #[test]
    fn bytes_come_from_anywhere_and_end_with_the_member() {
        let member = MemoryDevice::new("m", 12288, 4096);
        let mut block = Pool::new(0).zeroed(4096);
        block[4095] = 7;
        member.write_at(0, &block).unwrap();
        assert_eq!(bytes_at(&member, 4095, 2).unwrap(), [7, 0]);
        assert_eq!(bytes_at(&member, 12_000, 4096).unwrap().len(), 288);
        assert!(bytes_at(&member, 12_288, 1).unwrap().is_empty());
        assert!(bytes_at(&member, u64::MAX, u64::MAX).unwrap().is_empty());
    }
}
