# SPDX-License-Identifier: GPL-2.0-or-later
"""A target of the MPTCP variant, with a namespace in memory."""

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..endpoints.controller import Queue, Service
from ..endpoints.server import Server, protocol_is_mptcp
from ..endpoints.subsystem import DISCOVERY_NQN, Subsystem
from ..errors import UsageError
from ..layers import discovery, nvme_tcp
from ..layers.registry import Mpattr, Tcpv

NQN = "nqn.2026-11.org.example:soft"
_IPV4, _IPV6 = 1, 2  # ADRFAM
_NVM, _DISCOVERY = 2, 3  # SUBTYPE
_CHECKSUMS = Path("/proc/sys/net/mptcp/checksum_enabled")


@dataclass(frozen=True)
class TargetOptions:
    """A port. `joins_at`: further addresses of this machine, which accept joins; the kernel
    announces those that are `signal` endpoints (ip-mptcp(8)). `group`: further addresses that are
    ports of the same subflow group. `size` of the namespace in bytes.
    """

    traddr: str
    trsvcid: int = 4420
    nqn: str = NQN
    joins_at: tuple[str, ...] = ()
    mptcp: bool = True
    mpattr: int = 0
    maxsf: int = 0
    sfgid: int = 0
    group: tuple[str, ...] = ()
    size: int = 16 << 20


class SoftTarget(Service):
    """One NVM subsystem and the Discovery subsystem, behind a port. A subclass may have a fault,
    and says which requirements it breaks.
    """

    breaks: tuple[str, ...] = ()
    needs = 0  # bits of MPATTR without which the fault doesn't show
    listens_with_mptcp = True

    def __init__(self, options: TargetOptions) -> None:
        self.options = self.changed(options)
        self.nvm = Subsystem(options.nqn, size=options.size)
        super().__init__(self.nvm, Subsystem(DISCOVERY_NQN, log=self._log))
        self._server: Server | None = None

    def start(self) -> None:
        """Listen, in the network namespace of the calling thread. UsageError, OSError."""
        options = self.options
        if options.mpattr & Mpattr.DCSR and not self.checksums_are_on():
            raise UsageError("DSS checksums are off on this machine: `sysctl"
                             " net.mptcp.checksum_enabled=1`, as root, or leave out dcsr")
        self._server = Server(self)
        try:
            for address in (options.traddr, *options.group, *options.joins_at):
                self._server.listen(address, options.trsvcid,
                                    mptcp=options.mptcp and self.listens_with_mptcp)
        except OSError:
            self.stop()
            raise

    def stop(self) -> None:
        """Close everything."""
        if self._server:
            self._server.stop()

    # What a fault changes, beside the decisions of Service.

    def changed(self, options: TargetOptions) -> TargetOptions:
        """The options that take effect."""
        return options

    def checksums_are_on(self) -> bool:
        """The kernel asks for DSS checksums."""
        with suppress(OSError):
            return _CHECKSUMS.read_text().strip() == "1"
        return False

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        """The entries of the log: of each port, that of the Discovery subsystem and that of the NVM
        subsystem.
        """

    def log(self, log: discovery.DiscoveryLog) -> None:
        """The log."""

    def refuses_tcp(self, queue: Queue) -> bool:
        """A connection is refused for its protocol in effect."""
        return bool(self.options.mpattr & Mpattr.MPREQ) and not queue.mptcp

    # The decisions of Service.

    def accepts(self, queue: Queue) -> bool:
        join_only = queue.local[0] not in (self.options.traddr, *self.options.group)
        return not (join_only or self.refuses_tcp(queue))

    def icreq(self, queue: Queue, request: nvme_tcp.ICReq) -> bool:
        queue.mptcp = protocol_is_mptcp(queue.transport)  # the first data may bring a fallback
        return not self.refuses_tcp(queue)

    def _log(self) -> discovery.DiscoveryLog:
        kinds = ((_DISCOVERY, DISCOVERY_NQN, 0), (_NVM, self.options.nqn, self.options.sfgid))
        ports = enumerate((self.options.traddr, *self.options.group), 1)
        entries = [self._entry(portid, traddr, *kind) for portid, traddr in ports for kind in kinds]
        self.entries(entries)
        log = discovery.DiscoveryLog(genctr=1, entries=entries)
        self.log(log)
        return log

    def _entry(self, portid: int, traddr: str, subtype: int, nqn: str,
               sfgid: int) -> discovery.DiscoveryLogEntry:
        options = self.options
        version = ipaddress.ip_address(traddr).version
        tsas = discovery.TCPTSAS()
        if options.mptcp:
            tsas = discovery.TCPTSAS(tcpv=int(Tcpv.MPTCP), mpattr=int(options.mpattr),
                                     maxsf=options.maxsf, sfgid=sfgid)
        return discovery.DiscoveryLogEntry(
            adrfam=_IPV4 if version == 4 else _IPV6, subtype=subtype, portid=portid,
            subnqn=nqn.encode(), trsvcid=str(options.trsvcid).encode(), traddr=traddr.encode(),
            tsas=tsas)
