//! Each model of the crate as a test, named by what it proves.
use sluice_races::change::filter::{bloom_model, counting_model};
use sluice_races::pool::frames::absence_filter_model;
use sluice_races::redo::flush_queue_model;
use sluice_races::table::catalog::{append_hint_model, versions_model};

#[test]
fn a_page_in_the_pool_has_no_absence_filter() {
    absence_filter_model::model_page_in_pool_has_no_filter();
}

#[test]
fn the_last_layout_is_complete() {
    versions_model::model_last_layout_is_complete();
}

#[test]
fn the_first_keys_of_an_index_are_both_counted() {
    counting_model::model_first_keys_are_both_counted();
}

#[test]
fn no_count_of_a_slot_is_lost() {
    counting_model::model_no_count_is_lost();
}

#[test]
fn the_growth_of_a_counting_filter_keeps_pending_keys() {
    counting_model::model_growth_keeps_pending_keys();
}

#[test]
fn the_clearing_of_a_counting_filter_keeps_pending_keys() {
    counting_model::model_clearing_keeps_pending_keys();
}

#[test]
fn the_first_values_of_a_partition_are_both_added() {
    bloom_model::model_first_values_are_both_added();
}

#[test]
fn a_remembered_leaf_is_the_trees() {
    append_hint_model::model_remembered_leaf_is_the_trees();
}

#[test]
fn rounds_of_the_log_wake_their_groups() {
    flush_queue_model::model_rounds_wake_their_groups();
}

#[test]
fn rounds_of_the_log_that_overlap_wake_their_groups() {
    flush_queue_model::model_rounds_that_overlap_wake_their_groups();
}

#[test]
fn the_end_of_a_sync_elects_a_thread_that_came_late() {
    flush_queue_model::model_end_of_a_sync_elects_the_late();
}
