# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `selftest`: the kernel's own tests of NVMe/TCP over MPTCP and of MPTCP, in the guest."""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import boot, series, source, verbs
from .build import Kernel, ensure_kernel, packages, source_tree
from .errors import LabError, UsageError
from .source import say_to_stderr

if TYPE_CHECKING:
    from argparse import _SubParsersAction

SELFTESTS = "tools/testing/selftests"
# Below it: what has programs to compile, and what their scripts read.
COMPILED = ("net/mptcp", "drivers/nvme")
READ = ("kselftest", "net/lib.sh", "net/lib/sh")
SEED = "seed"  # read by each bash (BASH_ENV)
KEEP = 6  # built sets of programs, about 1 MB each

# UML's linker script makes all symbols local, and mptcp_connect asks for this one as a global one.
# The policy: in virtual time the scheduler's clock stands still while programs compute, so a kernel
# thread can wait for as long as any program can run. A link that a script sets up drops packets
# until the kernel's link watch has had its turn, and a MP_JOIN lost there is sent again a second
# later, when the case is over. Kernel threads have priority over SCHED_IDLE.
PREPARE = """\
sed '/ __ip_sock_set_tos$/s/ t / T /' /proc/kallsyms >/run/kallsyms
mount --bind /run/kallsyms /proc/kallsyms
exec chrt --idle 0 "$@"
"""

PASSED, FAILED, SKIPPED, IGNORED, ABSENT = "passed", "failed", "skipped", "ignored", "absent"
KSFT_SKIP = 4


@dataclass(frozen=True)
class Script:
    """One test script of the kernel source, or a file of the user's."""

    name: str
    folder: str  # below SELFTESTS; an absolute path for a file of the user's
    file: str
    what: str
    real_time: bool = False  # fails in virtual time, whatever the kernel
    default: bool = True
    series_only: bool = False
    takes_names: bool = False  # of cases, on its command line: runs no others then

    def path(self, programs: Path) -> Path:
        return programs / self.folder / self.file


def _mptcp(name: str, what: str, **rest: bool) -> Script:
    return Script(name, "net/mptcp", f"{name}.sh", what, **rest)


SCRIPTS = {script.name: script for script in (
    Script("nvme", "drivers/nvme", "nvme_tcp_mptcp.sh", "the variant, both ends, with failures",
           series_only=True),
    _mptcp("pm_netlink", "path manager: its netlink interface"),
    _mptcp("mptcp_sockopt", "socket options, inherited and reported"),
    _mptcp("mptcp_connect", "transfers, fallback, options that middleboxes strip"),
    _mptcp("simult_flows", "scheduler: two paths carry their sum"),
    _mptcp("userspace_pm", "path manager in user space"),
    _mptcp("diag", "socket diagnosis; in real time", real_time=True),
    _mptcp("mptcp_connect_checksum", "mptcp_connect with DSS checksums", default=False),
    _mptcp("mptcp_connect_mmap", "mptcp_connect with mmap", default=False),
    _mptcp("mptcp_connect_sendfile", "mptcp_connect with sendfile", default=False),
    _mptcp("mptcp_connect_splice", "mptcp_connect with splice", default=False),
    _mptcp("mptcp_join", "subflows, announcements, removals, failures", takes_names=True),
)}


