# SPDX-License-Identifier: GPL-2.0-or-later
"""The target under test: how to reach it, and what its discovery log says of the port."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from .endpoints import mptcp_socket
from .endpoints.host import DISCOVERY_NQN, HOST_NQN, Host, ProtocolError, StatusError
from .errors import UsageError
from .feature import Feature
from .layers import discovery
from .layers.registry import Mpattr, Tcpv
from .profile import Claims
from .suite.verdict import NotApplicable

KATO = 60_000  # milliseconds: no test takes as long
HDGST, DDGST = 1, 2  # bits of DGST
_IOCCSZ = 1792  # byte of the Identify Controller data structure, a dword in units of 16 bytes
_SQE_UNITS = 4  # IOCCSZ without in-capsule data


@dataclass(frozen=True)
class Address:
    """What the user says of a target."""

    traddr: str
    trsvcid: int
    discovery_traddr: str
    discovery_trsvcid: int
    nqn: str | None = None  # None: that of the port's entry
    hostnqn: str = HOST_NQN
    timeout: float = 5  # seconds: how long the target may be silent

    def __str__(self) -> str:
        return endpoint(self.traddr, self.trsvcid)


def endpoint(traddr: str, trsvcid: int) -> str:
    """Address and port as people write them."""
    return f"[{traddr}]:{trsvcid}" if ":" in traddr else f"{traddr}:{trsvcid}"


@dataclass(frozen=True)
class Target:
    """A target that answers. `entry`: that of the port and NVM subsystem under test."""

    address: Address
    nqn: str
    log: discovery.DiscoveryLog
    entry: discovery.DiscoveryLogEntry
    claims: Claims

    @property
    def multipath(self) -> bool:
        """TCPV is 1h."""
        return int(self.entry.tsas.tcpv) == Tcpv.MPTCP

    def attribute(self, bit: Mpattr) -> bool:
        """A bit of MPATTR, which is valid with TCPV 1h only."""
        return self.multipath and bool(int(self.entry.tsas.mpattr) & bit)

    def feature(self, name: str) -> Feature:
        """What the target shows of a feature with a claim (profile.Claims). OSError, ProtocolError
        where it has to be asked for and can't be.
        """
        if name in ("hdgst", "ddgst"):
            on = bool(self._digests & {"hdgst": HDGST, "ddgst": DDGST}[name])
            return Feature(name, on, f"ICResp {'grants' if on else 'refuses'} {name.upper()}")
        if name == "in_capsule":
            return Feature(name, self._ioccsz > _SQE_UNITS, f"IOCCSZ is {self._ioccsz}")
        tsas = self.entry.tsas
        if name.upper() in Mpattr.__members__:
            bit = Mpattr[name.upper()]
            on = self.attribute(bit)
            why = "" if self.multipath else f", and TCPV is {int(tsas.tcpv):X}h"
            return Feature(name, on, f"MPATTR has {bit.name} {'set' if on else 'cleared'}{why}")
        field = {"mptcp": "TCPV", "maxsf": "MAXSF", "groups": "SFGID", "tls": "SECTYPE"}[name]
        number = int(getattr(tsas, field.lower()))
        value = {"mptcp": self.multipath, "maxsf": number}.get(name, bool(number))
        return Feature(name, value, f"the entry of {self.address} has {field} {number:X}h")

    @cached_property
    def _digests(self) -> int:
        with self.connection() as host:
            return int(host.initialize(HDGST | DDGST).dgst)

    @cached_property
    def _ioccsz(self) -> int:
        with self.admin_queue() as (host, _):
            return int.from_bytes(host.identify_controller()[_IOCCSZ:_IOCCSZ + 4], "little")

    def require(self, name: str) -> None:
        """NotApplicable if the target shows that it lacks a feature, Failed if it claims it."""
        self.feature(name).require(self.claims)

    def exclude(self, name: str) -> None:
        """NotApplicable if the target shows that it has a feature."""
        shown = self.feature(name)
        if shown.value:
            raise NotApplicable(shown.proof)

    def describe(self) -> str:
        """The entry in a line."""
        tsas = self.entry.tsas
        names = [bit.name for bit in Mpattr if int(tsas.mpattr) & bit]
        return (f"TCPV {int(tsas.tcpv):X}h, MPATTR {int(tsas.mpattr):02X}h"
                f" ({', '.join(map(str, names)) or 'none'}), MAXSF {tsas.maxsf},"
                f" SFGID {tsas.sfgid:X}h")

    @contextmanager
    def connection(self, *, mptcp: bool = True) -> Iterator[Host]:
        """A connection to the port, without any PDU on it yet."""
        with Host(mptcp_socket.open_socket(self.address.traddr, self.address.trsvcid,
                                           self.address.timeout, mptcp=mptcp)) as host:
            yield host

    @contextmanager
    def admin_queue(self, *, mptcp: bool = True, digests: int = 0) -> Iterator[tuple[Host, int]]:
        """An association with an Admin Queue, its controller enabled, and the CNTLID."""
        with self.connection(mptcp=mptcp) as host:
            host.initialize(digests)
            cntlid = host.connect(self.nqn, self.address.hostnqn, kato=KATO)
            host.enable()
            host.wait_ready()
            yield host, cntlid

    @contextmanager
    def io_queue(self, cntlid: int, *, mptcp: bool = True) -> Iterator[Host]:
        """I/O queue 1 of an association."""
        with self.connection(mptcp=mptcp) as host:
            host.initialize()
            host.connect(self.nqn, self.address.hostnqn, qid=1, cntlid=cntlid)
            yield host


def find(address: Address, claims: Claims) -> Target:
    """Read the discovery log and try the NVM subsystem. UsageError if that fails."""
    try:
        socket.socket(type=socket.SOCK_STREAM, proto=mptcp_socket.IPPROTO_MPTCP).close()
    except OSError as error:
        raise UsageError(f"no MPTCP sockets on this machine ({error.strerror}): it needs Linux 5.16"
                         " with MPTCP, and `sysctl net.mptcp.enabled=1`") from None
    where = endpoint(address.discovery_traddr, address.discovery_trsvcid)
    try:
        log = _read_log(address)
        where = str(address)
        nqn, entry = _own_entry(address, log)
        target = Target(address, nqn, log, entry, claims)
        with target.admin_queue():
            return target
    except StatusError as error:
        raise UsageError(f"{where}: the target refuses {address.nqn or 'the NQN of its entry'}"
                         f" or --hostnqn: {error}") from None
    except ProtocolError as error:
        raise UsageError(f"{where}: no NVMe/TCP target: {error}") from None
    except OSError as error:
        raise UsageError(f"{where}: not reachable: {error.strerror or error}") from None


def entries_of(log: discovery.DiscoveryLog) -> list[discovery.DiscoveryLogEntry]:
    """The entries of the transport type TCP."""
    return [entry for entry in log.entries if entry.trtype == discovery.TCP]


def place(entry: discovery.DiscoveryLogEntry) -> tuple[str, str]:
    """TRADDR, in the usual form, and TRSVCID of an entry."""
    traddr = discovery.text(entry.traddr)
    with suppress(ValueError):  # a name
        traddr = str(ipaddress.ip_address(traddr))
    return traddr, discovery.text(entry.trsvcid)


@contextmanager
def discovery_controller(address: Address, *, mptcp: bool = True) -> Iterator[Host]:
    """An Admin Queue of the Discovery controller, which is enabled."""
    with Host(mptcp_socket.open_socket(address.discovery_traddr, address.discovery_trsvcid,
                                       address.timeout, mptcp=mptcp)) as host:
        host.initialize()
        host.connect(DISCOVERY_NQN, address.hostnqn)
        host.enable()
        host.wait_ready()
        yield host


def _read_log(address: Address) -> discovery.DiscoveryLog:
    with discovery_controller(address) as host:
        return host.discovery_log()


def _own_entry(address: Address,
               log: discovery.DiscoveryLog) -> tuple[str, discovery.DiscoveryLogEntry]:
    mine = discovery.DiscoveryLogEntry(traddr=address.traddr.encode(),
                                       trsvcid=str(address.trsvcid).encode())
    subsystems = [(discovery.text(entry.subnqn), entry) for entry in entries_of(log)
                  if entry.subtype == 2 and place(entry) == place(mine)]
    found = [(nqn, entry) for nqn, entry in subsystems if address.nqn in (None, nqn)]
    if not found:
        known = ", ".join(sorted({nqn for nqn, _ in subsystems})) or "none"
        raise UsageError(f"{address}: the discovery log has no entry for this address with"
                         f" {address.nqn or 'an NVM subsystem'}; it has there: {known}")
    return found[0]
