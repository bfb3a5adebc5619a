# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `reproduce`: does it work, does it keep data whole, and how fast is it?

Builds the kernel, runs discovery and connections over both variants, a data-integrity pass, then
each row of published.toml, and compares.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import boot, perf, report, topology, verbs
from .build import Kernel, ensure_kernel, profiles
from .errors import LabError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

PUBLISHED = Path(__file__).parents[1] / "published.toml"

# The published machine's number of I/O queues is not known. Nine controllers a path, each with the
# one queue that a single CPU gives, fit all rows best: see --fit, and kernel-impl/RESULTS.md.
CONTROLLERS_PER_PATH = 9
SEEDS = 5  # runs of a lossy row, with seeds 1 to 5; the median counts
LOSSLESS_TOLERANCE, LOSSY_TOLERANCE = 0.03, 0.15
ONE_ASSOCIATION_GOAL = 0.97  # of what the DSS option leaves of the links

Say = Any


def published() -> dict[str, Any]:
    """The published figures, as published.toml has them."""
    with PUBLISHED.open("rb") as file:
        return tomllib.load(file)


def rows(controllers: int, seeds: int, runtime: int) -> list[dict[str, Any]]:
    """The cells to measure, each with what was published of it, quickest first."""
    known = published()
    found = []
    for entry in known["result"]:
        paths = topology.from_table(known["topology"][entry["topology"]], str(PUBLISHED))
        row = {
            "name": f"{entry['transport']} {entry['iopolicy']}, {entry['topology']}",
            "cell": perf.Cell(entry["transport"], paths, entry["iopolicy"], controllers,
                              runtime=runtime),
            "published": {"read": entry["read"], "write": entry["write"]},
        }
        row["tolerance"] = LOSSY_TOLERANCE if lossy(row) else LOSSLESS_TOLERANCE
        row["seeds"] = seeds if lossy(row) else 1
        found.append(row)
    four = topology.from_table(known["topology"]["four-gigabit"], str(PUBLISHED))
    found.append({
        "name": "mptcp, one association to one port",
        "cell": perf.Cell("mptcp", four, ports=1, runtime=runtime), "published": None,
        "goal": ONE_ASSOCIATION_GOAL, "seeds": 1,
    })
    return found


def lossy(row: dict[str, Any]) -> bool:
    """Whether the row's paths lose packets: only then does the number of queues matter much."""
    return any(link.to_host.loss for link in row["cell"].topology.links)


