//! Each model of the crate as a test, named by what it proves.
use sluice_races::pool::frames::absence_filter_model;
use sluice_races::table::catalog::versions_model;

#[test]
fn a_page_in_the_pool_has_no_absence_filter() {
    absence_filter_model::model_page_in_pool_has_no_filter();
}

#[test]
fn the_last_layout_is_complete() {
    versions_model::model_last_layout_is_complete();
}