@dataclass(frozen=True)
class Case:
    """One line of a script's TAP."""

    name: str
    status: str  # PASSED, FAILED, SKIPPED, or IGNORED: failed, and the script says not to count it
    comment: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a script did on one kernel."""

    script: str
    kernel: str  # "patched" or "unpatched"
    cases: list[Case]
    problem: str  # a bad end beside failed cases: time-out, wrong plan, the kernel's complaint
    seconds: float
    virtual_time: bool

    def named(self, *status: str) -> list[Case]:
        return [case for case in self.cases if case.status in status]

    @property
    def ok(self) -> bool:
        return not self.problem and not self.named(FAILED)


# --- TAP -----------------------------------------------------------------------------------


def parse_tap(text: str, script: str) -> tuple[list[Case], str]:
    """Cases of TAP 13 or KTAP, and what is wrong with the whole of it, "" if nothing."""
    cases: list[Case] = []
    plan, problem, started = None, "", False
    for line in text.splitlines():
        started = started or re.match(r"K?TAP version \d", line) is not None
        if match := re.match(r"1\.\.(\d+)\s*(?:#\s*SKIP\S*\s*(.*))?", line):
            plan = int(match.group(1))
            if plan == 0:
                return [Case("all of it", SKIPPED, match.group(2) or "")], ""
        elif line.startswith("Bail out!"):
            problem = line
        elif started and (match := re.match(r"(not )?ok\b\s*\d*\s*(?:- )?([^#]*)#?\s*(.*)", line)):
            failed, name, rest = match.groups()
            word, _, comment = rest.partition(" ")
            status = {"SKIP": SKIPPED, "XFAIL": IGNORED, "TODO": IGNORED, "IGNORE": IGNORED}.get(
                word.upper().rstrip(":"), PASSED)
            if failed and status != IGNORED:
                status = FAILED
            # Duration isn't part of what is compared.
            comment = re.sub(r"\s*time=\d+ms$", "", rest if status == PASSED else comment)
            name = name.strip().removeprefix(f"{script}: ") or comment
            cases.append(Case(name, status, comment))
    if not problem and plan is None:
        problem = "no plan (1..N) in its output"
    elif not problem and plan != len(cases):
        problem = f"{len(cases)} cases of {plan} planned"
    return _distinct(cases), problem


def _distinct(cases: Iterable[Case]) -> list[Case]:
    """Names that occur twice get a number, to be comparable one by one."""
    seen: Counter[str] = Counter()
    result = []
    for case in cases:
        seen[case.name] += 1
        name = f"{case.name} ({seen[case.name]})" if seen[case.name] > 1 else case.name
        result.append(Case(name, case.status, case.comment))
    return result


# --- programs ------------------------------------------------------------------------------


def build_programs(series_dir: Path | None) -> Path:
    """Scripts with their compiled helpers, as a tree like SELFTESTS, in the cache."""
    tree, cache = source_tree(series_dir=series_dir), source.cache_dir()
    target = cache / "selftest" / tree.parent.name[:16]
    with source.locked(cache, say_to_stderr), source.clear_errors(cache):
        if target.exists():
            os.utime(target)
            return target
        target.parent.mkdir(exist_ok=True)
        for old in sorted(target.parent.glob("*"), key=lambda p: p.stat().st_mtime)[:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)
        say_to_stderr("build the programs of the kernel's selftests")
        with source.scratch(cache) as fresh, source.scratch(cache) as headers:
            for name in (*READ, *COMPILED):
                origin, copy = tree / SELFTESTS / name, fresh / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                if origin.is_dir():
                    shutil.copytree(origin, copy)
                elif origin.is_file():
                    shutil.copy(origin, copy)
            # User-space headers of the architecture below UML, which has none of its own.
            _make(tree, f"O={headers}", "ARCH=x86", "headers")
            for name in COMPILED:
                if (fresh / name).is_dir():
                    _make(tree / SELFTESTS / name, f"OUTPUT={fresh / name}",
                          f"KHDR_INCLUDES=-isystem {headers}/usr/include")
            # Scripts draw options by $RANDOM: both kernels are to get the same.
            (fresh / SEED).write_text("RANDOM=$NVMPTCP_SEED\n")
            fresh.chmod(0o755)
            fresh.rename(target)
    return target


def _make(directory: Path, *arguments: str) -> None:
    command = ["make", "--no-print-directory", "-C", str(directory),
               f"-j{len(os.sched_getaffinity(0))}", *arguments]
    kept = ("PATH", "HOME", "TMPDIR")  # nothing that an outer make set
    make = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True, preexec_fn=source.die_with_parent,
        env={name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"},
    )
    try:
        output = make.communicate()[0].strip().splitlines() or ["no output"]
    finally:
        source.stop(make)
    if make.returncode:
        first = next((li for li in output if re.search(r"\berror:|not found|\*\*\*|No space", li)),
                     output[-1])
        raise LabError(f"the kernel's selftests don't build: {first}; by hand:"
                       f" {' '.join(command[:4])}")


def check_tools() -> None:
    """A missing tool makes a script skip its cases, or fail them: say so before."""
    missing = [package.name for package in packages()
               if ("selftests" in package.need or package.need.startswith("run:")
                   or package.name == "perl") and not package.present()]
    if missing:
        raise LabError(f"packages that the kernel's selftests need are missing: "
                       f"{' '.join(missing)}: `make setup`, or apt-get install them")


# --- running -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """A kernel with the test programs of the same source."""

    label: str
    kernel: Kernel
    programs: Path


def prepare(profile: str, patched: bool) -> Bench:
    series_dir = series.SERIES if patched else None
    return Bench("patched" if patched else "unpatched",
                 ensure_kernel(profile, series_dir=series_dir), build_programs(series_dir))


@dataclass(frozen=True)
class Job:
    """A script to run on a kernel; of some, only the cases that are named."""

    bench: Bench
    script: Script
    seed: int
    cases: tuple[str, ...] = ()
    again: int = 0  # the how-manieth rerun


def run_script(job: Job, *, real_time: bool = False, timeout: float | None = None,
               output: Path | None = None) -> Outcome:
    """Boot a guest of its own for one script."""
    bench, script = job.bench, job.script
    path, begin = script.path(bench.programs), time.monotonic()
    problem = complaint = ""
    code = None
    with tempfile.TemporaryFile("w+b") as text:
        try:
            result = boot.run(boot.Guest(
                kernel=bench.kernel,
                command=["sh", "-c", PREPARE, "sh",
                         "env", "-C", str(path.parent), "LC_ALL=C", "NO_COLOR=1",
                         f"BASH_ENV={bench.programs / SEED}", f"NVMPTCP_SEED={job.seed}",
                         f"./{path.name}", *job.cases],
                real_time=real_time, timeout=timeout,
            ), stdout=text, stderr=text)
            code, complaint = result.exit_code, result.report
        except LabError as error:  # the others go on
            problem, _, complaint = str(error).partition("\n")
        text.seek(0)
        said = text.read().decode(errors="replace")
    if output:
        name = f"{script.name}-{bench.label}{f'-rerun{job.again}' if job.again else ''}.log"
        (output / name).write_text(f"{said}\n{complaint}")
    cases, unsound = parse_tap(said, script.file.removesuffix(".sh"))
    if code == KSFT_SKIP and not cases:
        last = (said.strip().splitlines() or ["no reason given"])[-1]
        cases, unsound = [Case("all of it", SKIPPED, last)], ""
    if code is not None and complaint:
        problem = f"the guest kernel complained: {complaint.splitlines()[0]}"
    elif not problem:
        problem = unsound
    if not problem and code and code != KSFT_SKIP and not any(c.status == FAILED for c in cases):
        problem = f"exit code {code}, though no case failed"
    return Outcome(script.name, bench.label, cases, problem,
                   round(time.monotonic() - begin, 1), not real_time)


def run_all(todo: Sequence[Job], *, real_time: bool, timeout: float | None, output: Path | None,
            workers: int) -> list[Outcome]:
    """In the order given; those in real time one at a time, when no other takes the CPUs."""
    found: dict[int, Outcome] = {}
    begin = time.monotonic()

    def one(number: int, real: bool) -> Outcome:
        return run_script(todo[number], real_time=real, timeout=timeout, output=output)

    def done(number: int, outcome: Outcome) -> None:
        found[number] = outcome
        failed = f", {len(outcome.named(FAILED))} failed" if outcome.named(FAILED) else ""
        say_to_stderr(f"[{len(found)}/{len(todo)}, {time.monotonic() - begin:.0f} s]"
                      f" {outcome.script}, {outcome.kernel}: {len(outcome.cases)} cases{failed}"
                      f"{f', {outcome.problem}' if outcome.problem else ''}")

    virtual = [number for number, job in enumerate(todo)
               if not (real_time or job.script.real_time)]
    with boot.side_by_side(workers) as pool:
        futures: dict[Future[Outcome], int] = {
            pool.submit(one, number, False): number for number in virtual}
        for future in as_completed(futures):
            done(futures[future], future.result())
    for number in range(len(todo)):
        if number not in found:
            done(number, one(number, True))
    return [found[number] for number in range(len(todo))]


# --- what comes out ------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A case that doesn't end alike on both kernels, or fails on both."""

    script: str
    case: str
    unpatched: str
    patched: str
    regression: bool
    reruns: int = 0  # on each kernel
    unpatched_passes: int = 0  # of the reruns
    patched_passes: int = 0

    def __str__(self) -> str:
        again = (f"; rerun: {self.unpatched_passes} and {self.patched_passes} of {self.reruns}"
                 " passed") if self.reruns else ""
        return (f"{self.script}: {self.case}: unpatched {self.unpatched}, patched {self.patched}"
                f"{again}{': REGRESSION' if self.regression else ''}")


