//! Reading a container's metadata from a disk.

use uraid_device::{Device, DeviceError};
use uraid_format::foreign::ddf::{DDF_BLOCK, DDF_MAGIC, DdfError, DdfHeader, DdfMetadata};
use uraid_format::foreign::imsm::{IMSM_MAGIC, ImsmError, ImsmMetadata, imsm_bytes};

use super::Metadata;
use crate::probe::bytes_at;

/// Metadata that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The disk could not be read.
    #[error("{0}")]
    Unreadable(#[from] DeviceError),
    /// IMSM's is damaged.
    #[error("{0}")]
    Imsm(#[from] ImsmError),
    /// DDF's is damaged.
    #[error("{0}")]
    Ddf(#[from] DdfError),
}

/// What a disk holds of a container, `None` where it holds nothing. Reads only.
///
/// # Errors
/// It holds something that cannot be used, or cannot be read.
pub fn look(device: &dyn Device) -> Result<Option<Metadata>, LookError> {
    if let Some(found) = imsm(device)? {
        return Ok(Some(Metadata::Imsm(found)));
    }
    Ok(ddf(device)?.map(Metadata::Ddf))
}

/// The last block but one, and what lies before it.
fn imsm(device: &dyn Device) -> Result<Option<ImsmMetadata>, LookError> {
    let block = u64::from(device.info().logical_block_bytes);
    let Some(anchor) = device.info().size_bytes.checked_sub(2 * block) else { return Ok(None) };
    let mut bytes = bytes_at(device, anchor, block)?;
    if !bytes.starts_with(IMSM_MAGIC) {
        return Ok(None);
    }
    let more = u64::from(imsm_bytes(&bytes)?).div_ceil(block).saturating_sub(1) * block;
    if let Some(start) = anchor.checked_sub(more).filter(|_| more > 0) {
        bytes.extend(bytes_at(device, start, more)?);
    }
    Ok(Some(ImsmMetadata::parse(&bytes, device.info().logical_block_bytes)?))
}

/// The anchor in the last block, the header that it points to, and that one's sections; the second header where the first or its
/// sections are damaged.
fn ddf(device: &dyn Device) -> Result<Option<DdfMetadata>, LookError> {
    let size_bytes = device.info().size_bytes;
    let Some(at) = size_bytes.checked_sub(DDF_BLOCK as u64) else { return Ok(None) };
    let bytes = bytes_at(device, at, DDF_BLOCK as u64)?;
    if !bytes.starts_with(&DDF_MAGIC) {
        return Ok(None);
    }
    let anchor = DdfHeader::parse(&bytes, at, size_bytes)?;
    let mut broken = None;
    for block in anchor.headers {
        let Some(at) = block.checked_mul(DDF_BLOCK as u64).filter(|&at| at < size_bytes) else { continue };
        match whole(device, at, size_bytes) {
            Ok(found) => return Ok(Some(found)),
            Err(LookError::Unreadable(error)) => return Err(error.into()),
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    let nowhere = || DdfError { what: "anchor", byte: at, why: "neither of its headers is on the disk".to_owned() };
    Err(broken.unwrap_or_else(|| nowhere().into()))
}

fn whole(device: &dyn Device, at: u64, size_bytes: u64) -> Result<DdfMetadata, LookError> {
    let header = DdfHeader::parse(&bytes_at(device, at, DDF_BLOCK as u64)?, at, size_bytes)?;
    let mut sections: [Vec<u8>; 4] = Default::default();
    for (bytes, section) in sections.iter_mut().zip(header.sections()) {
        *bytes = bytes_at(device, section.start, section.end - section.start)?;
    }
    Ok(DdfMetadata::parse(header, &sections)?)
}
