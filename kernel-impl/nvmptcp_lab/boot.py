# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot the kernel as a process, run one command in it, take it down again."""

import contextlib
import ctypes
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from . import sandbox
from .build import Kernel
from .errors import LabError
from .topology import Topology, shell_script

GUEST = Path(__file__).with_name("guest")
MODULES = ("nvme-core", "nvme-fabrics", "nvme-tcp", "nvmet", "nvmet-tcp")
TIMED_OUT = 124  # as timeout(1)
KERNEL_LOG = "kernel.log"  # in the guest's directory
SEEDED_START = 1_795_219_200_000_000_000  # ns: a seeded guest's clock starts at 2026-11-21

# A line of the guest's log that fails a run, whatever the command's exit code says.
_REPORT = re.compile(
    r"BUG:|WARNING:|Oops|Kernel panic|general protection fault|KASAN:|UBSAN:|KFENCE:"
    r"|possible (?:circular|recursive) locking|inconsistent lock state|suspicious RCU usage"
    r"|refcount_t:|INFO: task .* blocked for|rcu: INFO: .* stall|list_(?:add|del) corruption"
    r"|kmemleak: \d+ new suspected|ODEBUG:|bad unlock balance|sleeping function called"
)


@dataclass(frozen=True)
class Guest:
    """What to boot, and what it may touch."""

    kernel: Kernel
    command: Sequence[str]
    topology: Topology | None = None
    netns: str | None = None  # "host" or "target"; None: the guest's own
    writable: Sequence[Path] = ()  # directories of this machine that the guest may write to
    capture: Path | None = None  # one pcapng an interface goes here
    real_time: bool = False
    timeout: float | None = None  # seconds of this machine's clock
    memory: str = "1G"
    module_options: dict[str, str] = field(default_factory=dict)  # "nvme-core": "multipath=N"
    kernel_options: Sequence[str] = ()  # for the kernel's command line
    interactive: bool = False
    seed: int | None = None  # of all random numbers: the same seed, the same run; virtual time only
    script: str | None = None  # builds this guest's part of the topology; None: all of it
    started: Callable[[int], None] | None = None  # called with the kernel's process ID
    clock: str = "inf-cpu"  # time-travel=, in virtual time; ext:NUMBER:SOCKET: see `.separate`

    @property
    def mounts(self) -> list[Path]:
        """Directories of this machine that the guest mounts to write there."""
        return [path.resolve() for path in (*self.writable, self.capture) if path]


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs `nvmptcp_lab.guest.MODULE` in the guest."""
    package_root = Path(__file__).parents[1]
    return ["env", f"PYTHONPATH={package_root}", "PYTHONDONTWRITEBYTECODE=1",
            sys.executable, "-s", "-m", f"nvmptcp_lab.guest.{module}", *arguments]


@dataclass(frozen=True)
class Result:
    """How a run ended. `report` holds the guest kernel's own complaints, if any."""

    exit_code: int
    report: str
    log: str


def _start_script(guest: Guest, run: Path) -> str:
    """The second half of process 1: see guest/init for the first."""
    quote = shlex.quote
    virtual = "" if guest.real_time else "export NVMPTCP_VIRTUAL_TIME=1\n"
    lines = [f"run={quote(str(run))}", "cd /", f"PATH={quote(str(GUEST / 'bin'))}:$PATH", virtual]
    # The console is a tty: make it a plain pipe of bytes, unless a person sits there.
    mode = "sane" if guest.interactive else "raw -echo"
    lines += [f"stty -F /dev/tty0 {mode}", "stty -F /dev/tty1 raw -echo"]
    for path in guest.mounts:
        lines.append(f"mount -t hostfs -o {quote(str(path))} none {quote(str(path))}")
    for name in MODULES:
        file = guest.kernel.modules / f"{name}.ko"
        if file.exists():
            lines.append(f"insmod {quote(str(file))} {guest.module_options.get(name, '')}")
    if _topology(guest):
        lines.append(f"sh {quote(str(run / 'topology'))} >/dev/kmsg 2>&1"
                     " || { : >$run/failed-topology; off 1; }")
    if guest.capture:
        lines += [f". {quote(str(GUEST / 'capture'))}",
                  f"capture_start {quote(str(guest.capture.resolve()))}"]
    enter = f"nsenter --net=/run/netns/{guest.netns} " if guest.netns else ""
    directory = quote(os.getcwd())
    console = "</dev/tty0 >/dev/tty0 2>&1" if guest.interactive else (
        "</dev/null >/dev/tty0 2>/dev/tty1")
    session = "setsid -c " if guest.interactive else ""
    lines.append(f"(cd {directory} 2>/dev/null; exec {session}{enter}{shlex.join(guest.command)})"
                 f" {console}")
    lines.append("code=$?")
    if guest.capture:
        lines.append("capture_stop")
    lines.append("off $code")
    return _OFF + "\n".join(lines) + "\n"


