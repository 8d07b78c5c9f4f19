"""Three servers in a Galera cluster on loopback, behind HAProxy: one frontend that spreads connections over the nodes, one that
goes to the first only. Offers what cell.Single offers; costs and counters are the sums of the nodes'.

State transfer by rsync starts a daemon that gives up root, so the servers run as an unprivileged user that owns their
folders: `mysql` or `nobody`, when the lab runs as root.
"""
import contextlib
import os
import pathlib
import pwd
import subprocess
import time

from . import BUILD, LabError, node as nodes, tools, workload
from .drain import drain
from .probe import Costs, process_costs

PROVIDER = BUILD / "mariadb" / "usr/lib/libgalera_smm.so"
READY_S = 60


def unprivileged():
    for name in ("mysql", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise LabError("a cluster started as root needs the user mysql or nobody")


class Member(nodes.Node):
    """A node that may run as another user than the lab."""

    def _user(self):
        return [f"--user={unprivileged().pw_name}"] if os.geteuid() == 0 else super()._user()

    def install(self):
        super().install()
        if os.geteuid() == 0:
            user = unprivileged()
            for path in [self.folder, self.data, self.folder / "tmp", *self.data.rglob("*")]:
                with contextlib.suppress(FileNotFoundError):
                    os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)

    def _set_up(self):
        """A node that joins answers before it is ready, and drops its connections once it is."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                if dict(self.ask("SHOW STATUS LIKE 'wsrep_ready'")).get("wsrep_ready") == "ON":
                    return super()._set_up()
            except LabError as error:
                if time.monotonic() > deadline:
                    raise LabError(f"node {self.name} did not join the cluster in {READY_S} s: {error}") from None
            if time.monotonic() > deadline:
                raise LabError(f"node {self.name} did not join the cluster in {READY_S} s")
            time.sleep(0.1)

    def _make_folders(self):
        super()._make_folders()
        if os.geteuid() == 0:
            os.chown(self.folder, unprivileged().pw_uid, unprivileged().pw_gid)
            os.chown(self.folder / "tmp", unprivileged().pw_uid, unprivileged().pw_gid)


class Cluster:
    def __init__(self, place, cell, engine, options, settings):
        self.place, self.proxy, self.ports = pathlib.Path(place), None, []
        for _ in range(settings.nodes * 4 + 2):
            self.ports.append(nodes.server.free_port(self.ports))
        self.front, self.single = self.ports[-2:]
        sql = self.ports[:settings.nodes]
        group = [self.ports[settings.nodes + 3 * number:settings.nodes + 3 * number + 3] for number in range(settings.nodes)]
        members = ",".join(f"127.0.0.1:{ports[0]}" for ports in group)
        self.members = []
        for number, (port, (base, transfer, incremental)) in enumerate(zip(sql, group)):
            galera = ["--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", "--binlog-format=ROW", f"--wsrep-cluster-address=gcomm://{members}",
                      f"--wsrep-provider-options=base_port={base};gmcast.listen_addr=tcp://127.0.0.1:{base};ist.recv_addr=127.0.0.1:{incremental}",
                      "--wsrep-sst-method=rsync", f"--wsrep-sst-receive-address=127.0.0.1:{transfer}", f"--wsrep-node-address=127.0.0.1:{base}",
                      *(["--wsrep-new-cluster"] if number == 0 else [])]
            self.members.append(Member(self.place / f"node{number + 1}", f"{cell.number}-{number + 1}", engine, [*options, *galera], settings.limits, port=port))
        self.node = self.members[0]

    def start(self):
        if not PROVIDER.exists():
            raise LabError("there is no Galera provider in build/mariadb: run make first")
        tools.program("haproxy")  # before the servers are started for nothing
        self._let_through()
        for member in self.members:
            member.start(READY_S)
        self._start_proxy()

    def _let_through(self):
        """The unprivileged servers must reach their folders."""
        if os.geteuid() == 0:
            self.place.mkdir(parents=True, exist_ok=True)
            self.place.chmod(0o755)

    def _start_proxy(self):
        servers = [f"  server n{number} 127.0.0.1:{member.port}" for number, member in enumerate(self.members)]
        lines = ["global", "  maxconn 1000", "defaults", "  mode tcp", "  timeout connect 5s", "  timeout client 3600s", "  timeout server 3600s",
                 "listen all", f"  bind 127.0.0.1:{self.front}", "  balance leastconn", *servers,
                 "listen single", f"  bind 127.0.0.1:{self.single}", servers[0]]
        config = self.place / "haproxy.cfg"
        config.write_text("\n".join(lines) + "\n")
        program, env = tools.program("haproxy")
        self.proxy = subprocess.Popen([str(program), "-q", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.place / "haproxy.log", "wb"), env=env)
        deadline = time.monotonic() + 10
        while not nodes.server.port_is_taken(self.front):
            if self.proxy.poll() is not None or time.monotonic() > deadline:
                raise LabError("HAProxy did not start: " + (self.place / "haproxy.log").read_text()[:200].strip())
            time.sleep(0.05)

    def restart(self):
        raise LabError("a step of a cluster cannot restart it")

    def ask(self, statement, database=""):
        """Settings go to every node; everything else to the first, which replicates it."""
        if statement.upper().startswith("SET GLOBAL"):
            return [member.ask(statement) for member in self.members][0]
        if database:
            self.node.ask(f"USE {database}")
        return self.node.ask(statement)

    def status(self):
        total = {}
        for member in self.members:
            for name, value in member.status().items():
                total[name] = total.get(name, 0.0) + value
        return total

    def variable(self, name):
        from .cell import durability_level
        found = self.node.ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'") if name else ()
        return durability_level(found[0][1]) if found else None

    def slow_disk(self, read_iops):
        for member in self.members:
            member.slow_disk(read_iops)

    def costs(self):
        return sum((member.costs() for member in self.members), Costs())

    def helper_cpu_s(self):
        costs = process_costs(self.proxy.pid) if self.proxy else None
        return costs.cpu_us / 1e6 if costs else 0.0

    def drain(self):
        """Every node drains; the slowest tells how long it took. A node that leaves to drain would come back by state transfer."""
        if self.node.engine_file.drain.by_shutdown:
            raise LabError("this engine drains by a shutdown, which a cluster cannot do: leave drain out")
        return max((drain(member) for member in self.members), key=lambda record: record["seconds"])

    def target(self, engine, seed):
        return workload.Target(self.node, engine, seed, port=self.front, single_port=self.single)

    def remove(self):
        if self.proxy is not None:
            self.proxy.kill()
            self.proxy.wait()
        for member in reversed(self.members):
            with contextlib.suppress(LabError, nodes.server.ServerError):
                member.remove()
