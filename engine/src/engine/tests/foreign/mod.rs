//! Foreign keys: checks, cascades, and the races between children and parents
//! (`docs/decisions/2026-11-28-foreign-keys.md`).
mod cascades;
mod checked;
mod crashes;
pub(super) mod family;
mod index_change;
mod loads;
mod lost_index;
mod past;
mod rules;
mod shape_checker;
mod waits;
