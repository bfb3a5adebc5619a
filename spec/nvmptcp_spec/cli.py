# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-spec`."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from nvmptcp_lab.errors import ending

from . import generate, governance, registry, verdicts
from .errors import SpecError, UsageError
from .gates import REGISTRY, check, collect_tests
from .reader import ROOT, Requirement, Spec, read

LEVELS = ("shall", "should", "may")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nvmptcp-spec",
        description="The Technical Proposal as code: its requirements, its wire layout, and the"
        " checks that keep text, tests and kernel series together.",
        epilog="Exit codes: 0, 1 a check failed, 2 usage.",
    )
    top.add_argument("--root", type=Path, default=ROOT, metavar="DIR",
                     help="the checkout to work on (default: the one that this command is from)")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = verbs.add_parser("list", help="the requirements, a line each")
    verb.add_argument("--level", choices=LEVELS, help="only those")
    verb.add_argument("--area", metavar="AREA", help="only those of an area, like TSAS")
    verb.add_argument("--json", action="store_true", help="everything, machine readable")
    verb.set_defaults(run=list_requirements)

    verb = verbs.add_parser("show", help="one requirement in full, with its tests")
    verb.add_argument("id", metavar="ID")
    verb.set_defaults(run=show)

    verb = verbs.add_parser("check", help="run every gate")
    verb.add_argument("--base", metavar="REVISION",
                      help="judge changes against the lock file of this git revision")
    verb.add_argument("--json", action="store_true", help="machine readable")
    verb.set_defaults(run=run_check)

    verb = verbs.add_parser("accept", help="write the lock file, if governance allows it")
    verb.add_argument("--base", metavar="REVISION",
                      help="judge changes against the lock file of this git revision")
    verb.set_defaults(run=accept)

    verb = verbs.add_parser("generate", help="renew what is made from registry and requirements")
    verb.add_argument("what", nargs="?", choices=[*generate.OUTPUTS, "requirements", "tables"],
                      help="only this one; `tables` prints all tables (default: header, python,"
                      " requirements)")
    verb.set_defaults(run=run_generate)

    verb = verbs.add_parser("trace", help="requirement, tests, last verdict")
    verb.add_argument("--json", action="store_true", help="machine readable")
    verb.set_defaults(run=trace)

    verb = verbs.add_parser("verdicts", help="note the outcome of a test run on the reference"
                                             " kernel in spec/verdicts.json")
    verb.add_argument("file", type=Path, metavar="FILE",
                      help="what `pytest --requirement-verdicts FILE` wrote")
    verb.set_defaults(run=note_verdicts)
    return top


def _read(root: Path) -> Spec:
    """The requirements, for a verb that needs them to be sound."""
    spec = read(root)
    bad = [p for p in spec.problems if p.gate == "requirement"]
    if bad:
        raise SpecError("\n".join(map(str, bad)))
    return spec


def list_requirements(args: argparse.Namespace) -> int:
    found = [r for r in _read(args.root).requirements.values()
             if (not args.level or r.level == args.level)
             and (not args.area or r.id.split("-")[1] == args.area.upper())]
    if args.json:
        print(json.dumps([asdict(r) for r in found], indent=1))
    else:
        for r in found:
            print(f"{r.id}  {r.level:6}  {r.actor:20}  {r.title}")
    return 0


def show(args: argparse.Namespace) -> int:
    requirements = _read(args.root).requirements
    r = requirements.get(args.id)
    if r is None:
        raise UsageError(f"{args.id}: no such requirement: see `nvmptcp-spec list`")
    print(_described(r))
    entry = verdicts.read(args.root).get(r.id)
    for test, place in sorted(collect_tests(args.root).get(r.id, {}).items()):
        print(f"test       {test} ({place}): {entry.of(test) if entry else verdicts.NOT_RUN}")
    return 0


def _described(r: Requirement) -> str:
    rows = {"": r.statement, "level": r.level, "actor": r.actor, "rests on": r.rests_on,
            "verified": r.verify, "untested": r.untested, "version": str(r.version),
            "at": r.place}
    return "\n".join([f"{r.id}  {r.title}",
                      *(f"{key:10} {value}".strip() for key, value in rows.items() if value)])


def run_check(args: argparse.Namespace) -> int:
    requirements, problems = check(args.root, args.base)
    if args.json:
        print(json.dumps({"requirements": len(requirements),
                          "problems": [p.as_json() for p in problems]}, indent=1))
        return 1 if problems else 0
    for problem in problems:
        print(problem)
    shalls = sum(r.level == "shall" for r in requirements.values())
    print(f"nvmptcp-spec: {len(requirements)} requirements, {shalls} of them shall:"
          f" {len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


def accept(args: argparse.Namespace) -> int:
    requirements = _read(args.root).requirements
    refused = list(governance.check_governance(args.root, requirements, args.base))
    for problem in refused:
        print(problem)
    if refused:
        raise SpecError(f"not accepted: {len(refused)} to mend")
    lock = governance.lock_of(requirements)
    before = governance.read_lock(args.root) or {}
    (args.root / governance.LOCK).write_text(governance.lock_text(lock))
    changed = sum(lock.get(i) != before.get(i) for i in {*lock, *before})
    print(f"nvmptcp-spec: {governance.LOCK}: {len(lock)} requirements, {changed} changed")
    return 0


def run_generate(args: argparse.Namespace) -> int:
    data = registry.load(args.root / REGISTRY)
    if args.what == "tables":
        print(generate.tables(data))
        return 0
    names = [name for name in generate.OUTPUTS if args.what in (None, name)]
    paths = [generate.OUTPUTS[name].path for name in names]
    written = list(generate.write(args.root, data, names))
    if args.what in (None, "requirements"):
        paths.append(generate.REQUIREMENTS)
        text = generate.requirements(_read(args.root).requirements)
        if generate.write_file(args.root / generate.REQUIREMENTS, text):
            written.append(generate.REQUIREMENTS)
    for path in paths:
        print(f"{path}: {'written' if path in written else 'is up to date'}")
    return 0


def trace(args: argparse.Namespace) -> int:
    matrix = verdicts.matrix(_read(args.root).requirements, collect_tests(args.root),
                             verdicts.read(args.root))
    if args.json:
        print(json.dumps({"summary": verdicts.summary(matrix),
                          "requirements": [row.as_json() for row in matrix]}, indent=1))
        return 0
    for row in matrix:
        print(f"{row.requirement.id}  {row.requirement.level:6}  {row.requirement.verify:10}"
              f"  {row.verdict:8}  {', '.join(row.tests) or row.requirement.untested or '-'}")
    print("; ".join(f"{what}: {count}" for what, count in verdicts.summary(matrix).items()))
    return 0


def note_verdicts(args: argparse.Namespace) -> int:
    count = verdicts.merge(args.root, args.file, _read(args.root).requirements)
    print(f"nvmptcp-spec: {verdicts.FILE}: {count} requirements with a verdict")
    return 0


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    args.root = args.root.resolve()
    if not (args.root / "conf.py").is_file():
        print(f"nvmptcp-spec: error: {args.root}: no checkout of the project (no conf.py)",
              file=sys.stderr)
        return 2
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (SpecError, KeyboardInterrupt, OSError) as error:
        return ending("nvmptcp-spec", error)


if __name__ == "__main__":
    sys.exit(main())
