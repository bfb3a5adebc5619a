# SPDX-License-Identifier: GPL-2.0-or-later
"""Topologies: N veth paths between the namespaces `host` and `target`.

A topology is a TOML table: `paths` (a number) or one `[[path]]` table a path, with defaults for all
of them beside it. Each path may have `to_target` and `to_host` tables, for its two directions.
`shell_script` turns it into the iproute2 commands that build it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from . import tomlfile, units
from .errors import UsageError

MAX_PATHS = 16  # interface and endpoint numbers stay one hex digit; RFC 8684 address IDs are 8 bits
HOST_ENDPOINTS = ("none", "subflow", "fullmesh")
TARGET_ENDPOINTS = ("none", "signal")


@dataclass(frozen=True)
class Direction:
    """What one end of a path does to the packets it sends (tc-netem(8))."""

    rate: str | None = None  # netem rate, such as "1000mbit"; None: no limit
    delay: str | None = None
    jitter: str | None = None
    loss: str | None = None  # of packets as netem sees them: a GSO packet is dropped whole
    limit: int = 1000  # packets in the queue

    def netem(self) -> str | None:
        """The arguments of `tc qdisc … netem`, or None where the path does nothing."""
        words = [f"limit {self.limit}"]
        if self.delay:
            words.append(f"delay {self.delay}" + (f" {self.jitter}" if self.jitter else ""))
        if self.loss:
            words.append(f"loss {self.loss}")
        if self.rate:
            words.append(f"rate {self.rate}")
        return " ".join(words) if len(words) > 1 else None


@dataclass(frozen=True)
class Link:
    """A path: one veth pair."""

    to_target: Direction
    to_host: Direction
    backup: bool = False  # of the endpoints at both ends: used where no other path works


@dataclass(frozen=True)
class Mptcp:
    """Limits, endpoints and sysctls (ip-mptcp(8), net.mptcp.*) of both namespaces."""

    subflows: int = 8
    add_addr_accepted: int = 8
    host_endpoints: str = "none"
    target_endpoints: str = "signal"
    scheduler: str = "default"
    checksum: bool = False


@dataclass(frozen=True)
class Topology:
    """Paths are numbered from 1. Path i: 10.0.i.1 (host) to 10.0.i.2 (target), or fd00:i::1/2.

    Further hosts with kernels of their own, from 2, have 10.0.i.3 and so on.
    """

    links: tuple[Link, ...]
    family: str = "ipv4"
    mtu: int = 1500
    mptcp: Mptcp = field(default_factory=Mptcp)
    sysctl: tuple[tuple[str, str], ...] = ()

    def host_address(self, path: int, host: int = 1) -> str:
        last = 1 if host == 1 else host + 1
        return f"10.0.{path}.{last}" if self.family == "ipv4" else f"fd00:{path:x}::{last:x}"

    def target_address(self, path: int) -> str:
        return f"10.0.{path}.2" if self.family == "ipv4" else f"fd00:{path:x}::2"


_DIRECTION_KEYS: dict[str, Callable[[Any], object]] = {
    "rate": units.rate,
    "delay": units.microseconds,
    "jitter": units.microseconds,
    "loss": units.percent,
}


class _Reader:
    """Reads tables; every error names the file and the key."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def fail(self, key: str, why: str) -> UsageError:
        return UsageError(f"{self.origin}: {key}: {why}")

    def table(self, value: object, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(key, "must be a table")
        return value

    def whole(self, value: object, key: str, low: int, high: int) -> int:
        if type(value) is not int or not low <= value <= high:
            raise self.fail(key, f"must be a whole number from {low} to {high}, not {value!r}")
        return value

    def choice(self, value: object, key: str, choices: tuple[str, ...]) -> str:
        if value not in choices:
            raise self.fail(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    def true_or_false(self, value: object, key: str) -> bool:
        if not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, not {value!r}")
        return value

    def known(self, table: Mapping[str, Any], key: str, names: set[str]) -> None:
        for name in table:
            if name not in names:
                where = f"{key}.{name}" if key else name
                raise self.fail(where, f"unknown key; known here: {', '.join(sorted(names))}")

    def direction(self, table: Mapping[str, Any], key: str, default: Direction) -> Direction:
        given: dict[str, Any] = {}
        for name, read in _DIRECTION_KEYS.items():
            if name in table:
                try:
                    read(table[name])
                except ValueError as error:
                    raise self.fail(f"{key}.{name}" if key else name, str(error)) from None
                given[name] = table[name]
        if "limit" in table:
            where = f"{key}.limit" if key else "limit"
            given["limit"] = self.whole(table["limit"], where, 1, 10**7)
        result = replace(default, **given)
        if result.jitter and not result.delay:
            raise self.fail(f"{key}.jitter" if key else "jitter", "needs a delay")
        return result

    def link(self, table: Mapping[str, Any], key: str, default: Direction) -> Link:
        self.known(table, key, {*_DIRECTION_KEYS, "limit", "to_target", "to_host", "backup"})
        base = self.direction(table, key, default)
        ends = {}
        for name in ("to_target", "to_host"):
            end = self.table(table.get(name, {}), f"{key}.{name}")
            self.known(end, f"{key}.{name}", {*_DIRECTION_KEYS, "limit"})
            ends[name] = self.direction(end, f"{key}.{name}", base)
        return Link(ends["to_target"], ends["to_host"],
                    self.true_or_false(table.get("backup", False), f"{key}.backup"))

    def mptcp(self, table: dict[str, Any]) -> Mptcp:
        self.known(table, "mptcp", {f.name for f in fields(Mptcp)})
        given = dict(table)
        for name in ("subflows", "add_addr_accepted"):
            if name in given:
                self.whole(given[name], f"mptcp.{name}", 0, 64)
        if "host_endpoints" in given:
            self.choice(given["host_endpoints"], "mptcp.host_endpoints", HOST_ENDPOINTS)
        if "target_endpoints" in given:
            self.choice(given["target_endpoints"], "mptcp.target_endpoints", TARGET_ENDPOINTS)
        if not isinstance(given.get("scheduler", ""), str):
            raise self.fail("mptcp.scheduler", "must be a scheduler's name")
        self.true_or_false(given.get("checksum", False), "mptcp.checksum")
        return Mptcp(**given)


def from_table(table: Mapping[str, Any], origin: str) -> Topology:
    """A topology from a TOML table. Raises UsageError that names `origin` and the key."""
    reader = _Reader(origin)
    top = {*_DIRECTION_KEYS, "limit", "paths", "path", "family", "mtu", "mptcp", "sysctl"}
    reader.known(table, "", top)
    default = reader.direction(table, "", Direction())
    if "path" in table:
        if not isinstance(table["path"], list) or not table["path"]:
            raise reader.fail("path", "must be [[path]] tables, one a path")
        if "paths" in table and table["paths"] != len(table["path"]):
            raise reader.fail(
                "paths", f"is {table['paths']!r}, but there are {len(table['path'])} [[path]]s"
            )
        links = tuple(
            reader.link(reader.table(entry, f"path[{number}]"), f"path[{number}]", default)
            for number, entry in enumerate(table["path"], 1)
        )
        reader.whole(len(links), "path", 1, MAX_PATHS)
    else:
        count = reader.whole(table.get("paths", 1), "paths", 1, MAX_PATHS)
        links = (Link(default, default),) * count
    mptcp = reader.mptcp(reader.table(table.get("mptcp", {}), "mptcp"))
    for number, link in enumerate(links, 1):
        if link.backup and (mptcp.host_endpoints, mptcp.target_endpoints) == ("none", "none"):
            raise reader.fail(f"path[{number}].backup", "needs mptcp endpoints, and both are none")
    sysctl = reader.table(table.get("sysctl", {}), "sysctl")
    for name, value in sysctl.items():
        if not name.startswith("net.") or not isinstance(value, (str, int)):
            raise reader.fail(f"sysctl.{name}", 'must be "net.…" = a number or a string')
    return Topology(
        links=links,
        family=reader.choice(table.get("family", "ipv4"), "family", ("ipv4", "ipv6")),
        mtu=reader.whole(table.get("mtu", 1500), "mtu", 1280, 65535),
        mptcp=mptcp,
        sysctl=tuple((name, str(value)) for name, value in sysctl.items()),
    )


def load(path: Path) -> Topology:
    """Read a topology file. Raises UsageError."""
    _, table = tomlfile.read(path, "topology")
    return from_table(table, str(path))


def _batch(command: str, lines: list[str]) -> str:
    return f"{command} -batch - <<'END'\n" + "\n".join(lines) + "\nEND\n" if lines else ""


@dataclass
class _End:
    """What one end of the paths is told: arguments of ip(8) and tc(8)."""

    ip: list[str]
    tc: list[str]


def _end(topology: Topology, netns: str, host: int) -> _End:
    """Addresses, limits, endpoints and queues of `netns`, once its path devices are there."""
    prefix, nodad = ("64", " nodad") if topology.family == "ipv6" else ("24", "")
    mptcp = topology.mptcp
    end = _End(["link set lo up",
                f"mptcp limits set subflows {mptcp.subflows}"
                f" add_addr_accepted {mptcp.add_addr_accepted}"], [])
    for path, link in enumerate(topology.links, 1):
        name = f"path{path}"
        if netns == "host":
            address, direction = topology.host_address(path, host), link.to_target
            flags = mptcp.host_endpoints.replace("fullmesh", "subflow fullmesh")
        else:
            address, direction = topology.target_address(path), link.to_host
            flags = mptcp.target_endpoints
        end.ip += [f"address add {address}/{prefix} dev {name}{nodad}", f"link set {name} up"]
        if flags != "none":
            backup = " backup" if link.backup else ""
            end.ip.append(f"mptcp endpoint add {address} dev {name} {flags}{backup}")
        if netem := direction.netem():
            end.tc.append(f"qdisc add dev {name} root netem {netem}")
        # What the host sends from path i's address leaves by path i, whatever its destination;
        # the target answers to path i's subnet over path i by its connected route.
        if netns == "host":
            end.ip += [f"route add default via {topology.target_address(path)} dev {name}"
                       f" table {path}", f"rule add from {address} lookup {path}"]
    return end


def _set_up(topology: Topology, netns: str, end: _End) -> str:
    """The part of a script that sets up `netns`."""
    sysctls = [
        ("net.mptcp.scheduler", topology.mptcp.scheduler),
        ("net.mptcp.checksum_enabled", str(int(topology.mptcp.checksum))),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        *topology.sysctl,
    ]
    writes = "\n".join(
        f"echo '{value}' >/proc/sys/{name.replace('.', '/')} || exit 1" for name, value in sysctls
    )
    option = "-6" if topology.family == "ipv6" else "-4"
    return (f"nsenter --net=/run/netns/{netns} sh <<'END'\n{writes}\nEND\n"
            + _batch(f"ip {option} -n {netns}", end.ip) + _batch(f"tc -n {netns}", end.tc))


def shell_script(topology: Topology) -> str:
    """The /bin/sh script, run as root in the guest, that builds the topology with iproute2."""
    create = ["netns add host", "netns add target"]
    for path in range(1, len(topology.links) + 1):
        create.append(f"link add path{path} mtu {topology.mtu} netns host type veth"
                      f" peer name path{path} mtu {topology.mtu} netns target")
    return "set -e\n" + _batch("ip", create) + "".join(
        _set_up(topology, netns, _end(topology, netns, 1)) for netns in ("host", "target"))


def end_script(topology: Topology, netns: str, host: int, hosts: int) -> str:
    """The same for a kernel of its own that is one end: its devices eth0, eth1, … become the paths.

    host: which one this is, from 1, if it isn't the target; hosts: how many share the paths. With
    several, what comes to the target queues at the rate of its link, as in a switch.
    """
    end = _end(topology, netns, host)
    create, queues = [f"netns add {netns}"], []
    for path, link in enumerate(topology.links, 1):
        create.append(f"link set eth{path - 1} netns {netns} name path{path} mtu {topology.mtu}")
        if netns == "target" and hosts > 1 and link.to_target.rate:
            queues.append(f"link add queue{path} mtu {topology.mtu} type ifb")
            queues.append(f"link set queue{path} up")
            netem = Direction(rate=link.to_target.rate, limit=link.to_target.limit).netem()
            end.tc += [f"qdisc add dev path{path} ingress",
                       f"filter add dev path{path} ingress matchall action mirred egress redirect"
                       f" dev queue{path}", f"qdisc add dev queue{path} root netem {netem}"]
    end.ip = queues + end.ip
    # As the ends of a veth pair: segments that arrive aren't put together, and the speed is known,
    # which LACP needs.
    ethtool = "".join(f"nsenter --net=/run/netns/{netns} ethtool {option}\n"
                      for path in range(1, len(topology.links) + 1)
                      for option in (f"-K path{path} gro off",
                                     f"-s path{path} speed 10000 duplex full"))
    return "set -e\n" + _batch("ip", create) + ethtool + _set_up(topology, netns, end)