def compare(outcomes: Sequence[Outcome]) -> list[Difference]:
    """Case by case, unpatched against patched, for scripts that ran on both."""
    by = {(outcome.script, outcome.kernel): outcome for outcome in outcomes}
    found = []
    for (name, label), patched in by.items():
        unpatched = by.get((name, "unpatched"))
        if label != "patched" or not unpatched:
            continue
        new = {case.name: case.status for case in patched.cases}
        old = {case.name: case.status for case in unpatched.cases}
        for case in dict.fromkeys([*old, *new]):
            before, after = old.get(case, ABSENT), new.get(case, ABSENT)
            if before != after or after == FAILED:
                bad = before != after and (before == PASSED or after == FAILED)
                found.append(Difference(name, case, before, after, bad))
        if patched.problem != unpatched.problem:
            found.append(Difference(name, "as a whole", unpatched.problem or "sound",
                                    patched.problem or "sound", bool(patched.problem)))
    return found


def worse(reruns: int, unpatched_passes: int, patched_passes: int) -> bool:
    """Whether chance is no good explanation for the passes that the patched kernel lacks.

    Fisher's exact test, one-sided, at 5 %; up to three reruns are too few for it, and all of them
    must differ.
    """
    if unpatched_passes == reruns and patched_passes == 0:
        return True
    both = unpatched_passes + patched_passes
    chance = sum(math.comb(reruns, k) * math.comb(reruns, both - k)
                 for k in range(max(0, both - reruns), patched_passes + 1))
    return chance / math.comb(2 * reruns, both) < 0.05