def judge(row: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of a row's runs, beside what was published, with a verdict for each direction."""
    judged: dict[str, Any] = {"name": row["name"], "published": row["published"], "runs": runs}
    ok = True
    for direction in ("read", "write"):
        values = [run[f"{direction}_mib_s"] for run in runs]
        measured, limit = statistics.median(values), runs[0]["limit_mib_s"][direction]
        figures = {"measured": measured, "min": min(values), "max": max(values), "limit": limit,
                   "of_limit": measured / limit,
                   "p50_ms": statistics.median(r[f"{direction}_latency_ms"]["p50"] for r in runs),
                   "p99_ms": statistics.median(r[f"{direction}_latency_ms"]["p99"] for r in runs)}
        if row["published"]:
            figures["ratio"] = measured / row["published"][direction]
            ok = ok and abs(figures["ratio"] - 1) <= row["tolerance"]
        else:
            ok = ok and figures["of_limit"] >= row["goal"]
        judged[direction] = figures
    judged["requirement"] = (f"within {row['tolerance']:.0%} of published" if row["published"]
                             else f"at least {row['goal']:.0%} of the limit")
    judged["ok"] = ok
    return judged


def table(judged: Iterable[dict[str, Any]]) -> str:
    """The comparison as text, in MiB/s, reads / writes."""
    lines = [f"{'cell':44} {'published':>13} {'measured':>15} {'ratio':>13} {'limit':>15}  verdict"]
    for row in judged:
        read, write = row["read"], row["write"]
        published = row["published"]
        lines.append(
            f"{row['name']:44}"
            f" {'{read} / {write}'.format(**published) if published else '-':>13}"
            f" {read['measured']:>6.1f} / {write['measured']:>6.1f}"
            + (f" {read['ratio']:>5.3f} / {write['ratio']:>5.3f}" if published else f" {'-':>13}")
            + f" {read['limit']:>6.1f} / {write['limit']:>6.1f}"
            f"  {'ok' if row['ok'] else 'MISSED'}: {row['requirement']}"
        )
    return "\n".join(lines)


def fit(kernel: Kernel, counts: list[int], seeds: int, runtime: int, jobs: int, output: Path,
        say: Say) -> list[dict[str, Any]]:
    """The lossy rows with several numbers of controllers a path, and how far off the worst is."""
    todo = []
    for count in counts:
        for row in filter(lossy, rows(count, seeds, runtime)):
            todo.append({**row, "name": f"{row['name']}, {count} controllers a path"})
    judged = measure(kernel, todo, jobs, output, say, "fit")
    found = []
    for count in counts:
        mine = [row for row in judged if row["name"].endswith(f" {count} controllers a path")]
        worst = max(abs(row[direction]["ratio"] - 1) for row in mine
                    for direction in ("read", "write"))
        found.append({"controllers_per_path": count, "rows": mine, "worst": worst})
    return found


def _guest_step(kernel: Kernel, module: str, paths: topology.Topology,
                spec: dict[str, Any]) -> dict[str, Any]:
    """Run `guest.MODULE` and return the JSON that it leaves. Raises LabError."""
    with tempfile.TemporaryDirectory(prefix="nvmptcp-step-") as name:
        directory = Path(name)
        addresses = [paths.target_address(path) for path in range(1, len(paths.links) + 1)]
        (directory / "cell.json").write_text(json.dumps({"traddrs": addresses, **spec}))
        result = boot.run(boot.Guest(kernel, boot.python(module, name), topology=paths,
                                     writable=[directory], timeout=600, seed=1),
                          stdout=sys.stderr)
        verbs.finish(result)
        if result.exit_code:
            raise LabError(f"{module} failed in the guest (exit code {result.exit_code})")
        found: dict[str, Any] = json.loads((directory / f"{module}.json").read_text())
        return found


def check_discovery(kernel: Kernel) -> dict[str, Any]:
    """Discovery log and connections over both variants, an old host's among them."""
    found = _guest_step(kernel, "discovery", verbs.find_topology("four-gigabit"), {})
    announced = {entry["tcpv"] for entry in found["entries"]}
    in_effect = [(c["asked"], {(protocol, flows) for _, protocol, flows in c["queues"]})
                 for c in found["connections"]]
    expected = [("mptcp", {("mptcp", 4)}), ("(old host: no option)", {("tcp", 1)}),
                ("tcp", {("tcp", 1)})]
    found["ok"] = announced == {0, 1} and in_effect == expected
    return found


def check_integrity(kernel: Kernel) -> dict[str, Any]:
    """fio's CRC-32C over four lossy paths, one of them cut for two seconds."""
    spec = {"size_mib": 256, "loops": 2, "cut_at": 2.0, "restore_at": 4.0, "samples": 40}
    found = _guest_step(kernel, "integrity", verbs.find_topology("four-gigabit-lossy"), spec)
    found["ok"] = (found["errors"] == 0 and found["controller"] == "live"
                   and found["verified"] == found["written"]
                   and [event["event"] for event in found["events"]]
                   == ["path2 down", "path2 up"])
    return found


def measure(kernel: Kernel, todo: list[dict[str, Any]], jobs: int, output: Path,
            say: Say, kind: str = "row") -> list[dict[str, Any]]:
    """Run all cells, `jobs` at a time; what is finished is in OUTPUT/runs at once."""
    runs_directory = output / "runs"
    runs_directory.mkdir(exist_ok=True)

    def name(number: int, seed: int) -> Path:
        return runs_directory / f"{kind}{number + 1}-run{seed + 1}"

    runs: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(todo))}
    begin = time.monotonic()
    futures: dict[Future[dict[str, Any]], tuple[int, int]] = {}
    with boot.side_by_side(jobs) as pool:
        for number, row in enumerate(todo):
            for seed in range(row["seeds"]):
                job = pool.submit(perf.run_cell, kernel, row["cell"], name(number, seed),
                                  seed=seed + 1)
                futures[job] = (number, seed)
        for done, future in enumerate(as_completed(futures), 1):
            number, seed = futures[future]
            run = future.result()
            runs[number].append(run)
            name(number, seed).with_suffix(".json").write_text(json.dumps(run, indent=1) + "\n")
            left = (time.monotonic() - begin) / done * (len(futures) - done)
            say(f"[{done:2}/{len(futures)}] {todo[number]['name']}: {run['read_mib_s']:.1f} /"
                f" {run['write_mib_s']:.1f} MiB/s (about {left:.0f} s left)")
    return [judge(row, runs[number]) for number, row in enumerate(todo)]


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    verb = subparsers.add_parser(
        "reproduce", help="build, check both variants, measure the published table",
        description="Build the kernel; discovery and connections over both variants; data"
        " integrity while a path is cut; then the published figures, compared. Exit code 1 when"
        " one of them is missed.",
    )
    verb.add_argument("--output", type=Path, default=Path("reproduce-out"), metavar="DIR",
                      help="results.json, index.html, fio's JSON (default: %(default)s)")
    verb.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                      help="cells at a time, one CPU each (default: %(default)s)")
    verb.add_argument("--seeds", type=int, default=SEEDS, metavar="N",
                      help="runs of a lossy row; the median counts (default: %(default)s)")
    verb.add_argument("--runtime", type=int, default=10, metavar="S",
                      help="seconds of virtual time a run; published: 10 (default: %(default)s)")
    verb.add_argument("--controllers-per-path", type=int, default=CONTROLLERS_PER_PATH,
                      metavar="N", help="(default: %(default)s)")
    verb.add_argument("--fit", metavar="N,N…", default="",
                      help="measure the lossy rows with these numbers of controllers a path, too")
    verb.add_argument("--markdown", type=Path, metavar="FILE",
                      help="write the tables there as Markdown")
    verb.add_argument("--summary", type=Path, metavar="FILE",
                      help="write the figures of the tables there as JSON")
    verb.add_argument("--profile", default="default", choices=profiles())
    verb.add_argument("--json", action="store_true", help="print results.json, not the table")
    verb.set_defaults(func=_reproduce)


