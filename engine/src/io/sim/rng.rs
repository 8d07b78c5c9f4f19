//! Random choices of the simulation: splitmix64.
//!
//! Written out here, because a seed that a test names must give the same run in every version of
//! every dependency. Called by: the simulated disk, and the engine's randomised tests.

/// A generator with 64 bits of state.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// 0 .. n - 1.
    pub fn below<N: TryFrom<u64> + TryInto<u64>>(&mut self, n: N) -> N {
        let n = n.try_into().ok().filter(|n| *n > 0).expect("a choice of something");
        (self.next() % n).try_into().ok().expect("it is less than n")
    }
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