def rerun(differences: Sequence[Difference], jobs: Sequence[Job], reruns: int,
          run: Callable[[Sequence[Job]], list[Outcome]]) -> list[Difference]:
    """Cases that failed or were missing on the patched kernel, again on both, with other seeds.

    A case may fail by chance, on any kernel: what counts is how often. The first run, which made
    the case a suspect, doesn't count.
    """
    whole = {d.script for d in differences if d.regression and d.case == "as a whole"}
    suspects = {name: tuple(d.case for d in differences
                            if d.script == name and (d.regression or d.patched == FAILED)
                            and d.patched != SKIPPED)
                for name in {d.script for d in differences} - whole} if reruns else {}
    again = [Job(job.bench, job.script, job.seed + number,
                 suspects[job.script.name] if job.script.takes_names else (), number)
             for number in range(1, reruns + 1) for job in jobs if suspects.get(job.script.name)]
    ran, passed = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    problems: dict[str, dict[str, str]] = {}
    for outcome in run(again) if again else []:
        if outcome.problem:
            problems.setdefault(outcome.script, {}).setdefault(outcome.kernel, outcome.problem)
        for case in outcome.cases:
            ran[outcome.script, outcome.kernel, case.name] += 1
            passed[outcome.script, outcome.kernel, case.name] += case.status == PASSED
    result = []
    for item in differences:
        old, new = ((item.script, kernel, item.case) for kernel in ("unpatched", "patched"))
        if ran[old] == ran[new] == reruns and item.case in suspects.get(item.script, ()):
            item = replace(item, regression=worse(reruns, passed[old], passed[new]),
                           reruns=reruns, unpatched_passes=passed[old], patched_passes=passed[new])
        result.append(item)
    for name, found in problems.items():
        before, after = found.get("unpatched", "sound"), found.get("patched", "sound")
        if before != after:
            result.append(Difference(name, "reruns as a whole", before, after, "patched" in found))
    return result


