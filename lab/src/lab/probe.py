"""What a process has cost, what its files are, how fast the disk is: all that is read from /proc and the file system."""
import ctypes
import dataclasses
import mmap
import os
import pathlib
import platform
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = mmap.PAGESIZE
PROBE_ROUNDS = 3
PROBE_TRIES = 25


@dataclasses.dataclass
class Costs:
    """Totals since the process began. `reads` are those of its cgroup, or of the whole disk when there is none."""
    cpu_us: float = 0
    read_bytes: float = 0
    write_bytes: float = 0
    reads: float = 0
    writes: float = 0
    switches: float = 0
    reads_are_own: bool = False

    def __add__(self, other):
        return self._with(other, 1)

    def __sub__(self, other):
        return self._with(other, -1)

    def _with(self, other, sign):
        numbers = {field.name: getattr(self, field.name) + sign * getattr(other, field.name)
                   for field in dataclasses.fields(self) if field.name != "reads_are_own"}
        return Costs(**numbers, reads_are_own=self.reads_are_own or other.reads_are_own)

    def take_group(self, counts):
        """A cgroup outlives the process and counts its own: its totals replace the sums."""
        self.reads, self.writes = counts["reads"], counts["writes"]
        self.read_bytes = counts["read_bytes"]
        self.cpu_us = counts["cpu_us"] or self.cpu_us
        self.reads_are_own = True


def process_costs(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if stat[0] in "ZX":
            return None
        costs = Costs(cpu_us=(int(stat[11]) + int(stat[12])) * 1e6 / TICKS)
        io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())
        costs.read_bytes, costs.write_bytes = int(io["read_bytes"]), int(io["write_bytes"]) - int(io["cancelled_write_bytes"])
    except (OSError, ValueError, KeyError):
        return None
    costs.reads = disk_reads(f"/proc/{pid}/cwd")
    return costs


def disk_reads(path):
    """Reads of the whole disk under a path: the best there is without a cgroup."""
    try:
        number = os.stat(path).st_dev
        for line in pathlib.Path("/proc/diskstats").read_text().splitlines():
            words = line.split()
            if (int(words[0]), int(words[1])) == (os.major(number), os.minor(number)):
                return int(words[3])
    except OSError:
        pass
    return 0


def matching(data, patterns):
    """Regular files below the data directory whose name or relative path matches."""
    found = []
    for path in pathlib.Path(data).rglob("*"):
        relative = path.relative_to(data)
        if any(relative.match(pattern) for pattern in patterns) and path.is_file():
            found.append(path)
    return found


def buffered_files(pid, data, patterns):
    """Open data files that do not bypass the page cache: relative names."""
    data, found = pathlib.Path(data), set()
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    for number in numbers:
        try:
            path = pathlib.Path(os.readlink(f"/proc/{pid}/fd/{number}"))
            relative = path.relative_to(data)
            if not any(relative.match(pattern) for pattern in patterns):
                continue
            info = pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text()
            flags = int(next(line.split()[1] for line in info.splitlines() if line.startswith("flags:")), 8)
            if not flags & os.O_DIRECT:
                found.add(str(relative))
        except (OSError, ValueError):
            continue
    return sorted(found)


def sizes_mb(paths):
    """Space on disk, and the part of it that is in the page cache."""
    on_disk = cached = 0
    for path in paths:
        try:
            stat = os.stat(path)
            on_disk += stat.st_blocks * 512
            cached += cached_bytes(path, stat.st_size)
        except OSError:
            continue
    return on_disk / 1048576, cached / 1048576


_libc = ctypes.CDLL(None, use_errno=True)


def cached_bytes(path, size):
    if size == 0:
        return 0
    with open(path, "rb") as file:
        # Private and writable is what ctypes needs to take its address; nothing is written.
        mapping = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        try:
            anchor = ctypes.c_char.from_buffer(mapping)
            pages = (size + PAGE - 1) // PAGE
            vector = (ctypes.c_ubyte * pages)()
            failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), vector)
            del anchor
            return 0 if failed else sum(value & 1 for value in bytes(vector)) * PAGE
        finally:
            mapping.close()


