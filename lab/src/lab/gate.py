"""When a cell counts. Pure: every gate looks at the facts of one sample, or of all samples, and gives a verdict with its reason.

Facts of a sample: see cell.facts. Verdicts: ok, warn, fail. A failed sample is shown, hatched, and compared with nothing.
"""
import math
import re
import statistics

LIMITS = {"client_cpu_max": 0.8, "page_cache_max": 0.05, "errors_warn": 0.01, "errors_max": 0.2, "reads_per_op_min": 0.02, "commits_per_second_min": 100, "disk_slower_max": 2.0, "app_cpu_warn": 0.9,
          "others_cpu_warn": 0.1, "others_cpu_max": 0.4}
SWITCHES = ("direct_io", "page_cache", "data_over_pool", "misses", "client_cpu", "durability", "same_data", "errors", "steady_disk", "drained", "app_cpu", "nothing_lost", "quiet_cpu")
DATA_OVER_POOL = re.compile(r"data\s*([<>])\s*(\d+(?:\.\d+)?)\s*pool")
DISK_TIMES = ("fdatasync_us", "read_us")


def verdict(gate, result, reason):
    return {"gate": gate, "verdict": result, "reason": reason}


def unknown_keys(settings):
    return [key for key in settings if key not in LIMITS and key not in SWITCHES]


def understood(text, arms):
    """Whether an `expect` of a step is one that a gate looks at."""
    return bool(DATA_OVER_POOL.fullmatch(text)) or text == "misses" or text.removeprefix("misses in ") in arms


def judge(facts, expect, settings):
    """All gates of one sample."""
    limits = {**LIMITS, **settings}
    checks = [direct_io, page_cache, data_over_pool, misses, client_cpu, app_cpu, quiet_cpu, durability, errors, drained, nothing_lost]
    found = []
    for check in checks:
        if settings.get(check.__name__) is False:
            continue
        found += check(facts, expect, limits)
    return found


def direct_io(facts, expect, limits):
    files = facts["buffered_files"]
    if not facts["direct_io_wanted"]:
        return [verdict("direct_io", "warn", "buffered on purpose: what the page cache serves is no read of the disk")]
    if files is None:
        return [verdict("direct_io", "warn", "nothing is known of this engine's data files")]
    if not facts["data_mb"]:
        return [verdict("direct_io", "warn", "there are no data files: nothing was written yet, or data_files of the engine's file matches none")]
    if files:
        return [verdict("direct_io", "fail", f"{len(files)} data files are open without O_DIRECT, such as {files[0]}")]
    return [verdict("direct_io", "ok", "every open data file has O_DIRECT")]


def page_cache(facts, expect, limits):
    data, cached = facts["data_mb"], facts["cached_mb"]
    share = cached / data if data else 0.0
    if not facts["direct_io_wanted"]:
        return [verdict("page_cache", "warn", f"{cached:.1f} of {data:.0f} MB of data files are in the page cache, on purpose")]
    if not data:
        return [verdict("page_cache", "warn", "there are no data files to look at")]
    result = "fail" if share > limits["page_cache_max"] and cached > 1 else "ok"
    return [verdict("page_cache", result, f"{cached:.1f} of {data:.0f} MB of data files came into the page cache")]


def data_over_pool(facts, expect, limits):
    """The experiment's own tables count, not what else the engine keeps on disk: undo of a small table can outgrow the pool."""
    found, data = [], facts["tables_mb"]
    for match in filter(None, map(DATA_OVER_POOL.fullmatch, expect)):
        sign, bound = match.group(1), float(match.group(2))
        ratio = data / facts["pool_mb"]
        met = ratio > bound if sign == ">" else ratio < bound
        if met and not data:
            found.append(verdict("data_over_pool", "warn", "no data of the tables was found on disk"))
            continue
        found.append(verdict("data_over_pool", "ok" if met else "fail", f"the tables ({data:.0f} MB) are {ratio:.2f} times the pool, expected {sign} {bound:g}"))
    return found


def misses(facts, expect, limits):
    if "misses" not in expect and f"misses in {facts['arm']}" not in expect:
        return []
    per_op = facts["reads"] / max(facts["operations"], 1)
    if not facts["reads_are_own"]:
        return [verdict("misses", "warn", f"{per_op:.2f} disk reads per operation, but of the whole machine: no cgroup")]
    few = per_op < limits["reads_per_op_min"]
    return [verdict("misses", "fail" if few else "ok", f"{per_op:.3f} disk reads per operation")]


def client_cpu(facts, expect, limits):
    cores = min(facts["threads"], facts["cores"])
    share = facts["client_cpu_s"] / max(facts["elapsed_s"], 1e-9) / max(cores, 1)
    result = "fail" if share > limits["client_cpu_max"] else "ok"
    return [verdict("client_cpu", result, f"the client used {share:.0%} of the {cores} cores that it can use")]


def app_cpu(facts, expect, limits):
    """An application before the server is part of what is measured, so this is no failure, but it bounds what can be said."""
    used = facts.get("app_cpu_s")
    if used is None:
        return []
    share = used / max(facts["elapsed_s"], 1e-9)
    limit = "; it, not the server, may be the limit: a single Ruby process computes on one core" if share > limits["app_cpu_warn"] else ""
    return [verdict("app_cpu", "warn" if limit else "ok", f"the application used {share:.0%} of a core{limit}")]


def quiet_cpu(facts, expect, limits):
    """What other people's processes took of the machine's cores while the step ran. The kernel's own measure of contention
    (/proc/pressure/cpu) cannot tell them from the cell itself, whose server and client alone fill two cores."""
    share = facts.get("others_cpu")
    if share is None:
        return []
    result = "fail" if share > limits["others_cpu_max"] else "warn" if share > limits["others_cpu_warn"] else "ok"
    return [verdict("quiet_cpu", result, f"other processes used {share:.0%} of the machine's CPU")]