def verdict(outcomes: Sequence[Outcome], differences: Sequence[Difference]) -> str:
    """What the comparison says, in one line."""
    scripts = {outcome.script for outcome in outcomes if outcome.kernel == "unpatched"}
    cases = {(outcome.script, case.name) for outcome in outcomes for case in outcome.cases
             if outcome.script in scripts}
    odd = {(item.script, item.case) for item in differences}
    bad = sum(item.regression for item in differences)
    rest = f", {len(differences)} listed above" if differences else ""
    return (f"{len(cases - odd)} of {len(cases)} cases end alike on both kernels{rest}:"
            f" {f'regressions: {bad}' if bad else 'patched is as unpatched'}")


def table(outcomes: Sequence[Outcome]) -> str:
    columns = (PASSED, FAILED, SKIPPED, IGNORED)
    width = max(len(outcome.script) for outcome in outcomes)
    lines = [f"{'script':{width}}  kernel     cases  {'  '.join(columns)}  time  wall s"]
    for outcome in outcomes:
        counts = "  ".join(f"{len(outcome.named(status)):{len(status)}}" for status in columns)
        lines.append(f"{outcome.script:{width}}  {outcome.kernel:9} {len(outcome.cases):6}  "
                     f"{counts}  {'virt' if outcome.virtual_time else 'real'}"
                     f" {outcome.seconds:7.1f}")
    return "\n".join(lines)


def _remarks(outcome: Outcome, *status: str) -> list[str]:
    """Cases that a person has to look at, a line each."""
    where = f"{outcome.script} ({outcome.kernel})"
    lines = [f"{where}: {case.status}: {case.name}{f' ({case.comment})' if case.comment else ''}"
             for case in outcome.named(*status)]
    return lines + ([f"{where}: {outcome.problem}"] if outcome.problem else [])


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    verb = subparsers.add_parser(
        "selftest", help="run the kernel's own tests of the series and of MPTCP",
        description="Run kselftests of the kernel source in the guest, each in a fresh one, in"
        " virtual time where they can. Exit code 1 when a case fails, a script ends badly or the"
        " guest's kernel complains. With --compare, 1 when a case that passes on the unpatched"
        " kernel is skipped or missing on the patched one, or fails there, reruns included, more"
        " often than chance explains (Fisher's exact test, 5 %), or when only that one complains.",
        epilog="NAME is one of `selftest --list`, `all`, or the path of a script that prints TAP."
        f" Default: {', '.join(s.name for s in SCRIPTS.values() if s.default)}.",
    )
    verb.add_argument("names", nargs="*", metavar="NAME")
    verb.add_argument("--list", action="store_true", help="list the names and do nothing else")
    which = verb.add_mutually_exclusive_group()
    which.add_argument("--unpatched", action="store_true", help="on the kernel without the series")
    which.add_argument("--compare", action="store_true",
                       help="on both kernels; print what differs, case by case")
    verb.add_argument("--real-time", action="store_true", help="all of them in real time")
    verb.add_argument("--json", action="store_true", help="print everything as JSON")
    verb.add_argument("--output", type=Path, metavar="DIR",
                      help="keep what each script printed, as DIR/NAME-KERNEL[-rerunN].log")
    verb.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                      help="scripts at the same time (default: the CPUs, %(default)s)")
    verb.add_argument("--reruns", type=int, default=8, metavar="N",
                      help="with --compare: run N times again, on both kernels, what failed on the"
                      " patched one (default: %(default)s)")
    verb.add_argument("--seed", type=int, default=1, metavar="N",
                      help="of what scripts draw at random: delays, loss, offloads (default:"
                      " %(default)s)")
    verb.add_argument("--timeout", type=float, default=1800, metavar="S",
                      help="stop a script after S seconds of this machine's clock"
                      " (default: %(default)s)")
    verbs.add_profile(verb)
    verb.set_defaults(func=_selftest)