def disk_probe(folder):
    """Microseconds of one small write with fdatasync and of one direct 16 KiB read. Medians of some tries each, and of three
    such rounds the best: a neighbour's burst is no property of the disk."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder)
    try:
        block = mmap.mmap(-1, 16384)
        os.write(handle, os.urandom(16384 * 256))
        os.fsync(handle)
        direct = os.open(name, os.O_RDONLY | os.O_DIRECT)
        try:
            rounds = [_probe_round(handle, direct, block) for _ in range(PROBE_ROUNDS)]
        finally:
            os.close(direct)
        syncs, reads = zip(*rounds)
        return {"fdatasync_us": min(syncs) * 1e6, "read_us": min(reads) * 1e6}
    except OSError as error:
        return {"error": str(error)}
    finally:
        os.close(handle)
        os.unlink(name)


def _probe_round(handle, direct, block):
    syncs, reads = [], []
    for turn in range(PROBE_TRIES):
        begin = time.perf_counter()
        os.pwrite(handle, b"x" * 4096, turn * 4096)
        os.fdatasync(handle)
        synced = time.perf_counter()
        os.preadv(direct, [block], turn * 37 % 256 * 16384)
        syncs.append(synced - begin)
        reads.append(time.perf_counter() - synced)
    return sorted(syncs)[PROBE_TRIES // 2], sorted(reads)[PROBE_TRIES // 2]


def environment(folder):
    """What a reader needs to judge the figures. No names of hosts or people."""
    def read(path):
        try:
            return pathlib.Path(path).read_text().strip()
        except OSError:
            return ""
    cpu = [line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    memory = next((int(line.split()[1]) // 1024 for line in read("/proc/meminfo").splitlines() if line.startswith("MemTotal")), 0)
    number = os.stat(folder).st_dev
    queue = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue")
    mount = ""
    for line in read("/proc/mounts").splitlines():
        words = line.split()
        if str(pathlib.Path(folder).resolve()).startswith(words[1]) and (not mount or len(words[1]) >= len(mount.split()[0])):
            mount = f"{words[1]} {words[2]} {words[3]}"
    return {
        "cpu": cpu[0] if cpu else platform.machine(), "cores": os.cpu_count(), "memory_mb": memory, "kernel": platform.release(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not shown", "filesystem": " ".join(mount.split()[1:]),
        "scheduler": read(queue / "scheduler"), "read_ahead_kb": read(queue / "read_ahead_kb"), "rotational": read(queue / "rotational"),
        "load_average": read("/proc/loadavg"), "swap": "none" if len(read("/proc/swaps").splitlines()) < 2 else "on",
        "python": platform.python_version(), "disk": disk_probe(folder),
    }


KERNEL_THREAD = 0x00200000  # PF_KTHREAD among the flags of /proc/PID/stat


def people_cpu_s():
    """CPU seconds that processes of the whole machine have used since it started, and its neighbours on the same host with them
    (steal). Without the kernel's threads and interrupts: they work for whoever reads and writes, which is mostly the cell."""
    try:
        user, nice, system, _, _, _, _, steal = map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    except (OSError, ValueError):
        return None
    kernel = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat[6]) & KERNEL_THREAD:
            kernel += int(stat[11]) + int(stat[12])
    return (user + nice + system + steal - kernel) / TICKS


class Neighbours:
    """What others than the cell take of the machine's CPU, from its making to `share`."""
    SECONDS_MIN = 0.5  # below that the clock of /proc/stat, 10 ms, is too coarse

    def __init__(self):
        self._people, self._lab, self._begin = people_cpu_s(), time.process_time(), time.monotonic()

    def share(self, own_cpu_s):
        """The share of all cores, or None when it cannot be told; `own_cpu_s` is what the cell's processes used, the lab's apart."""
        seconds = time.monotonic() - self._begin
        if self._people is None or seconds < self.SECONDS_MIN:
            return None
        others = people_cpu_s() - self._people - own_cpu_s - (time.process_time() - self._lab)
        return min(max(others, 0.0) / seconds / os.cpu_count(), 1.0)