def nothing_lost(facts, expect, limits):
    """After kill -9. Level 0 promises less, so there a loss is told and no failure."""
    crash = facts.get("crash")
    if not crash:
        return []
    if crash["torn"]:
        return [verdict("nothing_lost", "fail", f"of a statement that was not acknowledged {crash['torn']} rows are there, not all or none")]
    if crash["check"] != "OK":
        return [verdict("nothing_lost", "fail", f"CHECK TABLE after the crash says: {crash['check']}")]
    if crash["lost"]:
        return [verdict("nothing_lost", "warn" if str(facts["durability"]) == "0" else "fail", f"{crash['lost']} of {crash['acknowledged']} acknowledged rows are gone after kill -9")]
    return [verdict("nothing_lost", "ok", f"all {crash['acknowledged']} acknowledged rows are there after kill -9")]


def durability(facts, expect, limits):
    wanted, told = str(facts["durability"]), facts["durability_told"]
    if told is None:
        return [verdict("durability", "warn", "nothing is known of this engine's durability")]
    if str(told) != wanted:
        return [verdict("durability", "fail", f"the server says level {told}, the arm claims {wanted}")]
    syncs, commits, seconds = facts["syncs"], facts["commits"], max(facts["elapsed_s"], 1e-9)
    if syncs is None or not commits:
        return [verdict("durability", "ok", f"level {told}")]
    if wanted == "1" and syncs * facts["threads"] * 2 < commits:
        return [verdict("durability", "fail", f"level 1 is claimed, but {commits:.0f} commits of {facts['threads']} threads made {syncs:.0f} syncs")]
    if wanted != "1" and syncs >= 0.9 * commits and commits / seconds > limits["commits_per_second_min"]:
        return [verdict("durability", "warn", f"level {wanted} is claimed, but {commits:.0f} commits made {syncs:.0f} syncs")]
    return [verdict("durability", "ok", f"level {told}, {syncs / commits:.3f} syncs per commit")]


def errors(facts, expect, limits):
    share = facts["errors"] / max(facts["operations"], 1)
    result = "fail" if share > limits["errors_max"] else "warn" if share > limits["errors_warn"] else "ok"
    return [verdict("errors", result, f"{facts['errors']} failed statements, {share:.2%} of operations")]


def drained(facts, expect, limits):
    drain = facts.get("drain")
    if not drain:
        return []
    left = ", ".join(f"{name} {value:.0f}" for name, value in drain["left_after"].items() if value > 0)
    if not drain["done"]:
        return [verdict("drained", "fail", f"not drained in time: {left or 'the disk was never quiet'}")]
    return [verdict("drained", "ok", "drained" + (f"; {left}" if left else ""))]


def steady_disk(probes, blocks):
    """Verdicts for the cells of a run, from the probe before each: {cell number: verdict}. `blocks`: {cell number: repeat}.

    A cell is odd when its disk was far from the run's median, slower or faster: either way its neighbours are not to be
    compared with it. Inside a block, where cells are compared, the slowest and the fastest may not be far from each other;
    the one further from the median is then the odd one, and of two alike both are."""
    times = {number: {name: probe[name] for name in DISK_TIMES if probe.get(name)} for number, probe in probes.items() if "error" not in probe}
    found = {}
    for name in DISK_TIMES:
        logs = {number: math.log(of_cell[name]) for number, of_cell in times.items() if name in of_cell}
        for number, (off, side) in _odd_cells(logs, blocks).items():
            if number not in found or off > found[number][0]:
                found[number] = (off, side)
    limit = LIMITS["disk_slower_max"]
    return {number: verdict("steady_disk", "fail" if off > 2 * limit else "warn", f"before this cell the disk was {off:.1f} times as {side}") for number, (off, side) in found.items()}


def _odd_cells(logs, blocks):
    """{cell number: (how many times off, in words what it is off from)} for one of the probe's times, given as logarithms."""
    limit, found = LIMITS["disk_slower_max"], {}
    if len(logs) < 2:
        return found
    centre = statistics.median(logs.values())
    for number, value in logs.items():
        off = math.exp(abs(value - centre))
        if off > limit:
            found[number] = (off, f"{'slow' if value > centre else 'fast'} as the run's median")
    for block in set(blocks.values()):
        left = {number: value for number, value in logs.items() if blocks[number] == block and found.get(number, (0, ""))[0] <= 2 * limit}
        if not left:
            continue
        fast, slow = min(left, key=left.get), max(left, key=left.get)
        spread = math.exp(left[slow] - left[fast])
        if spread <= limit:
            continue
        further = max(abs(left[number] - centre) for number in (fast, slow))
        for number, side in ((fast, "fast as before the slowest"), (slow, "slow as before the fastest")):
            if abs(left[number] - centre) > further - 1e-9:
                found[number] = (spread, f"{side} cell of the same repeat")
    return found


def same_data(answers):
    """`answers`: {cell number: (group, answer)}. Cells of a group must agree; those that differ from the majority fail."""
    groups = {}
    for number, (group, answer) in answers.items():
        groups.setdefault(group, {}).setdefault(answer, []).append(number)
    found = {}
    for by_answer in groups.values():
        usual = max(by_answer, key=lambda answer: len(by_answer[answer]))
        for answer, numbers in by_answer.items():
            for number in numbers:
                if answer == usual and (len(by_answer) == 1 or len(by_answer[usual]) > 1):
                    found[number] = verdict("same_data", "ok", f"{answer}")
                else:
                    found[number] = verdict("same_data", "fail", f"{answer} here, {usual if answer != usual else 'something else'} in other arms")
    return found
