//! Functions of the ABI that have no body yet: each refuses with `SLC_UNSUPPORTED`, so that the plugin links.
use super::abi::*;

macro_rules! refuse { ($($name:ident)*) => { $(
    #[no_mangle]
    pub extern "C" fn $name() -> slc_err { SLC_UNSUPPORTED }
)* } }
macro_rules! nothing { ($($name:ident)*) => { $(
    #[no_mangle]
    pub extern "C" fn $name() -> u64 { 0 }
)* } }
refuse! { slc_engine_open slc_engine_flush_log slc_engine_checkpoint slc_engine_set slc_commit_by_xid slc_rollback_by_xid slc_trx_open_snapshot slc_trx_rollback_to slc_trx_prepare slc_trx_commit slc_trx_rollback slc_table_create slc_table_drop slc_table_rename slc_table_truncate slc_table_open slc_table_set_schema slc_table_autoinc_reset slc_table_get_stats slc_index_sample slc_records_in_range slc_table_check slc_index_build_begin slc_index_build_add slc_index_build_finish slc_table_alter_indexes slc_table_rename_index slc_row_insert slc_row_update slc_row_move slc_row_delete slc_cursor_begin slc_cursor_bounds slc_cursor_seek slc_cursor_next slc_cursor_prev slc_row_get }
nothing! { slc_engine_start_background slc_engine_close slc_engine_lsn slc_engine_durable_lsn slc_counter_count slc_counter_name slc_counter_value slc_engine_status_text slc_recovered_prepared slc_trx_new slc_trx_free slc_trx_start slc_trx_is_started slc_trx_has_writes slc_trx_id slc_trx_close_snapshot slc_trx_savepoint slc_trx_commit_ordered slc_trx_cancel_wait slc_trx_set_position slc_table_exists slc_table_list slc_table_close slc_table_schema slc_table_index_count slc_table_index_name slc_table_next_row_id slc_table_autoinc slc_table_autoinc_raise slc_index_leaf_pages slc_index_build_abort slc_cursor_new slc_cursor_free slc_cursor_expect slc_cursor_unlock_row slc_cursor_semi_consistent slc_cursor_was_semi_consistent slc_cursor_reset }
