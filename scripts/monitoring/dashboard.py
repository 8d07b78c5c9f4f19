#!/usr/bin/env python3
"""The dashboard: its panels, and the file of them that Grafana imports. dashboard.py --write makes scripts/monitoring/sluice.json.

The data are those of prometheus-mysqld-exporter: every status variable Sluice_NAME is its metric mysql_global_status_sluice_NAME.
`panels()` gives run.py the same panels to look at.
"""
import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "sluice.json"
COLUMNS = 24  # of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def value(name):
    return f'mysql_global_status_sluice_{name}{{instance=~"$instance"}}'


def rate(name):
    return f"rate({value(name)}[$__rate_interval])"


def ratio(over, under):
    """0 where nothing was counted below the line, not an empty panel."""
    return f"(({over}) / ({under}) >= 0) or 0 * ({under})"


def rates(*names):
    return [(rate(name), name) for name in names]


def values(*names):
    return [(value(name), name) for name in names]


HIT_RATE = ratio(f"{rate('buffer_pool_read_requests')} - {rate('buffer_pool_reads')}", rate("buffer_pool_read_requests"))
MEAN_SYNC = ratio(rate("redo_log_sync_time_us"), rate("redo_log_fsyncs"))
MEAN_LOCK_WAIT = ratio(rate("row_lock_time_us"), rate("row_lock_waits"))
FILES = 'event_name=~"wait/io/file/sluice/.*",instance=~"$instance"'
FILE_SECONDS = (f'sum by (event_name, mode) (rate(mysql_perf_schema_file_events_seconds_total{{{FILES}}}[$__rate_interval]))')
FILE_EVENTS = f'sum by (event_name, mode) (rate(mysql_perf_schema_file_events_total{{{FILES}}}[$__rate_interval]))'

# Title, unit in Grafana's words, queries with their legends, what to read from it.
ROWS = [
    ("At a glance", "stat", [
        ("Engine", "none", [(f"1 - {value('engine_stopped')}", "runs")],
         "1: the engine works. 0: it has stopped, and every statement fails until the server is restarted"),
        ("Redo log", "none", values("redo_log_enabled"), "1: on. 0: off, and a crash would destroy all tables"),
        ("Commits", "ops", rates("commits"), "Transactions committed a second"),
        ("Hit rate", "percentunit", [(HIT_RATE, "hit rate")], "Pages that were found in the buffer pool, of all that were requested"),
        ("Redo log in use", "percentunit", [(f"{value('redo_log_checkpoint_age')} / {value('redo_log_capacity')}", "in use")],
         "Near 100% writers wait for the checkpoint: raise sluice_redo_log_capacity"),
        ("Not purged", "short", values("history_list_length"), "Committed transactions that are not purged yet"),
        ("Buffered", "percentunit", [(f"{value('change_buffer_bytes')} / {value('change_buffer_bytes_max')}", "of the bound")],
         "How full the change buffer is. Near 100% statements merge themselves"),
        ("Row lock waits now", "short", values("row_lock_current_waits"), "Statements that wait for a row lock at this moment"),
    ]),
    ("Transactions and locks", "timeseries", [
        ("Transactions", "ops", rates("commits", "rollbacks", "partial_rollbacks"), "Ends of transactions, and statements rolled back"),
        ("Rows", "ops", rates("rows_read", "rows_inserted", "rows_updated", "rows_deleted"), "Rows that statements read and changed"),
        ("Row lock waits", "ops", [*rates("row_lock_waits"), (value("row_lock_current_waits"), "now")], "Waits begun a second, and waits that go on"),
        ("Mean row lock wait", "µs", [(MEAN_LOCK_WAIT, "mean wait")], "Of the waits that ended"),
        ("Conflicts", "ops", rates("deadlocks", "lock_wait_timeouts", "snapshot_conflicts"),
         "Statements that failed with error 1213, 1205 or 1020"),
        ("Open", "short", values("active_transactions", "snapshots"), "Transactions that have written, and open snapshots"),
    ]),
    ("Buffer pool", "timeseries", [
        ("Pages", "short", values("buffer_pool_pages_total", "buffer_pool_pages_free", "buffer_pool_pages_dirty"), "Of 16 KiB"),
        ("Hit rate", "percentunit", [(HIT_RATE, "hit rate")], "Pages found in the pool, of all that were requested"),
        ("Reads and writes", "ops", rates("buffer_pool_reads", "buffer_pool_read_ahead", "buffer_pool_pages_flushed", "buffer_pool_pages_evicted"),
         "Pages"),
        ("Waits for a free frame", "ops", rates("buffer_pool_wait_free"), "Above 0 flushing is too slow: raise sluice_io_capacity_max"),
    ]),
    ("Redo log", "timeseries", [
        ("Written", "Bps", rates("redo_log_bytes", "redo_log_written"), "Bytes logged, and bytes written with their padding"),
        ("Syncs", "ops", rates("redo_log_fsyncs", "redo_log_writes", "redo_log_commit_waits"), "Calls, and threads that waited for one"),
        ("Mean sync", "µs", [(MEAN_SYNC, "mean sync")], "What the device takes"),
        ("Requests that share a sync", "short", [(ratio(rate("group_commits"), rate("redo_log_fsyncs")), "requests a sync")],
         "Group commit: the higher, the more commits one sync serves"),
        ("Checkpoint age", "bytes", values("redo_log_checkpoint_age", "redo_log_capacity"), "Redo log that a recovery would read"),
        ("Waits", "ops", rates("redo_log_waits", "redo_log_buffer_waits"), "For room in the log, and in its buffer"),
    ]),
    ("Purge and undo", "timeseries", [
        ("Not purged", "short", values("history_list_length"), "Grows while a transaction with an old snapshot is open"),
        ("Oldest snapshot", "s", values("oldest_snapshot_age"), "sluice_sys.purge_blockers names its connection"),
        ("Purged", "ops", rates("purged_records", "versions_built"), "Undo records purged, and older versions that readers had built"),
        ("Undo", "bytes", [(f"{value('undo_bytes')}", "in use"), (f"{value('undo_file_pages')} * 16384", "file")], "The file shrinks while the server runs"),
    ]),
    ("Change buffer", "timeseries", [
        ("Pending", "short", values("change_buffer_entries"), "Entries that wait to be merged"),
        ("Bytes", "bytes", values("change_buffer_bytes", "change_buffer_bytes_max"), "At the bound statements merge themselves"),
        ("Changes of secondary indexes", "ops",
         rates("change_buffer_applied_directly", "change_buffer_buffered_inserts", "change_buffer_buffered_delete_marks", "change_buffer_buffered_deletes"),
         "Made in the leaf at once, or buffered"),
        ("Merged", "ops", rates("change_buffer_merged_entries", "change_buffer_reads_avoided"), "Entries, and changes that needed no read of their own"),
        ("Unique checks", "ops", rates("change_buffer_unique_checks_spared", "change_buffer_unique_checks_read"),
         "Unique values put without, and after, a read of their leaf"),
        ("Throttled", "µs", rates("change_buffer_throttled_us"), "Time in a second that statements spent on merges, because the buffer was near its bound"),
        ("Oldest entry, and time to drain", "s", values("change_buffer_age", "change_buffer_drain_eta"), "Upper limit of its age; estimated time until the buffer is empty"),
    ]),
    ("Files and pages", "timeseries", [
        ("Data files", "Bps", rates("data_read", "data_written"), "Doublewrite included"),
        ("Calls", "ops", rates("data_reads", "data_writes", "data_fsyncs"), "On data files"),
        ("Doublewrite", "ops", rates("dblwr_pages_written", "dblwr_writes"), "Pages and batches"),
        ("Trees", "ops", rates("page_splits", "page_merges", "pages_created", "pages_freed"), "Pages"),
        ("Checkpoints", "ops", rates("checkpoints"), "Written a second"),
    ]),
    ("performance_schema (the server has it on, and the exporter --collect.perf_schema.file_events)", "timeseries", [
        ("File I/O", "ops", [(FILE_EVENTS, "{{event_name}} {{mode}}")], "Calls a second, by kind of file"),
        ("Mean time of a call", "s", [(ratio(FILE_SECONDS, FILE_EVENTS), "{{event_name}} {{mode}}")], "A batch is one call for each of its files"),
    ]),
]


