# SPDX-License-Identifier: GPL-2.0-or-later
"""The command behind `make mutants`: runs the suite against targets and hosts with one fault each,
and shows which tests catch it. A mutant has to be caught by a test of each requirement that it
breaks, else it survives. Exit code 1 if one does, 2 if a run in the lab fails.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from in_guest import in_guest
from nvmptcp_conformance.softhost import faults as host
from nvmptcp_conformance.softhost import raw_faults as raw_host
from nvmptcp_conformance.softtarget import faults as target
from nvmptcp_conformance.softtarget import raw_faults as raw_target
from nvmptcp_conformance.softtarget import stream_faults as stream_target

# A "should", without which a connection is as safe.
CONCEPTUAL = {"TCPV-FALL-005"}


@dataclass(frozen=True)
class Group:
    """Mutants that one run in the guest is about: `module` with `mode`."""

    side: str
    where: str
    module: str
    mode: str
    faults: Mapping[str, type[Any]]


GROUPS = (
    Group("target", "kernel's sockets", "soft_in_guest", "faults", target.FAULTS),
    Group("target", "raw stack", "suite_raw_in_guest", "faults", raw_target.RAW_FAULTS),
    Group("target", "raw stack", "suite_stream_in_guest", "faults", stream_target.STREAM_FAULTS),
    Group("host", "kernel's sockets", "host_in_guest", "faults", host.FAULTS),
    Group("host", "raw stack", "host_in_guest", "raw_faults", raw_host.RAW_FAULTS),
)


@dataclass(frozen=True)
class Row:
    """A mutant and a requirement that it breaks; `caught_by` is empty if it survives."""

    side: str
    where: str
    mutant: str
    fault: str  # what it does
    requirement: str
    caught_by: list[str]


def catches(result: Mapping[str, Any], requirement: str) -> bool:
    """Whether a result finds that a requirement is broken."""
    due = "conceptual pass" if requirement in CONCEPTUAL else "fail"
    return requirement in result["requirements"] and result["verdict"] == due


def broken(faults: Mapping[str, type[Any]]) -> list[tuple[str, str]]:
    """Each mutant with each requirement that it breaks."""
    return [(name, requirement) for name, fault in faults.items() for requirement in fault.breaks]


def rows(group: Group, results: Mapping[str, Any]) -> Iterator[Row]:
    """What became of the mutants of a group."""
    for name, fault in group.faults.items():
        for requirement in fault.breaks:
            caught_by = [result["test"] for result in results.get(name, [])
                         if catches(result, requirement)]
            yield Row(group.side, group.where, name, (fault.__doc__ or "").strip(), requirement,
                      caught_by)


def table(found: Sequence[Row]) -> Iterator[str]:
    """The rows as text."""
    columns = [("side", "mutant", "requirement", "caught by"), *(
        (row.side, row.mutant, row.requirement, ", ".join(row.caught_by) or "SURVIVES")
        for row in found)]
    widths = [max(len(line[column]) for line in columns) for column in range(3)]
    for line in columns:
        yield "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)),
                         line[-1]])


def run(sides: Sequence[str]) -> list[Row]:
    """All mutants of some sides. AssertionError if a run in the lab fails."""
    found: list[Row] = []
    groups = [group for group in GROUPS if group.side in sides]
    for number, group in enumerate(groups, 1):
        print(f"[{number}/{len(groups)}] {len(group.faults)} mutants of the {group.side} on the"
              f" {group.where}", file=sys.stderr, flush=True)
        found += rows(group, in_guest(group.module, group.mode))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--side", choices=("target", "host"), help="default: both")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args(argv)
    try:
        found = run([args.side] if args.side else ["target", "host"])
    except AssertionError as error:
        lines = str(error).strip().splitlines() or ["the run in the lab failed"]
        print(f"mutants: error: {lines[0] if len(lines) == 1 else lines[-1]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    survivors = {(row.side, row.mutant) for row in found if not row.caught_by}
    if args.json:
        print(json.dumps([asdict(row) for row in found], indent=1))
    else:
        print("\n".join(table(found)))
    total = len({(row.side, row.mutant) for row in found})
    print(f"{total} mutants, {total - len(survivors)} caught, {len(survivors)} survive",
          file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