def _reproduce(args: argparse.Namespace) -> int:
    if not re.fullmatch(r"(\d+(,\d+)*)?", args.fit):
        raise UsageError(f"--fit {args.fit}: write numbers such as 4,8,12")
    verbs.require("fio", "ip", "insmod")
    output = verbs.directory(args.output, "--output")
    assert output
    begin = time.monotonic()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    kernel = ensure_kernel(args.profile)
    built = time.monotonic()
    say("discovery and connections over both variants …")
    discovery = check_discovery(kernel)
    for connection in discovery["connections"]:
        queues = ", ".join(f"queue {qid} {protocol}, {flows} subflow{'s' * (flows > 1)}"
                           for qid, protocol, flows in connection["queues"])
        say(f"  {connection['traddr']} asked for {connection['asked']}: {queues}")
    say(f"  {'ok' if discovery['ok'] else 'NOT AS EXPECTED'}")
    say("data integrity: CRC-32C over four lossy paths, path 2 cut at 2 s, restored at 4 s …")
    integrity = check_integrity(kernel)
    say(f"  {integrity['written'] >> 20} MiB written, {integrity['verified'] >> 20} verified,"
        f" {integrity['errors']} errors, worst latency {integrity['worst_latency_ms']:.0f} ms:"
        f" {'ok' if integrity['ok'] else 'FAILED'}")
    todo = rows(args.controllers_per_path, args.seeds, args.runtime)
    judged = measure(kernel, todo, max(1, args.jobs), output, say)
    results = {
        "kernel": {"release": kernel.release, "key": kernel.key},
        "controllers_per_path": args.controllers_per_path, "runtime": args.runtime,
        "discovery": discovery, "integrity": integrity, "rows": judged,
        "seconds": {"build": round(built - begin, 1), "all": round(time.monotonic() - begin, 1)},
        "ok": discovery["ok"] and integrity["ok"] and all(row["ok"] for row in judged),
    }
    results["fit"] = fit(kernel, [int(n) for n in args.fit.split(",")], min(args.seeds, 3),
                         args.runtime, args.jobs, output, say) if args.fit else []
    text = json.dumps(results, indent=1) + "\n"
    (output / "results.json").write_text(text)
    report.write(output / "index.html", results)
    if args.markdown:
        args.markdown.write_text(report.markdown(results))
    if args.summary:
        args.summary.write_text(json.dumps(report.summary(results), indent=1) + "\n")
    print(text if args.json else f"\nMiB/s, read / write; {args.controllers_per_path} controllers"
          f" a path\n{table(judged)}\n")
    say(f"results: {output}/results.json, {output}/index.html"
        f" ({results['seconds']['all'] - results['seconds']['build']:.0f} s after the build)")
    return 0 if results["ok"] else 1
