"""The charts of a report, as Vega-Lite specifications made with Altair. One chart, one question; each is as wide as its
place on the page, so that it works on a phone and in print. A sample that failed a gate is a hollow grey cross."""
import altair

COLOURS = ["#1b6ca8", "#d1495b", "#2a9d8f", "#e9a23b", "#6d597a", "#3d5a80", "#8a5a44", "#5c946e", "#b56576", "#355070", "#7a7a7a", "#9c6644"]
UNITS = {"rate": "operations/s", "rate_drained": "operations/s, drain included", "insert_rate": "inserts/s", "query_rate": "queries/s",
         "server_cpu_us_per_op": "server CPU µs per operation", "client_cpu_us_per_op": "client CPU µs per operation", "reads_per_op": "disk reads per operation",
         "read_kb_per_op": "KB read per operation", "write_kb_per_op": "KB written per operation", "syncs_per_op": "syncs per operation",
         "p50_ms": "median latency, ms", "p95_ms": "95th percentile, ms", "p99_ms": "99th percentile, ms", "max_ms": "longest, ms", "stall_s": "stalled seconds", "worst_second": "worst second over the median one",
         "debt_peak_share": "most work put off, as a share of the engine's bound",
         "data_mb": "MB on disk", "drain_s": "seconds to drain", "p90_ms": "90th percentile, ms", "recovery_s": "seconds until the server answers again", "lost_rows": "acknowledged rows lost",
         "app_cpu_us_per_op": "application CPU µs per operation", "page_splits_per_op": "page splits per operation", "pool_misses_per_op": "pool misses per operation", "tables_mb": "MB of tables",
         "drain_reads_per_op": "disk reads of the drain, per operation", "drain_read_kb_per_op": "KB read by the drain, per operation", "server_cpu_us_per_query": "server CPU µs per query", "errors_per_op": "errors per operation",
         "cached_mb": "MB in the page cache", "server_cores": "cores used by the server", "redo_bytes_per_op": "bytes of redo per operation", "drain_write_kb_per_op": "KB written by the drain, per operation",
         "write_kb_drained_per_op": "KB written per operation, drain included", "drain_cpu_us_per_op": "CPU µs of the drain, per operation", "seconds": "seconds"}
ENDINGS = {"_ms": "ms", "_us": "µs", "_kb": "KB", "_mb": "MB", "_s": "s", "_bytes": "bytes"}
# 12k and 3M, but 0.2 and not 200m.
NUMBERS = altair.Axis(labelExpr="format(datum.value, abs(datum.value) < 1 ? '~g' : '~s')")


def unit(metric):
    """A metric in words, with its unit; one that an engine's file or a load has named by itself is spelt out."""
    if metric in UNITS:
        return UNITS[metric]
    name, per_operation = metric.removesuffix("_per_op"), metric.endswith("_per_op")
    name, unit_of = next(((name.removesuffix(ending), words) for ending, words in ENDINGS.items() if name.endswith(ending)), (name, ""))
    return name.replace("_", " ") + (f", {unit_of}" if unit_of else "") + (" per operation" if per_operation else "")


def colour(names):
    return altair.Color("arm:N", scale=altair.Scale(domain=list(names), range=(COLOURS * 3)[:len(names)]), legend=None)


def legend_colour(names):
    return altair.Color("arm:N", title=None, scale=altair.Scale(domain=list(names), range=(COLOURS * 3)[:len(names)]),
                        legend=altair.Legend(orient="bottom", columns=2, labelLimit=240))