def target(number, expression, legend):
    return {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expression, "legendFormat": legend,
            "editorMode": "code", "range": True, "instant": False}


def panel(number, kind, place, title, unit, queries, text):
    out = {
        "id": number, "type": kind, "title": title, "description": text, "datasource": SOURCE, "gridPos": place,
        "targets": [target(i, expression, legend) for i, (expression, legend) in enumerate(queries)],
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }
    if kind == "stat":
        out["options"] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value", "graphMode": "area"}
    else:
        out["fieldConfig"]["defaults"]["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
        out["options"] = {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return out


def panels():
    """All panels and the rows' titles, as Grafana has them, from top to bottom."""
    out, y, number = [], 0, 1
    for title, kind, of_row in ROWS:
        out.append({"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
        number, y, x = number + 1, y + 1, 0
        width, height = (3, 4) if kind == "stat" else (6, 7)
        for one in of_row:
            if x + width > COLUMNS:
                x, y = 0, y + height
            out.append(panel(number, kind, {"x": x, "y": y, "w": width, "h": height}, *one))
            number, x = number + 1, x + width
        y += height
    return out


def dashboard():
    variables = [
        {"name": "datasource", "type": "datasource", "label": "Data source", "query": "prometheus", "current": {}, "hide": 0},
        {"name": "instance", "type": "query", "label": "Server", "datasource": SOURCE,
         "query": {"query": "label_values(mysql_up, instance)", "refId": "instance"}, "refresh": 2, "includeAll": True, "multi": True,
         "current": {"text": "All", "value": "$__all"}, "hide": 0},
    ]
    return {"uid": "sluice", "title": "Sluice", "description": "The storage engine Sluice, from the data of prometheus-mysqld-exporter",
            "tags": ["sluice", "mariadb"], "timezone": "browser", "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1,
            "refresh": "10s", "time": {"from": "now-15m", "to": "now"}, "templating": {"list": variables}, "annotations": {"list": []},
            "panels": panels()}


def text():
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main():
    parser = argparse.ArgumentParser(description="The dashboard for Grafana.")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}; without it: exit code 1 if it is not up to date")
    if parser.parse_args().write:
        FILE.write_text(text())
    elif FILE.read_text() != text():
        sys.exit(f"error: {FILE.name} is not up to date: run scripts/monitoring/dashboard.py --write")


if __name__ == "__main__":
    main()
