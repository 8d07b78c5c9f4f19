"""Two stored runs side by side, in the manner of benchstat: medians, change, p; '~' where nothing was shown."""
from rich.table import Table

from . import frame as frames, report, stats

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
    lines = compare(old.cells, new.cells, metrics)
    if not lines:
        console.print("the two runs have no arm and step in common that counts")
    for metric in dict.fromkeys(line["metric"] for line in lines):
        table = Table("step", "arm", "old", "new", "change", title=metric, title_justify="left", box=None)
        for line in lines:
            if line["metric"] == metric:
                table.add_row(line["step"], line["kind"], _text(line["old"]), _text(line["new"]), change(line))
        console.print(table)


def _text(centre):
    spread = "" if centre.low is None or not centre.median else f" ± {max(centre.high - centre.median, centre.median - centre.low) / centre.median:.0%}"
    return report.figure(centre.median) + spread