def bars(lines, points, metric, arms):
    """One metric of one step: a bar to the median for each arm, a point for each repeat, a line for the interval."""
    order = [line["kind"] for line in lines]
    axis_y = altair.Y("kind:N", sort=order, title=None, axis=altair.Axis(labelLimit=170))
    data = altair.Data(values=[{**{key: line[key] for key in ("kind", "arm", "median", "low", "high", "n")}} for line in lines])
    layers = [altair.Chart(data).mark_bar(opacity=0.45, height={"band": 0.62}).encode(
        x=altair.X("median:Q", title=unit(metric), axis=NUMBERS), y=axis_y, color=colour(arms),
        tooltip=["kind:N", altair.Tooltip("median:Q", format=",.4~g"), "n:Q"])]
    layers.append(altair.Chart(data).transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", y=axis_y))
    dots = altair.Chart(altair.Data(values=points)).encode(x="value:Q", y=axis_y, tooltip=["kind:N", "repeat:Q", altair.Tooltip("value:Q", format=",.4~g"), "reason:N"])
    layers.append(dots.transform_filter("datum.counts").mark_circle(size=36, opacity=1).encode(color=colour(arms)))
    layers.append(dots.transform_filter("!datum.counts").mark_point(shape="cross", size=60, angle=45, color="#888", filled=False))
    return finish(altair.layer(*layers), height={"step": 24})


def sweep(lines, parameter, metric, arms):
    """One metric over a swept parameter: a line for each arm. Values that look like numbers or sizes are laid out as such."""
    values = list(dict.fromkeys(str(line["params"][parameter]) for line in lines))
    data = altair.Data(values=[{"arm": line["arm"], "x": str(line["params"][parameter]), "median": line["median"], "low": line["low"], "high": line["high"]} for line in lines])
    base = altair.Chart(data).encode(x=altair.X("x:O", sort=values, title=parameter.replace("_", " "), axis=altair.Axis(labelAngle=0)), color=legend_colour(arms))
    line = base.mark_line(point=True).encode(y=altair.Y("median:Q", title=unit(metric), axis=NUMBERS), tooltip=["arm:N", "x:O", altair.Tooltip("median:Q", format=",.4~g")])
    band = base.transform_filter("isValid(datum.low)").mark_rule().encode(y="low:Q", y2="high:Q")
    return finish(altair.layer(line, band), height=220)


def relative(lines, arms):
    """Rates of all steps against the first arm's, on a logarithmic axis: the whole run at a glance."""
    order = list(dict.fromkeys(line["row"] for line in lines))
    data = altair.Data(values=lines)
    ratios = [line["ratio"] for line in lines]
    domain = [min(ratios) / 1.1, max(ratios) * 1.1]  # a whole decade would press ratios of 0.9 and 1.2 into one point
    points = altair.Chart(data).mark_point(filled=True, size=80).encode(
        x=altair.X("ratio:Q", title="rate against the first arm (1 = the same)", scale=altair.Scale(type="log", domain=domain, nice=False), axis=altair.Axis(format=".3~g", tickCount=6)),
        y=altair.Y("row:N", sort=order, title=None, axis=altair.Axis(labelLimit=190)), color=legend_colour(arms), tooltip=["row:N", "arm:N", altair.Tooltip("ratio:Q", format=".3~g")])
    rule = altair.Chart(altair.Data(values=[{"one": 1}])).mark_rule(color="#999", strokeDash=[4, 3]).encode(x="one:Q")
    return finish(altair.layer(rule, points), height={"step": 22})


def seconds(series, arms, title):
    """Operations of each second: where a stall is, the line touches the ground."""
    data = altair.Data(values=series)
    return finish(altair.Chart(data).mark_line(interpolate="step-after", strokeWidth=1.5).encode(
        x=altair.X("second:Q", title="second of the step"), y=altair.Y("operations:Q", title=title, axis=NUMBERS),
        color=legend_colour(arms), detail="kind:N", tooltip=["kind:N", "second:Q", "operations:Q"]), height=200)


def latencies(points, arms):
    """Latency by percentile: the right-hand side is what the unlucky one in a thousand waits."""
    ticks = [0.5, 0.9, 0.99, 0.999, 0.9999]
    data = altair.Data(values=points)
    return finish(altair.Chart(data).mark_line().encode(
        x=altair.X("nines:Q", title="percentile", axis=altair.Axis(values=[nines(share) for share in ticks], labelExpr="datum.value < 0.5 ? '50' : datum.value < 1.5 ? '90' : datum.value < 2.5 ? '99' : datum.value < 3.5 ? '99.9' : '99.99'", grid=True)),
        y=altair.Y("ms:Q", title="ms (logarithmic)", scale=altair.Scale(type="log")), color=legend_colour(arms), detail="kind:N",
        tooltip=["kind:N", altair.Tooltip("share:Q", format=".4~%"), altair.Tooltip("ms:Q", format=".3~g")]), height=200)


def gain(points, over, metric, pairs):
    """How many times one arm does what another does, over a swept parameter, on a logarithmic axis."""
    values = list(dict.fromkeys(point["x"] for point in points))
    data = altair.Data(values=points)
    base = altair.Chart(data).encode(x=altair.X("x:O", sort=values, title=over.replace("_", " "), axis=altair.Axis(labelAngle=0)), color=legend_colour(pairs))
    line = base.mark_line(point=True).encode(y=altair.Y("ratio:Q", title=f"times ({unit(metric)})", scale=altair.Scale(type="log"), axis=altair.Axis(format="~g")),
                                             tooltip=["arm:N", "x:O", altair.Tooltip("ratio:Q", format=".3~g")])
    interval = base.transform_filter("isValid(datum.low)").mark_rule().encode(y="low:Q", y2="high:Q")
    one = altair.Chart(altair.Data(values=[{"one": 1}])).mark_rule(color="#999", strokeDash=[4, 3]).encode(y="one:Q")
    return finish(altair.layer(one, line, interval), height=240)


def debt(points, ends, arms, title="MB put off"):
    """Deferred work, or work as it is done, by the second: a line for each arm; a rule where the load ended and the drain began."""
    data = altair.Data(values=points)
    lines = altair.Chart(data).mark_line(strokeWidth=1.8).encode(
        x=altair.X("second:Q", title="second since the step began"), y=altair.Y("mb:Q", title=title), color=legend_colour(arms), detail="kind:N",
        tooltip=["kind:N", "second:Q", altair.Tooltip("mb:Q", format=".3~g"), "parts:N"])
    stops = altair.Chart(altair.Data(values=ends)).mark_rule(strokeDash=[3, 3], opacity=0.7).encode(x="second:Q", color=legend_colour(arms), tooltip=["kind:N", "second:Q"])
    return finish(altair.layer(lines, stops), height=220)


def effects(found, metric):
    """Effects of a factorial plan as ratios: a point, its interval, and a rule at 1, where nothing happens."""
    data = altair.Data(values=[{"name": one.name, "ratio": one.ratio, "low": one.low, "high": one.high} for one in found])
    axis_y = altair.Y("name:N", sort=[one.name for one in found], title=None, axis=altair.Axis(labelLimit=190))
    base = altair.Chart(data).encode(y=axis_y)
    points = base.mark_point(filled=True, size=80, color=COLOURS[0]).encode(
        x=altair.X("ratio:Q", title=f"times the {unit(metric)}", scale=altair.Scale(type="log"), axis=altair.Axis(format="~g", tickCount=6)),
        tooltip=["name:N", altair.Tooltip("ratio:Q", format=".3~g"), altair.Tooltip("low:Q", format=".3~g"), altair.Tooltip("high:Q", format=".3~g")])
    interval = base.transform_filter("isValid(datum.low)").mark_rule(color=COLOURS[0]).encode(x="low:Q", x2="high:Q")
    one = altair.Chart(altair.Data(values=[{"one": 1}])).mark_rule(color="#999", strokeDash=[4, 3]).encode(x="one:Q")
    return finish(altair.layer(one, interval, points), height={"step": 22})


def nines(share):
    import math
    return -math.log10(max(1 - share, 1e-6))


def percentile_points(histogram, kind, arm):
    """A histogram as a line of (share of requests that took at most so long)."""
    total, seen, points = sum(count for _, count in histogram), 0, []
    for upper, count in histogram:
        if not count:
            continue
        seen += count
        share = seen / total
        if share >= 0.3 and upper > 0:
            # The last bucket would be at infinity; it stands at the share that one request more would have.
            share = min(share, 1 - 0.5 / total)
            points.append({"kind": kind, "arm": arm, "share": share, "nines": nines(share), "ms": upper / 1000})
    return points


def finish(chart, height):
    return chart.properties(width="container", height=height).configure_view(stroke=None).configure_axis(
        labelFont="inherit", titleFont="inherit", titleFontWeight="normal", grid=True, gridColor="#eee", domainColor="#bbb", tickColor="#bbb").to_dict(validate=False)
