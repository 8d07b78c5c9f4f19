-- Views that answer questions of a DBA about Sluice, in the database sluice_sys: who waits for whom, who holds purge back, what is
-- buffered, where the space and the I/O go. Like the schema `sys` of the server, whose views know InnoDB alone.
--
--   mariadb < sluice_sys.sql
--
-- Running it again replaces the views. They run with the rights of their reader, who needs the privilege PROCESS, and for io_by_file
-- SELECT on performance_schema. DROP DATABASE sluice_sys removes them.

CREATE DATABASE IF NOT EXISTS sluice_sys CHARACTER SET utf8mb4;
USE sluice_sys;

-- Who waits for whom. One row for each lock that is in the way. blocking_connection 0: a prepared transaction without a connection,
-- which XA COMMIT or XA ROLLBACK of blocking_xid ends.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW lock_waits AS
SELECT r.trx_wait_started AS wait_started,
       TIMESTAMPDIFF(SECOND, r.trx_wait_started, NOW()) AS wait_seconds,
       rl.lock_table AS locked_table,
       rl.lock_index AS locked_index,
       rl.lock_data AS locked_data,
       rl.lock_mode AS waiting_lock_mode,
       r.trx_id AS waiting_trx_id,
       r.trx_mysql_thread_id AS waiting_connection,
       r.trx_query AS waiting_query,
       bl.lock_mode AS blocking_lock_mode,
       bl.lock_data AS blocking_data,
       b.trx_id AS blocking_trx_id,
       b.trx_mysql_thread_id AS blocking_connection,
       b.trx_query AS blocking_query,
       b.trx_started AS blocking_trx_started,
       b.trx_rows_modified AS blocking_undo_records,
       b.trx_xid AS blocking_xid,
       IF(b.trx_mysql_thread_id = 0, NULL, CONCAT('KILL QUERY ', b.trx_mysql_thread_id)) AS sql_kill_blocking_query,
       IF(b.trx_mysql_thread_id = 0, NULL, CONCAT('KILL ', b.trx_mysql_thread_id)) AS sql_kill_blocking_connection
  FROM information_schema.SLUICE_LOCK_WAITS w
  JOIN information_schema.SLUICE_TRX r ON r.trx_id = w.requesting_trx_id
  JOIN information_schema.SLUICE_TRX b ON b.trx_id = w.blocking_trx_id
  JOIN information_schema.SLUICE_LOCKS rl ON rl.lock_id = w.requested_lock_id
  JOIN information_schema.SLUICE_LOCKS bl ON bl.lock_id = w.blocking_lock_id
 ORDER BY r.trx_wait_started;

-- Transactions that hold a snapshot, the oldest first. Purge cannot pass the first one.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW purge_blockers AS
SELECT t.trx_snapshot_age AS snapshot_seconds,
       t.trx_id,
       t.trx_mysql_thread_id AS connection,
       p.USER AS user,
       p.HOST AS host,
       p.DB AS db,
       p.COMMAND AS command,
       p.TIME AS command_seconds,
       t.trx_query AS query,
       t.trx_isolation_level AS isolation_level,
       (SELECT COUNT FROM information_schema.SLUICE_METRICS WHERE NAME = 'history_list_length') AS history_list_length,
       (SELECT COUNT FROM information_schema.SLUICE_METRICS WHERE NAME = 'undo_bytes') AS undo_bytes,
       IF(t.trx_mysql_thread_id = 0, NULL, CONCAT('KILL ', t.trx_mysql_thread_id)) AS sql_kill_connection
  FROM information_schema.SLUICE_TRX t
  LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
 WHERE t.trx_snapshot = 'YES'
 ORDER BY t.trx_snapshot_age DESC;

-- All open transactions, those with the most undo first: what a KILL would have to roll back.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW transactions AS
SELECT t.trx_id,
       t.trx_state AS state,
       t.trx_started AS started,
       TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) AS seconds,
       t.trx_mysql_thread_id AS connection,
       p.USER AS user,
       p.DB AS db,
       t.trx_query AS query,
       t.trx_rows_modified AS undo_records,
       t.trx_undo_bytes AS undo_bytes,
       t.trx_rows_locked AS locks,
       t.trx_xid AS xid
  FROM information_schema.SLUICE_TRX t
  LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
 ORDER BY t.trx_undo_bytes DESC;

