//! The data blocks of a job, counted at run time or by the compiler.

/// Blocks of one length, by number.
pub(super) trait Blocks {
    /// How many.
    fn count(&self) -> usize;

    /// Where block `number` starts.
    ///
    /// # Safety
    /// `number` is less than [`Blocks::count`].
    unsafe fn start(&self, number: usize) -> *const u8;
}

impl Blocks for [&[u8]] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn start(&self, number: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.get_unchecked(number).as_ptr() }
    }
}

/// `N` blocks: loops over them have no counter, and their addresses can stay in registers.
pub(super) struct Fixed<const N: usize>([*const u8; N]);

impl<const N: usize> Fixed<N> {
    /// # Panics
    /// Unless there are `N` blocks.
    #[inline(always)]
    pub(super) fn new(blocks: &[&[u8]]) -> Self {
        assert!(blocks.len() == N, "{} blocks are not {N}", blocks.len());
        Fixed(core::array::from_fn(|number| blocks[number].as_ptr()))
    }
}

impl<const N: usize> Blocks for Fixed<N> {
    #[inline(always)]
    fn count(&self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn start(&self, number: usize) -> *const u8 {
        self.0[number]
    }
}

/// `$run` with `$blocks` as [`Blocks`]: a copy of it for each number up to `MOST_COUNTED` where the style wants that.
macro_rules! by_count {
    ($style:ident, $given:expr, |$blocks:ident| $run:expr) => {
        by_count!(@ $style, $given, $blocks, $run, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@ $style:ident, $given:expr, $blocks:ident, $run:expr, $($number:literal)*) => {{
        const { assert!(crate::style::MOST_COUNTED == [$($number),*].len()) };
        let given: &[&[u8]] = $given;
        match given.len() {
            $($number if $style::COUNTED => {
                let $blocks = &$crate::jobs::blocks::Fixed::<$number>::new(given);
                $run
            })*
            _ => {
                let $blocks = given;
                $run
            }
        }
    }};
}
pub(super) use by_count;
