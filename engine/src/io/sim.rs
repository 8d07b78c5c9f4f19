//! The simulated disk: memory with stated fault rules.
