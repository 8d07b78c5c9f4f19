//! Foreign keys: checks, cascades, and the races between children and parents
//! (`docs/decisions/2026-11-28-foreign-keys.md`).
mod byte_strings;
mod cascades;
mod checked;
mod crashes;
pub(super) mod family;
mod index_change;
mod loads;
mod lost_index;
mod past;
pub(super) mod rebuild;
mod renamed_columns;
mod rules;
mod shape_checker;
mod waits;
