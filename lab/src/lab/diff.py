"""Two stored runs side by side, in the manner of benchstat: medians, change, p; '~' where nothing was shown."""
from rich.markup import escape
from rich.table import Table

from . import LabError, frame as frames, report, stats

METRICS = ["rate", "rate_drained", "reads_per_op", "write_kb_per_op", "syncs_per_op", "server_cpu_us_per_op", "p99_ms", "data_mb"]
SIGNIFICANT = 0.05


def compare(old_cells, new_cells, metrics=None):
    """One line for each arm, step and metric that both runs have."""
    old, new = frames.samples(old_cells), frames.samples(new_cells)
    both, lines = [kind for kind in frames.kinds(old_cells) if kind in frames.kinds(new_cells)], []
    for step in old["step"].unique(maintain_order=True).to_list():
        for metric in metrics or METRICS:
            for kind in both:
                before = list(frames.by_repeat(old, kind, step, metric).values())
                after = list(frames.by_repeat(new, kind, step, metric).values())
                if not before or not after or not (any(before) or any(after)):
                    continue
                lines.append({"step": step, "metric": metric, "kind": kind, "old": stats.centre(before), "new": stats.centre(after), "p": stats.differ(before, after)})
    return lines


def change(line):
    """'+12.0 %', or '~' with the reason."""
    if line["p"] is None:
        return f"~ (n = {min(line['old'].n, line['new'].n)}, {stats.TEST_SAMPLES_MIN} needed)"
    if line["p"] >= SIGNIFICANT:
        return f"~ (p = {line['p']:.2f})"
    if line["old"].median == 0:
        return f"from 0 (p = {line['p']:.3f})"
    return f"{line['new'].median / line['old'].median - 1:+.1%} (p = {line['p']:.3f})"


def show(old, new, metrics, console):
    """The header, what makes the two incomparable, and a table for each metric."""
    if same(old, new):
        raise LabError("both names mean the same run: there is nothing to compare")
    unknown = [name for name in metrics or [] if name not in _metrics(old) or name not in _metrics(new)]
    if unknown:
        raise LabError(f"the two runs do not both have the metric {unknown[0]!r}; there are {', '.join(sorted(_metrics(old) & _metrics(new))) or 'none'}")
    console.print(header(old, new))
    for line in warnings(old, new):
        console.print(f"[yellow]{escape(line)}", highlight=False)
    lines = compare(old.cells, new.cells, metrics)
    if not lines:
        console.print("the two runs have no arm and step in common that counts")
    for metric in dict.fromkeys(line["metric"] for line in lines):
        table = Table("step", "arm", "old", "new", "change", title=metric, title_justify="left", box=None)
        for line in lines:
            if line["metric"] == metric:
                table.add_row(line["step"], line["kind"], _text(line["old"]), _text(line["new"]), change(line))
        console.print(table)


def same(old, new):
    return (old.manifest["started"], old.manifest["experiment"], old.cells) == (new.manifest["started"], new.manifest["experiment"], new.cells)


def _metrics(run):
    return {name for cell in run.cells for sample in cell.get("samples", []) for name in sample["metrics"]}


def header(old, new):
    """What is compared: two columns."""
    table = Table("", "old", "new", box=None)
    for title, tell in (("run", _name), ("commit", lambda run: _environment(run, "commit")), ("repeats", lambda run: str(run.manifest["repeats"])),
                        ("disk before the run", _disk), ("load average", lambda run: " ".join(_environment(run, "load_average").split()[:3]))):
        table.add_row(title, tell(old), tell(new))
    return table


def warnings(old, new):
    """Differences of the experiments themselves: what follows would be blamed on the code."""
    one, other = old.manifest, new.manifest
    if one["experiment"] != other["experiment"]:
        return [f"these are two experiments: {one['experiment']} and {other['experiment']}"]
    found = [f"{key} is {_short(one['values'].get(key))} in the old run and {_short(other['values'].get(key))} in the new one"
             for key in dict.fromkeys([*one["values"], *other["values"]]) if one["values"].get(key) != other["values"].get(key)]
    found += [f"{what} is not the same in both runs" for what in ("sweep", "arms", "steps") if one.get(what) != other.get(what)]
    if not found and one["text"] != other["text"]:
        found.append("the experiment file has changed between the two runs")
    return found


def _short(value):
    return "not given" if value is None else str(value)


def _name(run):
    return f"{run.manifest['started']} {run.manifest['experiment']}, preset {run.manifest['preset']}"


def _environment(run, name):
    return str(run.manifest["environment"].get(name, "not known"))


def _disk(run):
    disk = run.manifest["environment"].get("disk", {})
    return ", ".join(f"{name.removesuffix('_us')} {value:.0f} µs" for name, value in disk.items() if isinstance(value, (int, float))) or "not known"


def _text(centre):
    spread = "" if centre.low is None or not centre.median else f" ± {max(centre.high - centre.median, centre.median - centre.low) / centre.median:.0%}"
    return report.figure(centre.median) + spread
