# SPDX-License-Identifier: GPL-2.0-or-later
"""The profile of a device under test, a TOML file: how to reach it, what it claims, what to run.

Keys, their kinds and the template come from the classes below.
"""

import inspect
import ipaddress
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nvmptcp_spec import tomlfile

T = TypeVar("T")
# The others concern both sides.
HOST_CLAIMS = ("discovery",)
TARGET_CLAIMS = ("adda", "dcsr", "mpreq", "maxsf", "groups", "in_capsule")
LONGEST_NQN = 223  # bytes
LONGEST = 24 * 3600  # seconds that anything may take


def address(value: str) -> str:
    """The usual form of an address. Raises ValueError."""
    return str(ipaddress.ip_address(value))


def addresses(values: list[Any]) -> Any:
    """Several of them. Raises ValueError."""
    return tuple(address(value if isinstance(value, str) else repr(value)) for value in values)


def nqn_text(value: str) -> str:
    """An NQN as it fits its field (NVMe Base 2.0 §4.7). Raises ValueError."""
    if len(value.encode()) > LONGEST_NQN or not value.isprintable():
        raise ValueError(f"an NQN has at most {LONGEST_NQN} bytes, all of them printable")
    return value


def _known(low: int, high: int) -> Callable[[int], int]:
    """Checks a range."""
    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"has to be from {low} to {high}, not {value}")
        return value
    return check


port = _known(1, 65535)


def _key(kind: type[T], example: T, text: str, check: Callable[[T], T] | None = None) -> Any:
    """A key that may be absent. `example` and `text` go into the template."""
    return field(default=None, metadata={"kind": kind, "example": example, "text": text,
                                         "check": check})


@dataclass(frozen=True)
class TargetKeys:
    """Reach the target under test (verb `target`)."""

    traddr: str | None = _key(str, "192.0.2.1", "address of the port under test, as its entry of"
                              " the discovery log has it", address)
    trsvcid: int | None = _key(int, 4420, "its TCP port number", port)
    discovery_traddr: str | None = _key(str, "192.0.2.1", "address of the Discovery controller;"
                                        " default: traddr", address)
    discovery_trsvcid: int | None = _key(int, 8009, "its TCP port number; default: trsvcid", port)
    nqn: str | None = _key(str, "nqn.2014-08.org.example:disk1", "NVM subsystem to connect to;"
                           " default: that of the entry", nqn_text)
    hostnqn: str | None = _key(str, "nqn.2014-08.org.example:host1", "connect as this host, where"
                               " the target asks for a known one", nqn_text)


@dataclass(frozen=True)
class HostKeys:
    """Where the host under test connects to (verb `host`)."""

    listen: str | None = _key(str, "192.0.2.9", "address of this machine that the host can reach",
                              address)
    trsvcid: int | None = _key(int, 4420, "TCP port number to listen on", port)
    further: tuple[str, ...] | None = _key(list, ["192.0.2.10"], "more addresses of this machine"
                                           " that the host can reach, for tests with several",
                                           addresses)


@dataclass(frozen=True)
class Claims:
    """What the product claims of the optional features (the ICS form).

    A test that needs a feature which isn't there is "not applicable"; if the feature is claimed, it
    fails. A claim that the wire contradicts fails, too, either way. No claim: the wire decides.
    """

    mptcp: bool | None = _key(bool, True, "uses MPTCP (target: TCPV 1h)")
    adda: bool | None = _key(bool, True, "target: accepts subflows to further addresses (ADDA)")
    dcsr: bool | None = _key(bool, False, "target: requires DSS checksums (DCSR)")
    mpreq: bool | None = _key(bool, False, "target: refuses TCP (MPREQ)")
    maxsf: int | None = _key(int, 8, "target: most subflows of a connection (MAXSF)",
                             _known(0, 255))
    groups: bool | None = _key(bool, False, "target: subflow groups (SFGID other than 0h)")
    hdgst: bool | None = _key(bool, True, "header digests")
    ddgst: bool | None = _key(bool, True, "data digests")
    tls: bool | None = _key(bool, False, "TLS (target: SECTYPE other than 0h)")
    in_capsule: bool | None = _key(bool, True, "target: in-capsule data on I/O queues (IOCCSZ)")
    discovery: bool | None = _key(bool, True, "host: reads the discovery log")

    def stated(self) -> dict[str, bool | int]:
        """The claims that were made."""
        return {key.name: value for key in fields(self)
                if (value := getattr(self, key.name)) is not None}

    def with_mptcp(self) -> "Claims":
        """The same, and `mptcp` claimed."""
        return replace(self, mptcp=True)