_OFF = """\
off() {
	echo "$1" >"$run/exit-code"
	sync
	# reboot(RB_POWER_OFF), by hand: a container need not have a poweroff command.
	exec perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'
}
"""


def pick_cpu() -> tuple[int, IO[str] | None]:
    """A CPU that no other lab of this user is pinned to, held by a lock, else any.

    UML's processes hand over to one another all the time: on two CPUs that costs ten times more.
    """
    cpus = sorted(os.sched_getaffinity(0))
    directory = Path(tempfile.gettempdir())
    for cpu in cpus:
        with contextlib.suppress(OSError):
            lock = (directory / f"nvmptcp-{os.getuid()}-cpu{cpu}.lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cpu, lock
            except OSError:
                lock.close()
    return cpus[os.getpid() % len(cpus)], None


def _memory_directory(run: Path) -> Path:
    """Where the guest's memory lies: a tmpfs, if there is one with room."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK) else run


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Give the terminal back as it was: UML sets it to raw."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    saved = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


_running: set["subprocess.Popen[bytes]"] = set()
_libc = ctypes.CDLL(None)


@contextlib.contextmanager
def side_by_side(workers: int) -> Iterator[ThreadPoolExecutor]:
    """A pool whose threads may boot guests. When the body fails, or is interrupted, they end."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stop_all()
        raise
    finally:
        pool.shutdown()


def stop_all() -> None:
    """Stop this process's guests, whichever thread booted them: `run` raises LabError there."""
    for process in list(_running):
        _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    _running.discard(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(guest: Guest, stdout: Any = None, stderr: Any = None) -> Result:
    """Boot, run the command, power off.

    stdout, stderr: as for `subprocess`, files or descriptors; None: the caller's own.
    Raises LabError where no exit code came back: a panic, a time-out, a broken kernel image.
    KeyboardInterrupt passes through once all processes are gone.
    """
    directory = Path(tempfile.mkdtemp(prefix="nvmptcp-"))
    try:
        return _run(guest, directory, stdout, stderr)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _topology(guest: Guest) -> str | None:
    if guest.script is not None:
        return guest.script
    return shell_script(guest.topology) if guest.topology else None


def _run(guest: Guest, directory: Path, stdout: Any, stderr: Any) -> Result:
    cpu, lock = pick_cpu()
    with contextlib.ExitStack() as stack:
        stack.enter_context(terminal_kept())
        if lock:
            stack.enter_context(lock)
        kernel = stack.enter_context(booted(guest, directory, cpu, stdout, stderr,
                                            start_new_session=True))
        try:
            kernel.wait(guest.timeout)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
    log = (directory / KERNEL_LOG).read_text(errors="replace")
    return result(guest, directory, log, timed_out)


@contextlib.contextmanager
def booted(guest: Guest, directory: Path, cpu: int, stdout: Any, stderr: Any,
           **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A guest that runs on `cpu`; gone at the end.

    directory: for the guest's own files; sockets that its options name are beside it. options: as
    `subprocess` has them, such as which session or process group.
    """
    if script := _topology(guest):
        (directory / "topology").write_text(script)
    (directory / "start").write_text(_start_script(guest, directory))
    memory = _memory_directory(directory)
    writable = [directory, memory, *guest.mounts]  # before the child's directory is another one

    def prepare() -> None:
        dies_with_parent()
        # It sets its terminal, from the background where it is in the lab's session.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.sched_setaffinity(0, {cpu})
        sandbox.restrict_writes(writable)

    with contextlib.ExitStack() as stack:
        error = os.dup(_descriptor(stderr, sys.stderr))
        stack.callback(os.close, error)
        # The console of standard error must not read: it would take what a user types.
        nothing = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, nothing)
        arguments = [
            str(guest.kernel.image),
            f"mem={guest.memory}",
            "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
            f"init={GUEST / 'init'}", f"NVMPTCP_RUN={directory}",
            "con=null", "con0=fd:0,fd:1", f"con1=fd:{nothing},fd:{error}", "con2=fd:2",
            "console=tty2", "loglevel=7",
            "seccomp=auto", "null_blk.nr_devices=0", f"uml_dir={directory}/", "panic=-1",
        ]
        if not guest.real_time:
            arguments.append(f"time-travel={guest.clock}")
            if guest.seed:
                arguments.append(f"random_seed={guest.seed}")
                if guest.clock == "inf-cpu":
                    arguments.append(f"time-travel-start={SEEDED_START}")
        arguments += guest.kernel_options
        log = stack.enter_context((directory / KERNEL_LOG).open("wb"))
        kernel = stack.enter_context(process(
            arguments, stdin=None if guest.interactive else subprocess.DEVNULL, stdout=stdout,
            stderr=log, pass_fds=(error, nothing), preexec_fn=prepare,
            cwd=directory.parent, env={**os.environ, "TMPDIR": str(memory)}, **options,
        ))
        if guest.started:
            guest.started(kernel.pid)
        yield kernel


def dies_with_parent() -> None:
    """For `preexec_fn`: no guest outlives its lab."""
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextlib.contextmanager
def process(arguments: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process, the leader of its group, as `subprocess` has it; `stop_all` ends it, too."""
    prepare = options.pop("preexec_fn", None)
    # An interruption while it starts would leave a child that nobody knows.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def prepare_unblocked() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if prepare:
            prepare()

    try:
        child = subprocess.Popen(arguments, preexec_fn=prepare_unblocked, **options)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    _running.add(child)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield child
    finally:
        _kill(child)


def _descriptor(stream: Any, default: IO[str]) -> int:
    if stream is None:
        return default.fileno()
    return stream if isinstance(stream, int) else int(stream.fileno())


def result(guest: Guest, directory: Path, log: str, timed_out: bool) -> Result:
    """How a guest has ended, from what it left in its directory. Raises LabError."""
    report = _report(log)
    try:
        code = int((directory / "exit-code").read_text())
    except (OSError, ValueError):
        code = None
    for step, words in (("topology", "the topology could not be built; the guest said:\n"
                         + tail(log)),
                        ("capture", "the capture could not be started")):
        if (directory / f"failed-{step}").exists():
            raise LabError(words)
    if timed_out:
        raise Timeout(f"no end after {guest.timeout:g} s (--timeout): the guest was stopped;"
                      f" its log ends:\n{tail(log)}")
    if code is None:
        raise LabError("the guest kernel died; its log ends:\n" + (report or tail(log)))
    return Result(code, report, log)


class Timeout(LabError):
    """The guest did not end in time."""

    exit_code = TIMED_OUT


def tail(log: str, lines: int = 15) -> str:
    """The end of a log."""
    return "\n".join(log.splitlines()[-lines:])


def _report(log: str) -> str:
    """The first complaint in a kernel log, with what follows it; empty where there is none."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if _REPORT.search(line):
            return "\n".join(lines[number : number + 40])
    return ""
