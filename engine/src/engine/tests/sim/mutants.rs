//! The list of planted bugs, for `scripts/mutants`; it runs the other tests with each.

/// Printed only by a build that has mutants.
#[test]
fn names() {
    if cfg!(feature = "mutants") {
        for mutant in crate::base::Mutant::ALL {
            println!("mutant {mutant:?}");
        }
    }
}
