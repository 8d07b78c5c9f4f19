"""Cgroups around one server: its disk accesses counted apart from everybody else's, a slower disk imitated, memory limited.

Works with version 1 (blkio, cpuacct, memory) and version 2 (io, cpu, memory), when the files can be written, which mostly
means root. Without, `open_group` says why, and the lab counts what it can by other means. Groups are removed at the end.
"""
import os
import pathlib
import time

MOUNT = pathlib.Path("/sys/fs/cgroup")
UNLIMITED_IOPS = 1_000_000_000


def device_of(path):
    """'major:minor' of the whole disk that holds a path, or '' when it is not on one."""
    number = os.stat(path).st_dev
    link = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not link.exists():
        return ""
    folder = link.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    return (folder / "dev").read_text().strip()


class Group:
    """One server's cgroup; a folder in each controller of version 1, one folder in version 2."""

    def __init__(self, name, path, read_iops=0, write_iops=0, memory_mb=0):
        self.device = device_of(path)
        self.version = 2 if (MOUNT / "cgroup.controllers").exists() else 1
        self.folders = {}
        for controller in (["blkio", "cpuacct"] + (["memory"] if memory_mb else [])) if self.version == 1 else [""]:
            folder = MOUNT / controller / f"lab-{name}"
            folder.mkdir(exist_ok=True)
            self.folders[controller] = folder
        try:
            self._limit(read_iops, write_iops, memory_mb)
        except OSError:
            self.close()
            raise

    def _limit(self, read_iops, write_iops, memory_mb):
        if self.version == 2:
            folder = self.folders[""]
            limits = [f"{key}={value}" for key, value in (("riops", read_iops), ("wiops", write_iops)) if value]
            if limits:
                (folder / "io.max").write_text(f"{self.device} {' '.join(limits)}")
            if memory_mb:
                (folder / "memory.max").write_text(str(int(memory_mb * 1048576)))
            (folder / "io.stat").read_text()
            return
        blkio = self.folders["blkio"]
        # Newer kernels count only where some limit is set, hence one that is never met.
        (blkio / "blkio.throttle.read_iops_device").write_text(f"{self.device} {read_iops or UNLIMITED_IOPS}")
        (blkio / "blkio.throttle.write_iops_device").write_text(f"{self.device} {write_iops or UNLIMITED_IOPS}")
        if memory_mb:
            (self.folders["memory"] / "memory.limit_in_bytes").write_text(str(int(memory_mb * 1048576)))

    def limit_reads(self, read_iops):
        """Changes the limit of a group at work."""
        if self.version == 2:
            (self.folders[""] / "io.max").write_text(f"{self.device} riops={read_iops or 'max'}")
        else:
            (self.folders["blkio"] / "blkio.throttle.read_iops_device").write_text(f"{self.device} {read_iops or UNLIMITED_IOPS}")

    def wrap(self, command):
        """The command, started inside the group from its first instruction on."""
        joins = "; ".join(f"echo $$ > '{folder}/cgroup.procs'" for folder in self.folders.values())
        return ["/bin/sh", "-c", f'{joins}; exec "$@"', "sh", *command]

    def counts(self):
        """Reads and writes that reached the disk, their bytes, and CPU microseconds, since the group was made."""
        if self.version == 2:
            fields = {}
            for line in (self.folders[""] / "io.stat").read_text().splitlines():
                if line.startswith(f"{self.device} "):
                    fields = dict(part.split("=") for part in line.split()[1:])
            cpu = dict(line.split() for line in (self.folders[""] / "cpu.stat").read_text().splitlines())
            return {"reads": int(fields.get("rios", 0)), "writes": int(fields.get("wios", 0)),
                    "read_bytes": int(fields.get("rbytes", 0)), "cpu_us": int(cpu.get("usage_usec", 0))}
        reads, writes = self._blkio("blkio.throttle.io_serviced")
        read_bytes, _ = self._blkio("blkio.throttle.io_service_bytes")
        return {"reads": reads, "writes": writes, "read_bytes": read_bytes,
                "cpu_us": int((self.folders["cpuacct"] / "cpuacct.usage").read_text()) // 1000}

    def memory_kills(self):
        """How often the kernel has ended a process of the group because its memory was used up."""
        file = self.folders[""] / "memory.events" if self.version == 2 else self.folders.get("memory", self.folders.get("blkio")) / "memory.oom_control"
        try:
            found = dict(line.split() for line in file.read_text().splitlines())
        except OSError:
            return 0
        return int(found.get("oom_kill", 0))

    def _blkio(self, file):
        found = {"Read": 0, "Write": 0}
        for line in (self.folders["blkio"] / file).read_text().splitlines():
            words = line.split()
            if len(words) == 3 and words[0] == self.device and words[1] in found:
                found[words[1]] = int(words[2])
        return found["Read"], found["Write"]

    def close(self):
        for folder in self.folders.values():
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # its last process is still on its way out
                    time.sleep(0.02)


def open_group(name, path, **limits):
    """A group and '', or None and the reason."""
    try:
        return Group(name, path, **limits), ""
    except OSError as error:
        return None, f"no cgroup for the server ({error.strerror or error})"
