"""mysqld_exporter of Prometheus: every collector, and the names of the metrics beside those of the real InnoDB."""
import re

from application import PASSWORD, Application, fetch
from debian_root import Failed
from server import free_port

COLLECTORS = ("auto_increment.columns", "binlog_size", "engine_innodb_status", "global_status", "global_variables", "info_schema.clientstats",
              "info_schema.innodb_cmp", "info_schema.innodb_cmpmem", "info_schema.innodb_metrics", "info_schema.innodb_tablespaces",
              "info_schema.processlist", "info_schema.schemastats", "info_schema.tables", "info_schema.tablestats", "info_schema.userstats",
              "mysql.user", "perf_schema.eventsstatements", "perf_schema.eventsstatementssum", "perf_schema.eventswaits", "perf_schema.file_events",
              "perf_schema.file_instances", "perf_schema.indexiowaits", "perf_schema.tableiowaits", "perf_schema.tablelocks", "slave_status",
              "slave_hosts")
MOVING = ('mysql_global_status_innodb_row_ops_total{operation="inserted"}', "mysql_global_status_innodb_data_writes", "mysql_global_status_innodb_log_writes")


class Exporter(Application):
    name = "mysqld_exporter"
    packages = ("prometheus-mysqld-exporter",)
    databases = ("exporter",)
    privileges = "PROCESS, REPLICATION CLIENT, SLAVE MONITOR, SELECT"
    names_of = {}  # engine: the names of the metrics about InnoDB

    def install(self):
        self.sql("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(100), KEY (b)) ; INSERT INTO t (b) SELECT REPEAT('x', 90) FROM seq_1_to_5000")
        self.write("/etc/exporter.cnf", f"[client]\nuser={self.database}\npassword={PASSWORD}\nhost=127.0.0.1\nport={self.server.port}\n")
        port = free_port()
        self.address = f"http://127.0.0.1:{port}/metrics"
        with self.step(f"the exporter starts with {len(COLLECTORS)} collectors"):
            self.start(f"prometheus-mysqld-exporter --config.my-cnf=/etc/exporter.cnf --web.listen-address=127.0.0.1:{port} "
                       + " ".join(f"--collect.{name}" for name in COLLECTORS), "exporter", self.address)

    def metrics(self):
        result = {}
        for line in fetch(self.address).splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                result[name] = float(value)
        return result

    def check_scrape(self):
        metrics = self.metrics()
        if metrics.get("mysql_up") != 1:
            raise Failed("mysql_up is not 1")
        failed = sorted(re.search(r'"(.*)"', name)[1] for name, value in metrics.items() if name.startswith("mysql_exporter_collector_success") and value != 1)
        if failed:
            raise Failed(f"these collectors fail: {', '.join(failed)}")
        return metrics

    def use(self):
        with self.step("a scrape: all collectors succeed"):
            before = self.check_scrape()
        with self.step("InnoDB's counters move with inserts"):
            self.sql("INSERT INTO t (b) SELECT REPEAT('y', 90) FROM seq_1_to_5000")
            after = self.check_scrape()
            still = [name for name in MOVING if not after.get(name, 0) > before.get(name, 0)]
            if still and self.server.stand_in:
                raise Failed(f"these do not move: {', '.join(still)}")
        of_innodb = {re.sub(r"{.*", "", name) for name in after if "innodb" in name}
        self.names_of["stand-in" if self.server.stand_in else "own"] = of_innodb
        if "stand-in" in self.names_of and not self.server.stand_in:
            with self.step("every metric about the real InnoDB has one of the stand-in's"):
                missing = sorted(of_innodb - self.names_of["stand-in"])
                if missing:
                    raise Failed(f"{len(missing)} names of the real InnoDB are missing: {', '.join(missing)}")
        return [f"{len(of_innodb)} names of metrics are about InnoDB."]

    def serves(self):
        self.check_scrape()