@dataclass(frozen=True)
class Hooks:
    """Shell commands, run here. Their output is kept with the results.

    A hook that fails or takes too long ends the run.
    """

    set_up: str | None = _key(str, "./power-on.sh", "before the first test")
    clean_up: str | None = _key(str, "./power-off.sh", "after the last one, also if interrupted")
    trigger: str | None = _key(str, "ssh dut connect.sh", "verb `host`: makes the host under test"
                               " connect; the environment says where to, see the documentation")
    untrigger: str | None = _key(str, "ssh dut disconnect.sh", "verb `host`: makes it disconnect")
    status: str | None = _key(str, "ssh dut status.sh", "verb `host`: prints what the host shows"
                              " its administrator, see the documentation")
    timeout: int | None = _key(int, 60, "seconds that each may take", _known(1, LONGEST))


@dataclass(frozen=True)
class Profile:
    """A whole profile. Absent keys are None."""

    name: str | None = _key(str, "ACME Array 9000", "the product, for the report")
    version: str | None = _key(str, "4.2.1", "its version, for the report")
    timeout: int | None = _key(int, 5, "seconds that the target may be silent", _known(1, LONGEST))
    destructive: bool | None = _key(bool, False, "also run tests that may harm what else the device"
                                    " does, such as floods of joins")
    target: TargetKeys = TargetKeys()
    host: HostKeys = HostKeys()
    claims: Claims = Claims()
    hooks: Hooks = Hooks()


def load(path: Path) -> Profile:
    """Read a profile. Raises SpecError, `file:line: what`."""
    return _read(tomlfile.load(path), Profile)


def _read(table: tomlfile.Table, kind: type[T]) -> T:
    values: dict[str, Any] = {}
    for key in _fields(kind):
        if is_dataclass(key.type):
            inner = table.table(key.name)
            if inner is not None:
                values[key.name] = _read(inner, _class(key))
            continue
        value = table.get(key.name, key.metadata["kind"])
        if value is not None and key.metadata["check"]:
            try:
                value = key.metadata["check"](value)
            except ValueError as error:
                table.fail(f"{key.name}: {error}", key.name)
        values[key.name] = value
    table.finish()
    return kind(**values)


def template() -> str:
    """A profile with each key commented out and explained."""
    return "\n".join([
        "# Profile of a device under test: nvmptcp-conformance target --profile FILE",
        "# Options of the command override it.", "", *_template(Profile), ""])


def _template(kind: type) -> Iterator[str]:
    inner: list[Field[Any]] = []
    for key in _fields(kind):
        if is_dataclass(key.type):
            inner.append(key)
            continue
        yield from _comment(key.metadata["text"])
        yield f"#{key.name} = {_toml(key.metadata['example'])}"
    for key in inner:
        yield ""
        for line in (inspect.getdoc(_class(key)) or "").splitlines():
            yield f"# {line}".rstrip()
        yield f"[{key.name}]"
        yield from _template(_class(key))


def _fields(kind: type) -> tuple[Field[Any], ...]:
    assert is_dataclass(kind)
    return fields(kind)


def _class(key: Field[Any]) -> type[Any]:
    assert isinstance(key.type, type)
    return key.type


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 96)]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("'", '"') if isinstance(value, list) else (
        f'"{value}"' if isinstance(value, str) else str(value))
