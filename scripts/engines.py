"""The engines that the programs here can run, and the server options that make them equal: pool, redo log, durability.

One place for the variables' names. Every engine gets the same memory and redo log, syncs at every commit, writes its pages so
that a torn one is recovered, and bypasses the system's page cache. MyRocks is a stand-in to try the programs with; it has no
pool of pages, so its block cache gets the size.
"""

NAMES = ("Sluice", "InnoDB", "RocksDB")
PLUGINS = {"Sluice": ("ha_sluice",), "InnoDB": (), "RocksDB": ("ha_rocksdb",)}


def plugins(engines):
    return [plugin for engine in engines for plugin in PLUGINS.get(engine, ())]


def innodb_free_pages(pool):
    """innodb_lru_scan_depth, the pages that InnoDB's page cleaner keeps free: at most a 16th of the pool, where the default (1536)
    would be a quarter of 96M. As in lab/engines/innodb.toml; see docs/decisions/2026-11-21-innodb-in-small-pools.md."""
    kib = int(pool[:-1]) * {"K": 1, "M": 1024, "G": 1024 * 1024}[pool[-1].upper()] if pool[-1].isalpha() else int(pool) // 1024
    return min(max(kib // 16 // 16, 100), 1536)


def options(engine, pool, redo, lock_wait_seconds=50):
    """Server options for sizes such as "128M"."""
    if engine == "Sluice":
        return [f"--loose-sluice-buffer-pool-size={pool}", f"--loose-sluice-redo-log-capacity={redo}",
                "--loose-sluice-flush-log-at-trx-commit=1", f"--loose-sluice-lock-wait-timeout={lock_wait_seconds}"]
    if engine == "InnoDB":
        return [f"--innodb-buffer-pool-size={pool}", f"--innodb-lru-scan-depth={innodb_free_pages(pool)}",
                f"--innodb-log-file-size={redo}", "--innodb-flush-log-at-trx-commit=1",
                "--innodb-doublewrite=ON", "--innodb-flush-method=O_DIRECT", f"--innodb-lock-wait-timeout={lock_wait_seconds}"]
    if engine != "RocksDB":  # one of the server's others, such as Aria
        return []
    return [f"--rocksdb-block-cache-size={pool}", "--rocksdb-flush-log-at-trx-commit=1",
            f"--rocksdb-lock-wait-timeout={lock_wait_seconds}", "--rocksdb-use-direct-reads=ON",
            "--rocksdb-use-direct-io-for-flush-and-compaction=ON"]
