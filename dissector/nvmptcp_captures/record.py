# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the captures again: `python -m nvmptcp_captures.record [NAME…]`.

The lab's kernel sends every packet. It is the profile `debug`, whose trace points count commands.
With the same kernel a seed gives the same packets; with another one others, for which the expected
values hold that were counted with them.
"""

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nvmptcp_lab import boot
from nvmptcp_lab.build import Kernel, ensure_kernel
from nvmptcp_lab.errors import LabError, UsageError
from nvmptcp_lab.topology import Topology
from nvmptcp_lab.verbs import finish, require

from .stored import DISSECTOR, Capture, captures

PROFILE = "debug"
TIMEOUT = 900  # seconds
INTERRUPTED = 130
# Memory is cleared before it is used: the target doesn't fill the whole buffer of an Asymmetric
# Namespace Access log page, and sends it all. Else a capture holds what lay there before.
_KERNEL_OPTIONS = ("init_on_alloc=1",)
_SECTION_HEADER = 28  # bytes of a pcapng Section Header Block without options
# The guest imports the situations' helpers from the kernel's tests.
_PATH = [DISSECTOR, DISSECTOR.parent / "kernel-impl" / "tests"]


def merge(directory: Path, merged: Path) -> None:
    """Merge what the host's interfaces captured, by time. Raises LabError."""
    files = sorted(directory.glob("host-*.pcapng"))
    done = subprocess.run(["mergecap", "-w", merged, *files], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"mergecap: {done.stderr.strip()}")
    merged.write_bytes(_anonymous(merged.read_bytes()))


def _anonymous(pcapng: bytes) -> bytes:
    """A file without the options of its section header, which tell of this machine."""
    end = int.from_bytes(pcapng[4:8], sys.byteorder)
    length = _SECTION_HEADER.to_bytes(4, sys.byteorder)
    return pcapng[:4] + length + pcapng[8:_SECTION_HEADER - 4] + length + pcapng[end:]


def capture_guest(kernel: Kernel, module: str, arguments: Sequence[str], topology: Topology,
                  seed: int, directory: Path) -> Path:
    """Run `nvmptcp_captures.guest.MODULE ARGUMENTS…` in the lab; `directory` (empty) is writable.

    Returns what the host's end of the links carried: a pcapng file in `directory`. Raises LabError.
    """
    links = directory / "links"
    links.mkdir()
    result = boot.run(boot.Guest(
        kernel=kernel, kernel_options=_KERNEL_OPTIONS,
        command=["env", f"PYTHONPATH={':'.join(map(str, _PATH))}", "PYTHONDONTWRITEBYTECODE=1",
                 "PYTHONHASHSEED=0", sys.executable, "-m", f"nvmptcp_captures.guest.{module}",
                 *arguments],
        topology=topology, writable=[directory], capture=links, seed=seed, timeout=TIMEOUT,
        memory="2G"), stdout=sys.stderr)
    if code := finish(result):
        raise LabError(f"{module} {' '.join(arguments)}: failed in the guest (exit code {code})")
    merged = directory / "merged.pcapng"
    merge(links, merged)
    return merged


def record(kernel: Kernel, capture: Capture) -> None:
    """Make one capture's files anew. Raises LabError, OSError."""
    with tempfile.TemporaryDirectory(prefix="nvmptcp-capture-") as scratch:
        directory = Path(scratch)
        merged = capture_guest(kernel, "situations", [capture.situation, scratch],
                               capture.topology, capture.seed, directory)
        expected = json.loads((directory / "expected.json").read_text())
        about = {"about": capture.about, "seed": capture.seed, "kernel": kernel.release}
        capture.expected_file.write_text(json.dumps(about | expected, indent=1) + "\n")
        capture.packed.write_bytes(
            lzma.compress(merged.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        keys = directory / "keys.log"
        if keys.exists():
            shutil.copyfile(keys, capture.keys)


def chosen(names: Sequence[str]) -> list[Capture]:
    """The captures of these names, or all. Raises UsageError."""
    known = captures()
    for name in names:
        if name not in known:
            raise UsageError(f"{name}: no such capture; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="nvmptcp_captures.record", description="Make the captures that the dissector is tested"
        " with, in the lab, and what the kernel counted meanwhile.",
        epilog="Exit codes: 0, 1 the lab failed, 2 usage, 130 interrupted.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a capture (default: all)")
    args = parser.parse_args(argv)
    try:
        selected = chosen(args.names)
        require("ip", "nsenter", "insmod", "perl", "fio", "nft", "dumpcap", "mergecap", "openssl")
        kernel = ensure_kernel(PROFILE)
        for capture in selected:
            record(kernel, capture)
            print(f"{capture.name}: {capture.packed.stat().st_size / 1024:.0f} KiB", flush=True)
    except LabError as error:
        print(f"nvmptcp_captures: error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"nvmptcp_captures: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
