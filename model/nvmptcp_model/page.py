# SPDX-License-Identifier: GPL-2.0-or-later
"""The page about the model: its text quotes measured figures only.

`python -m nvmptcp_model.page [DIRECTORY]` takes what `validate`, and maybe `run own` and
`benchmark`, left there (`make validate` does all of it), keeps what the page needs as
docs/results/model*.json, and writes docs/explanation/model.md. Without a directory it writes the
page anew from what was kept. docs/results/state.json is from `nvmptcp-lab state` (`make state`).
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvmptcp_conformance.perf import page, scenario
from nvmptcp_conformance.perf.results import ResultSet, load
from nvmptcp_lab.errors import LabError, UsageError
from nvmptcp_lab.reproduce import published

from . import schema, validation
from .validation import Check, Validation

TEMPLATE = Path(__file__).with_name("page.md.jinja")
PAGE = page.DOCS / "explanation" / "model.md"
OWN, VALIDATION, BENCHMARK = (page.RESULTS / f"{name}.json" for name in (
    "model", "model-validation", "model-benchmark"))
STATE = page.RESULTS / "state.json"


class Judgement:
    """What the template asks of a validation."""

    def __init__(self, found: Validation) -> None:
        self.found = found
        self.cells: dict[str, list[Check]] = {}
        for check in found.checks:
            self.cells.setdefault(check.place[0], []).append(check)

    def summary(self) -> str:
        """A table: of each scenario the cells, those with all figures inside, and the figures."""
        lines = ["| scenario | cells | all inside | figures | inside | median deviation |",
                 "|---|---|---|---|---|---|"]
        for name in dict.fromkeys(check.scenario for check in self.found.checks):
            checks = [check for check in self.found.checks if check.scenario == name]
            cells = [part for part in self.cells.values() if part[0].scenario == name]
            whole = len(schema.find(name).cells) if name in scenario.names() else len(cells)
            lines.append(_row(name, cells, checks, whole))
        cells = list(self.cells.values())
        lines.append(_row("all", cells, self.found.checks, len(cells)))
        return "\n".join(lines)

    def missing(self) -> list[str]:
        """Scenarios of the lab of which no cell was simulated."""
        found = {check.scenario for check in self.found.checks}
        return [name for name in scenario.names() if name not in found]

    def causes(self) -> str:
        """The causes of what is outside, with the cells and how far off they are."""
        parts = []
        for cause in self.found.causes:
            table = _outside([check for check in self.found.checks if check.place in cause.places])
            parts.append(f"{cause.text}\n\n{table}")
        return "\n\n".join(parts)

    def unlisted(self) -> str:
        """What is outside and has no cause; nothing where there is none."""
        checks = self.found.unlisted()
        return _outside(checks) if checks else ""


def _row(name: str, cells: Sequence[Sequence[Check]], checks: Sequence[Check], of: int) -> str:
    """of: cells that the scenario has."""
    count = str(len(cells)) if len(cells) == of else f"{len(cells)} of {of}"
    whole = sum(all(check.inside for check in part) for part in cells)
    inside = sum(check.inside for check in checks)
    off = sorted(abs(check.deviation) for check in checks)
    return (f"| `{name}` | {count} | {whole} | {len(checks)} | {inside} |"
            f" {off[len(off) // 2]:.1%} |")


def _outside(checks: Sequence[Check]) -> str:
    return "\n".join([
        "| cell | figure | kernel | model | deviation |", "|---|---|---|---|---|",
        *(f"| `{check.place[0]}` | `{check.figure}` | {check.kernel:g} | {check.model:g} |"
          f" {check.deviation:+.1%} |" for check in checks)])


def benchmark_table(lines: Sequence[dict[str, Any]]) -> str:
    """CPU time and events of each point of each series, and the line that fits them."""
    text = ["| | MiB/s | events | CPU time, s | events a second of CPU time | memory, MiB |",
            "|---|---|---|---|---|---|"]
    for line in lines:
        text += [f"| {point['x']:g} {line['what']} | {point['mib_s']:.0f} | {point['events']:,} |"
                 f" {point['cpu_seconds']:.2f} | {point['events'] / point['cpu_seconds']:,.0f} |"
                 f" {point['peak_memory_kib'] / 1024:.0f} |" for point in line["points"]]
    return "\n".join(text)


def published_policy(rw: str, policy: str) -> float:
    """MiB/s that were published of native multipath under a policy, `read` or `write`."""
    (row,) = [row for row in published()["policy_result"] if row["rw"] == rw]
    bandwidth: float = row[policy]
    return bandwidth


def render(found: Validation, own: ResultSet, costs: dict[str, Any],
           state: dict[str, Any]) -> str:
    """The page. Raises LabError when the text claims what the figures don't show."""
    judgement, quotes = Judgement(found), page.Quotes(own, TEMPLATE)
    text = page.environment().from_string(TEMPLATE.read_text()).render(
        validation=found, judgement=judgement, costs=costs, own=own, state=state,
        published_policy=published_policy,
        benchmark_table=benchmark_table(costs["lines"]), **quotes.asked())
    return text.rstrip() + "\n"  # whatever sections there are


def read(path: Path, absent: dict[str, Any]) -> dict[str, Any]:
    """What a command has left as JSON; `absent` where it wasn't run. Raises UsageError."""
    try:
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else absent
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}") from None
    return found


def main(arguments: list[str]) -> int:
    try:
        if len(arguments) > 1:
            raise UsageError("usage: python -m nvmptcp_model.page [DIRECTORY]")
        files = (VALIDATION, OWN, BENCHMARK)
        if arguments:
            directory = Path(arguments[0])
            files = (directory / "validate.json", directory / "own" / "results.json",
                     directory / "benchmark.json")
        found = validation.load(files[0])
        own = (page.essence(load(files[1])) if files[1].exists()
               else ResultSet(found.model, {}, ()))
        costs = read(files[2], {"lines": []})
        text = render(found, own, costs, read(STATE, {}))
        for path, content in ((OWN, own.json()), (PAGE, text),
                              (VALIDATION, json.dumps(found.document(), indent=1) + "\n"),
                              (BENCHMARK, json.dumps(costs, indent=1) + "\n")):
            path.write_text(content)
    except (LabError, OSError) as error:
        print(f"model page: error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, LabError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
