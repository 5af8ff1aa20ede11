//! How much the caches hold.

use std::sync::OnceLock;

/// What is taken for the size of the last cache where the processor does not say.
const USUAL_LAST_CACHE_BYTES: usize = 16 << 20;

/// The largest cache that a core of this processor has or shares, in bytes.
pub(crate) fn last_cache_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| largest_cache().unwrap_or(USUAL_LAST_CACHE_BYTES))
}

/// Does work that touches so many bytes go to memory and back? The last cache is shared with other cores, other machines on the same
/// chip even: only half of it is counted on.
pub(crate) fn is_beyond_cache(touched_bytes: usize) -> bool {
    touched_bytes > last_cache_bytes() / 2
}

/// CPUID's leaf of cache parameters (4 with Intel, 0x8000001d with AMD: same layout), every cache until the empty one.
#[cfg(target_arch = "x86_64")]
fn largest_cache() -> Option<usize> {
    use crate::processor::leaf;
    const LEAF_INTEL: u32 = 4;
    const LEAF_AMD: u32 = 0x8000_001d;
    let sizes_of = |number: u32| {
        let has_leaf = leaf(number & 0x8000_0000, 0)[0] >= number;
        let caches = (0..8).map(move |cache| leaf(number, cache)).take_while(|[kind, ..]| kind & 0x1f != 0);
        caches.filter(move |_| has_leaf).map(|[_, ways_and_lines, sets, _]| {
            let (ways, partitions, line) = (ways_and_lines >> 22, ways_and_lines >> 12 & 0x3ff, ways_and_lines & 0xfff);
            (ways as usize + 1) * (partitions as usize + 1) * (line as usize + 1) * (sets as usize + 1)
        })
    };
    sizes_of(LEAF_INTEL).chain(sizes_of(LEAF_AMD)).max()
}

#[cfg(not(target_arch = "x86_64"))]
fn largest_cache() -> Option<usize> {
    None
}