def find_scripts(names: Sequence[str], *, unpatched: bool = False) -> list[Script]:
    """Scripts by name or path. Raises UsageError."""
    if not names:
        found = [script for script in SCRIPTS.values() if script.default]
    elif "all" in names:
        found = list(SCRIPTS.values())
    else:
        found = [SCRIPTS[name] if name in SCRIPTS else _own(name) for name in names]
        for script in found:
            if unpatched and script.series_only:
                raise UsageError(f"{script.name}: only the series has it: not with --unpatched")
    if len({script.name for script in found}) < len(found):
        raise UsageError(f"a script is named twice: {' '.join(names)}")
    return [script for script in found if not (unpatched and script.series_only)]


def _own(name: str) -> Script:
    path = Path(name).absolute()
    if "/" not in name:
        raise UsageError(f"{name}: no such selftest; there are: {', '.join(SCRIPTS)}, all"
                         " (a script of your own: give its path, as ./NAME)")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UsageError(f"{name}: not an executable file")
    return Script(path.name.removesuffix(".sh"), str(path.parent), path.name, "of the user's")


def _selftest(args: argparse.Namespace) -> int:
    if args.list:
        for script in SCRIPTS.values():
            print(f"{script.name:23} {'' if script.default else 'with all or by name: '}"
                  f"{script.what}")
        return 0
    if args.reruns < 0:
        raise UsageError(f"--reruns {args.reruns}: must be 0 or more")
    for option, value in (("--jobs", args.jobs), ("--timeout", args.timeout)):
        if not value > 0:
            raise UsageError(f"{option} {value}: must be above 0")
    scripts = find_scripts(args.names, unpatched=args.unpatched)
    output = verbs.directory(args.output, "--output")
    check_tools()
    todo = []
    if args.compare or args.unpatched:
        before = prepare(args.profile, patched=False)
        todo += [Job(before, script, args.seed) for script in scripts if not script.series_only]
    if not args.unpatched:
        bench = prepare(args.profile, patched=True)
        todo += [Job(bench, script, args.seed) for script in scripts]
    todo.sort(key=lambda job: scripts.index(job.script))

    def run(jobs: Sequence[Job]) -> list[Outcome]:
        return run_all(jobs, real_time=args.real_time, timeout=args.timeout, output=output,
                       workers=args.jobs)

    outcomes = run(todo)
    for outcome in outcomes:
        if args.compare and outcome.kernel == "unpatched" and not outcome.cases:
            raise LabError(f"{outcome.script}: no results on the unpatched kernel, so nothing to"
                           f" compare with: {outcome.problem}")
    differences = rerun(compare(outcomes), todo, args.reruns, run)
    on_both = {o.script for o in outcomes if o.kernel == "unpatched"} if args.compare else set()
    # What ran on both is judged by comparison; anything else by itself.
    bad = any(d.regression for d in differences) or any(
        not outcome.ok for outcome in outcomes if outcome.script not in on_both)
    if args.json:
        print(json.dumps({"ok": not bad, "outcomes": [asdict(o) for o in outcomes],
                          "differences": [asdict(d) for d in differences]}, indent=1))
        return int(bad)
    print(table(outcomes))
    for outcome in outcomes:
        alone = () if outcome.script in on_both else (FAILED, SKIPPED, IGNORED)
        for line in _remarks(outcome, *alone):
            print(line)
    for item in differences:
        print(item)
    if args.compare:
        print(verdict(outcomes, differences))
    return int(bad)
