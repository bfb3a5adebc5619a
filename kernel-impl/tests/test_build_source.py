# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the source comes from: the mirror, the pinned version, other trees."""

import dataclasses
import hashlib
import http.server
import os
import re
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from nvmptcp_lab import source
from nvmptcp_lab.errors import LabError, UsageError

PIN = source.load_pin()
# The suite's metapackage: a download of a few hundred bytes, signed like the real one.
TINY = dataclasses.replace(PIN, package="linux-source")


class Enough(Exception):
    """Ends a fetch before its 160 MB download."""


def test_wrong_sha256_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"linux-source_.*\.deb: its sha256 is not the one of"):
        source.fetch(tmp_path, dataclasses.replace(TINY, sha256="0" * 64), lambda _: None)
    assert not (tmp_path / "source").exists()
    assert not list(tmp_path.rglob("*.deb"))


def test_package_without_a_kernel_is_refused(tmp_path: Path) -> None:
    lines: list[str] = []
    older = dataclasses.replace(TINY, version="7.0-1")  # so the one in the pool has no pinned sum
    with pytest.raises(LabError, match="not a kernel source"):
        source.fetch(tmp_path, older, lines.append)
    assert source.cached(tmp_path, older) is None
    assert not list(tmp_path.glob("tmp-*"))


@pytest.mark.parametrize(
    ("package", "version"),
    [("linux-source-7.3", "7.3.1-1~bpo13+1"), ("linux-source-7.1", "7.1.9-1~bpo13+1")],
)
def test_newer_version_stands_in_with_a_notice(
    tmp_path: Path, package: str, version: str
) -> None:
    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        if text.startswith("download"):
            raise Enough

    gone = dataclasses.replace(PIN, package=package, version=version)
    with pytest.raises(Enough):
        source.fetch(tmp_path, gone, say)
    notice = [line for line in lines if line.startswith("notice:")]
    assert len(notice) == 1
    assert f"no longer has {package} {version}; using linux-source-7." in notice[0]


def test_nothing_newer_in_the_pool(tmp_path: Path) -> None:
    future = dataclasses.replace(PIN, version="7.3.9999-1")
    with pytest.raises(LabError, match=r"7\.3\.9999-1 can't be had \(.*KERNEL_SRC="):
        source.fetch(tmp_path, future, lambda _: None)


class Flaky(http.server.BaseHTTPRequestHandler):
    """A mirror that cuts the line after a part of the file, once."""

    protocol_version = "HTTP/1.1"
    content = os.urandom(3 << 20)
    sent: ClassVar[list[int]] = []  # where each answer began

    def do_GET(self) -> None:
        match = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(match.group(1)) if match else 0
        self.sent.append(start)
        self.send_response(206 if match else 200)
        if match:
            size = len(self.content)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        end = None if len(self.sent) > 1 else 2 << 20
        self.wfile.write(self.content[start:end])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


def test_interrupted_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    Flaky.sent.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    apt = source.Apt(tmp_path, PIN.suite)
    checksum = "SHA256:" + hashlib.sha256(Flaky.content).hexdigest()
    uri = f"http://127.0.0.1:{server.server_port}/x.deb"
    try:
        file = source.download(apt, uri, "x.deb", len(Flaky.content), checksum, lambda _: None)
    finally:
        server.shutdown()
        server.server_close()
    assert file.read_bytes() == Flaky.content
    assert len(Flaky.sent) == 2
    assert Flaky.sent[1] > 1 << 20


def test_mirror_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.MIRROR_VARIABLE, "http://127.0.0.1:9/debian")
    with pytest.raises(LabError, match=r"can't be had .*127\.0\.0\.1") as caught:
        source.fetch(tmp_path, PIN, lambda _: None)
    assert "\n" not in str(caught.value)


def test_mirrors_of_deb822_and_one_line_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.sources").write_text(
        "Types: deb\nURIs: http://one.example/debian/\nSuites: trixie trixie-updates\n"
        "Components: main contrib\n\n"
        "Types: deb\nURIs: http://other.example/apt\nSuites: nodistro\nComponents: main\n"
    )
    (tmp_path / "b.list").write_text(
        "deb [arch=amd64] http://two.example/debian bookworm main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
    )
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{tmp_path}";\n'
        'APT::Architecture "amd64";\n'
    )
    monkeypatch.delenv(source.MIRROR_VARIABLE, raising=False)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    assert source.mirrors() == ["http://one.example/debian", "http://two.example/debian"]


def test_no_debian_mirror_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "apt.conf"
    config.write_text(
        'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n'
    )
    monkeypatch.delenv(source.MIRROR_VARIABLE, raising=False)
    monkeypatch.setenv("APT_CONFIG", str(config))
    with pytest.raises(LabError, match=source.MIRROR_VARIABLE):
        source.mirrors()


def test_kernel_src_that_is_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        source.external(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"no Linux source tree \(Makefile is missing\)"):
        source.external(str(tmp_path))
