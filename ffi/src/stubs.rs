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
refuse! { slc_table_get_stats slc_index_sample slc_records_in_range slc_table_check slc_index_build_begin slc_index_build_add slc_index_build_finish slc_table_alter_indexes slc_table_rename_index }
nothing! { slc_index_leaf_pages slc_index_build_abort }
