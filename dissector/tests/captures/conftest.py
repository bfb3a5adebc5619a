# SPDX-License-Identifier: GPL-2.0-or-later
"""What the dissector's tests share: the captures, unpacked, and two users of tshark."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvmptcp_captures.pdus import PDU_FIELDS, Row
from nvmptcp_captures.stored import DISSECTOR, Capture, captures
from nvmptcp_captures.streams import Connection, read
from nvmptcp_captures.tshark import DIGESTS, Tshark, built_plugin, require

CAPTURES = captures()
ROOT = DISSECTOR.parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(*names): the captures that a test runs for")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `capture` runs for each of them, or for those of a marker `only`."""
    if "capture" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("only")
        names = marker.args if marker else tuple(CAPTURES)
        metafunc.parametrize("capture", [CAPTURES[name] for name in names], ids=names)


@pytest.fixture(scope="session")
def shared() -> Iterator[Path]:
    """A directory that an ordinary user may read, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="nvmptcp-dissector-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture(scope="session")
def files(shared: Path) -> dict[str, Path]:
    """The pcapng file of each capture."""
    return {name: capture.unpack(shared) for name, capture in CAPTURES.items()}


@pytest.fixture
def file(capture: Capture, files: dict[str, Path]) -> Path:
    """The pcapng file of `capture`."""
    return files[capture.name]


@pytest.fixture
def keys(capture: Capture, file: Path) -> list[str]:
    """tshark's options for the TLS secrets of `capture`, where there are any."""
    if not capture.keys.exists():
        return []
    readable = file.with_name(capture.keys.name)  # by an ordinary user
    readable.write_bytes(capture.keys.read_bytes())
    return ["-o", f"tls.keylog_file:{readable}"]


@pytest.fixture(scope="session")
def connections_of(files: dict[str, Path]) -> dict[str, list[Connection]]:
    """The connections of each capture, by our own reassembler."""
    return {name: read(file) for name, file in files.items()}


@pytest.fixture
def connections(capture: Capture,
                connections_of: dict[str, list[Connection]]) -> list[Connection]:
    """The connections of `capture`."""
    return connections_of[capture.name]


def _user(shared: Path, name: str) -> Tshark:
    home = shared / name
    home.mkdir()
    home.chmod(0o777)  # whoever runs the tests, the user is another one
    return Tshark(home)


@pytest.fixture(scope="session")
def stock(shared: Path) -> Tshark:
    """tshark without the plugin."""
    require("tshark")
    return _user(shared, "stock")


@pytest.fixture(scope="session")
def dissector(shared: Path) -> Tshark:
    """tshark with the plugin, built from this tree."""
    user = _user(shared, "user")
    done = subprocess.run(["make", "--no-print-directory", "dissector"], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, f"make dissector failed:\n{done.stdout}{done.stderr}"
    user.install(built_plugin())
    return user


# Without nvme-tcp.cmd.qid: stock tshark learns it from the answer to Connect, in the first pass.
FIELDS = [
    "frame.number", "frame.time_epoch", "_ws.malformed", *PDU_FIELDS, "nvme-tcp.hdgst.status",
    "nvme-tcp.ddgst.status", "nvme-tcp.cmd.cid", "nvme.cmd.opc", "nvme.cmd.nsid", "nvme.cmd.slba",
    "nvme.cmd.nlb", "nvme.fabrics.cmd.fctype", "nvme.cqe.cid", "nvme.cqe.status", "nvme-tcp.ttag",
    "nvme-tcp.r2t.offset", "nvme-tcp.r2t.length", "nvme-tcp.data.offset", "nvme-tcp.data.length",
    *(f"nvme_mptcp.{name}" for name in (
        "connection", "subflow", "subflows", "qid", "dsn", "length", "pdu.offset", "pdu.length",
        "discovery.tcpv", "discovery.mpattr", "discovery.maxsf", "discovery.sfgid", "checksum_bad",
        "mp_fail", "tcprst", "join_refused", "fallback.handshake", "fallback", "tcp_used", "silent",
        "framing_error", "not_captured", "hdgst_bad", "ddgst_bad", "duplicate_cid",
        "unknown_cid"))]


@pytest.fixture(scope="session")
def _rows() -> dict[tuple[str, tuple[str, ...]], list[Row]]:
    return {}


def _read(cache: dict[tuple[str, tuple[str, ...]], list[Row]], dissector: Tshark, file: Path,
          *options: str) -> list[Row]:
    key = file.name, options
    if key not in cache:
        cache[key] = dissector.fields(file, FIELDS, *DIGESTS, *options)
    return cache[key]


@pytest.fixture
def rows(file: Path, keys: list[str], dissector: Tshark,
         _rows: dict[tuple[str, tuple[str, ...]], list[Row]]) -> list[Row]:
    """FIELDS of each frame of `capture`, by tshark with the plugin, in one pass."""
    return _read(_rows, dissector, file, *keys)


@pytest.fixture
def rows_of_two_passes(file: Path, keys: list[str], dissector: Tshark,
                       _rows: dict[tuple[str, tuple[str, ...]], list[Row]]) -> list[Row]:
    """The same in two passes."""
    return _read(_rows, dissector, file, "-2", *keys)
