//! C ABI of the engine: see plugin/sluice_abi.h.