-- What is buffered, index by index, the largest first.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW change_buffer_by_index AS
SELECT c.TABLE_SCHEMA AS table_schema,
       c.TABLE_NAME AS table_name,
       c.PARTITION_NAME AS partition_name,
       c.INDEX_NAME AS index_name,
       c.CHANGE_BUFFERING AS change_buffering,
       c.ENTRIES AS entries,
       c.BYTES AS bytes,
       ROUND(100 * c.BYTES / (SELECT COUNT FROM information_schema.SLUICE_METRICS WHERE NAME = 'change_buffer_bytes_max'), 2)
         AS percent_of_bound,
       c.OLDEST_AGE AS oldest_seconds,
       c.MERGED_ENTRIES AS merged_entries,
       c.COUNTED AS counted
  FROM information_schema.SLUICE_CHANGE_BUFFER c
 WHERE c.ENTRIES > 0 OR c.MERGED_ENTRIES > 0 OR c.COUNTED = 'NO'
 ORDER BY c.BYTES DESC;

-- Where the space goes, file by file, the largest first. free_bytes can be used again by the same file.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW space_by_file AS
SELECT s.NAME AS name,
       s.FILE_TYPE AS file_type,
       s.FILENAME AS file_name,
       s.FILE_SIZE AS file_bytes,
       s.ALLOCATED_SIZE AS allocated_bytes,
       (s.PAGES - s.PAGES_USED) * s.PAGE_SIZE AS free_bytes,
       t.NUM_ROWS AS table_rows,
       t.N_INDEXES AS indexes
  FROM information_schema.SLUICE_TABLESPACES s
  LEFT JOIN information_schema.SLUICE_TABLES t ON t.SPACE = s.SPACE
 ORDER BY s.FILE_SIZE DESC;

-- Tables and indexes that need an administrator.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW damage AS
SELECT t.NAME AS table_name, NULL AS index_name, t.STATE AS state, 'restore the table from a backup' AS way_out
  FROM information_schema.SLUICE_TABLES t WHERE t.STATE <> 'OK'
UNION ALL
SELECT t.NAME, i.NAME, i.STATE, 'REPAIR TABLE rebuilds the index'
  FROM information_schema.SLUICE_INDEXES i JOIN information_schema.SLUICE_TABLES t ON t.TABLE_ID = i.TABLE_ID WHERE i.STATE <> 'OK';

-- Rates since the server started, and hit rates, in one row each.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW metrics AS
SELECT SUBSYSTEM AS subsystem, NAME AS name, COUNT AS value, ROUND(AVG_COUNT, 2) AS per_second, TYPE AS type, COMMENT AS comment
  FROM information_schema.SLUICE_METRICS ORDER BY SUBSYSTEM, NAME;

-- I/O by file since the server started, the slowest first. Empty unless the server runs with performance_schema=ON.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW io_by_file AS
SELECT REGEXP_REPLACE(f.FILE_NAME, '^.*/', '') AS file_name,
       s.NAME AS name,
       f.EVENT_NAME AS event_name,
       f.COUNT_READ AS reads_done,
       f.SUM_NUMBER_OF_BYTES_READ AS bytes_read,
       f.COUNT_WRITE AS writes_done,
       f.SUM_NUMBER_OF_BYTES_WRITE AS bytes_written,
       ROUND(f.SUM_TIMER_WAIT / 1e9, 3) AS wait_ms,
       ROUND(f.AVG_TIMER_READ / 1e9, 3) AS read_ms,
       ROUND(f.AVG_TIMER_WRITE / 1e9, 3) AS write_ms
  FROM performance_schema.file_summary_by_instance f
  LEFT JOIN information_schema.SLUICE_TABLESPACES s
    ON REGEXP_REPLACE(s.FILENAME, '^.*/', '') = REGEXP_REPLACE(f.FILE_NAME, '^.*/', '')
 WHERE f.EVENT_NAME LIKE 'wait/io/file/sluice/%'
 ORDER BY f.SUM_TIMER_WAIT DESC;
