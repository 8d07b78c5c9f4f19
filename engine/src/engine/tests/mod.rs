//! The engine as its users meet it. `rig` holds a table of made-up rows and its twin in memory; the others put both through random
//! changes, threads, crashes and DDL.
mod basics;
mod bench;
mod bench_unique;
mod bulk_insert;
mod change_buffer;
mod change_control;
mod crash;
mod damage;
mod ddl_crash;
mod histories;
mod innodb_bugs;
mod isolation;
mod load;
mod meanwhile;
mod model;
mod notes;
mod redo_off;
mod rig;
mod settled;
mod sim;
mod status;
mod stress;
mod turns;
mod undo_cut;
mod unique_filter;
mod unnamed;
