//! Tests of undo: `streams` (records, savepoints, views, purge, restarts), `truncate` (the file
//! gives its free end back while threads write).
mod streams;
mod truncate;
