# SPDX-License-Identifier: GPL-2.0-or-later
"""One self-contained HTML page of `reproduce`'s results, with plots."""

import base64
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = """<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>NVMe/TCP over Multipath TCP: reproduction</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #8886; text-align: right }
th:first-child, td:first-child { text-align: left }
img { max-width: 100%; background: #fff; border-radius: .4rem }
.ok { color: #2a8a3e } .bad { color: #c22 }
</style>
<h1>NVMe/TCP over Multipath TCP</h1>
<p>Linux {{ kernel.release }} with the series (build {{ kernel.key }}), in virtual time;
{{ runtime }} s a run, {{ controllers_per_path }} controllers a path. Verdict:
{{ mark(ok) }}.</p>
<h2>Published and measured</h2>
<table><tr><th>cell<th>published<br>MiB/s<th>measured<br>MiB/s<th>ratio
<th>limit of the links<br>MiB/s<th>p50 / p99, reads<br>ms<th></tr>
{% for row in rows %}<tr><td>{{ row.name }}
<td>{% if row.published %}{{ row.published.read }} / {{ row.published.write }}
{%- else %}-{% endif %}
<td>{{ '%.1f / %.1f' % (row.read.measured, row.write.measured) }}
{%- if row.runs|length > 1 %}<br><small>{{ '%.0f-%.0f / %.0f-%.0f' % (row.read.min, row.read.max,
row.write.min, row.write.max) }}, {{ row.runs|length }} runs</small>{% endif %}
<td>{% if row.published %}{{ '%.3f / %.3f' % (row.read.ratio, row.write.ratio) }}
{%- else %}-{% endif %}
<td>{{ '%.1f / %.1f' % (row.read.limit, row.write.limit) }}
<td>{{ '%.0f / %.0f' % (row.read.p50_ms, row.read.p99_ms) }}
<td title="{{ row.requirement }}">{{ mark(row.ok) }}</tr>{% endfor %}</table>
<p><img alt="Published and measured bandwidth of each cell" src="{{ bandwidth }}"></p>
<h2>Discovery and connections {{ mark(discovery.ok) }}</h2>
<table><tr><th>entry<th>TCPV<th>MPATTR<th>MAXSF<th>SFGID</tr>
{% for e in discovery.entries %}<tr><td>{{ e.traddr }}:{{ e.trsvcid }}<td>{{ e.tcpv }}
<td>{{ '0x%02x' % e.mpattr }}<td>{{ e.maxsf }}<td>{{ e.sfgid }}</tr>{% endfor %}</table>
<table><tr><th>connected to<th>asked for<th>queues: protocol in effect, subflows</tr>
{% for c in discovery.connections %}<tr><td>{{ c.traddr }}<td>{{ c.asked }}
<td>{% for q in c.queues %}{{ q[0] }}: {{ q[1] }}, {{ q[2] }}{{ '; ' if not loop.last }}{% endfor %}
</tr>{% endfor %}</table>
<h2>Data integrity while a path is cut {{ mark(integrity.ok) }}</h2>
<p>{{ integrity.written // 1048576 }} MiB written, {{ integrity.verified // 1048576 }} MiB read back
and compared (CRC-32C), {{ integrity.errors }} errors; worst completion latency
{{ '%.0f' % integrity.worst_latency_ms }} ms.</p>
<p><img alt="What each path carries around the cut" src="{{ timeline }}"></p>
</html>
"""


def _mark(ok: bool) -> str:
    return '<span class="ok">ok</span>' if ok else '<span class="bad">missed</span>'


def _inline(figure: "Figure") -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight")
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def bandwidth(rows: Sequence[Mapping[str, Any]], row_height: float = 0.75) -> "Figure":
    """Bars of MiB/s, a pair a row, beside what was published and what the links can carry.

    `row_height` is in inches.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, row_height * len(rows) + 1))
    axes = figure.subplots()
    labels, height = [], 0.38
    for number, row in enumerate(rows):
        for offset, direction in ((-height / 2, "read"), (height / 2, "write")):
            part = row[direction]
            axes.barh(number + offset, part["measured"], height * 0.9,
                      color="#3b75af" if direction == "read" else "#e08a3c",
                      label=direction if number == 0 else None)
            if row["published"]:
                axes.plot(row["published"][direction], number + offset, "|", markersize=12,
                          color=rcParams["text.color"],
                          label="published" if (number, direction) == (0, "read") else None)
            axes.plot(part["limit"], number + offset, "r.", markersize=4,
                      label="limit of the links" if (number, direction) == (0, "read") else None)
        labels.append(row["name"])
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("MiB/s")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _timeline(integrity: Mapping[str, Any]) -> "Figure":
    """MiB/s of each path around the cut, from the subflows' byte counters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3))
    axes = figure.subplots()
    samples = integrity["samples"]
    paths = sorted({path for sample in samples for path in sample["bytes"]})
    for path in paths:
        times, rates = [], []
        for before, after in itertools.pairwise(samples):
            carried = after["bytes"].get(path, 0) - before["bytes"].get(path, 0)
            times.append((before["at"] + after["at"]) / 2)
            # A subflow that was closed takes its counter with it.
            rates.append(max(0, carried) / 2**20 / (after["at"] - before["at"]))
        axes.plot(times, rates, label=path)
    for event in integrity["events"]:
        axes.axvline(event["at"], color="gray", linewidth=0.8)
        axes.annotate(event["event"], (event["at"], 1), xycoords=("data", "axes fraction"),
                      xytext=(3, -10), textcoords="offset points", fontsize=8)
    axes.set_xlabel("s (virtual)")
    axes.set_ylabel("MiB/s by path")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=len(paths), loc="lower center", bbox_to_anchor=(0.5, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write the page. Raises OSError."""
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)
    page = environment.from_string(_TEMPLATE).render(
        **results, mark=_mark, bandwidth=_inline(bandwidth(results["rows"])),
        timeline=_inline(_timeline(results["integrity"])))
    path.write_text(page)


def summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """The figures behind the tables, without the single runs, for a plot elsewhere."""
    rows = [{key: row[key] for key in ("name", "published", "read", "write", "requirement", "ok")}
            for row in results["rows"]]
    return {"kernel": results["kernel"], "runtime": results["runtime"],
            "controllers_per_path": results["controllers_per_path"], "rows": rows}


def markdown(results: Mapping[str, Any]) -> str:
    """The tables of a run, for a page of the repository."""
    integrity = results["integrity"]
    lines = [
        "# Results",
        "",
        "<!-- SPDX-License-Identifier: CC-BY-4.0; generated by `make results`: do not edit -->",
        "",
        f"Linux {results['kernel']['release']} with the series (build {results['kernel']['key']}),"
        f" virtual time, {results['runtime']} s a run,"
        f" {results['controllers_per_path']} controllers a path. MiB/s, reads / writes; where there"
        " are several runs, with the seeds 1, 2, …, their medians.",
        "",
        "| cell | published | measured | ratio | limit of the links | runs, spread | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        read, write, published = row["read"], row["write"], row["published"]
        spread = "1"
        if len(row["runs"]) > 1:
            spread = (f"{len(row['runs'])}: {read['min']:.0f}-{read['max']:.0f}"
                      f" / {write['min']:.0f}-{write['max']:.0f}")
        lines.append(
            f"| {row['name']} | " + ("{read} / {write}".format(**published) if published else "-")
            + f" | {read['measured']:.1f} / {write['measured']:.1f} | "
            + (f"{read['ratio']:.3f} / {write['ratio']:.3f}" if published else "-")
            + f" | {read['limit']:.1f} / {write['limit']:.1f} | {spread} |"
            f" {'ok' if row['ok'] else '**missed**'}: {row['requirement']} |")
    lines += [
        "",
        f"Data integrity: {integrity['written'] >> 20} MiB written over four lossy paths while path"
        f" 2 was cut for 2 s, {integrity['verified'] >> 20} MiB read back and compared (CRC-32C),"
        f" {integrity['errors']} errors, worst completion latency"
        f" {integrity['worst_latency_ms']:.0f} ms.",
    ]
    if results["fit"]:
        lines += [
            "",
            "## How many queues had the published machine?",
            "",
            "The lossy rows with several numbers of controllers a path (medians of"
            f" {len(results['fit'][0]['rows'][0]['runs'])} runs). The lossless rows hardly depend"
            " on it.",
            "",
            "| controllers a path | " + " | ".join(
                row["name"].split(",")[0] for row in results["fit"][0]["rows"])
            + " | farthest from published |",
            "|---|---|---|---|",
        ]
        for entry in results["fit"]:
            cells = " | ".join(
                f"{row['read']['measured']:.0f} / {row['write']['measured']:.0f}"
                f" ({row['read']['ratio']:.2f} / {row['write']['ratio']:.2f})"
                for row in entry["rows"])
            lines.append(f"| {entry['controllers_per_path']} | {cells} | {entry['worst']:.0%} |")
    return "\n".join(lines) + "\n"
