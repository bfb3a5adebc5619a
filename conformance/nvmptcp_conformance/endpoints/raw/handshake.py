# SPDX-License-Identifier: GPL-2.0-or-later
"""How connections and further subflows come to be (RFC 8684 §3.1, §3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...layers import mptcp
from ...layers.mptcp_stream import End
from .behaviour import MPTCP_ERROR
from .packets import Segment
from .subflow import Subflow

if TYPE_CHECKING:
    from .connection import Connection, Option

_CHECKSUM, _NO_JOINS, _HMAC_SHA256 = 0x80, 0x20, 0x01  # flags A, C, H of MP_CAPABLE


class Handshake:
    """Both sides of the handshakes of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._behaviour = connection.behaviour
        self._offered = False  # MP_CAPABLE stood in the SYN, and in the SYN/ACK if that is ours
        self.address_ids: dict[str, int] = {}  # of our addresses

    def address_id(self, address: str) -> int:
        """The ID of an address of ours; the first subflow's has 0."""
        ids = self.address_ids
        return ids.setdefault(address, max(ids.values(), default=-1) + 1)

    @property
    def flags(self) -> int:
        """Of our MP_CAPABLE."""
        checksum = self._connection.checksum or self._behaviour.checksum_required
        return _HMAC_SHA256 | _CHECKSUM * checksum | _NO_JOINS * self._behaviour.deny_joins

    def _add(self, local: End, remote: End, *, join: bool = False,
             address_id: int | None = None) -> Subflow:
        own_id = self.address_id(local.address)
        subflow = Subflow(self._connection, local, remote, join=join,
                          address_id=own_id if address_id is None else address_id)
        self._connection.subflows.append(subflow)
        self._connection.stack.add(subflow)
        return subflow

    # We send the SYN

    def start(self, local: End, remote: End, options: list[Option] | None) -> None:
        """The first SYN, with these MPTCP options or the right one."""
        if options is None:
            right = mptcp.MPCapableSYN(version=self._behaviour.version, flags=self.flags)
            options = [right] if self._behaviour.offer_mptcp else []
        self._offered = bool(options)
        self._add(local, remote).start("S", options)

    def start_join(self, local: End, remote: End, *, address_id: int | None, backup: bool,
                   token: int, hmac: bytes | None, third: Option | None,
                   options: list[Option] | None) -> Subflow:
        """A SYN with MP_JOIN; see `Connection.join`."""
        subflow = self._add(local, remote, join=True, address_id=address_id)
        subflow.backup, subflow.nonce = backup, self._behaviour.nonce()
        subflow.forced_hmac, subflow.forced_third = hmac, third
        right = mptcp.MPJoinSYN(backup=int(backup), address_id=subflow.address_id, token=token,
                                nonce=subflow.nonce)
        subflow.start("S", [right] if options is None else options)
        return subflow

    def take_synack(self, subflow: Subflow, segment: Segment) -> None:
        """Our SYN was answered."""
        if subflow.join:
            self._take_join_synack(subflow, segment)
            return
        connection, option = self._connection, segment.find(mptcp.MPCapableSYNACK)
        subflow.third = []
        if (self._offered and option and option.version == self._behaviour.version
                and int(option.flags) & _HMAC_SHA256):
            connection.checksum = bool(self._behaviour.checksum_required
                                       or int(option.flags) & _CHECKSUM)
            connection.establish(subflow, option.sender_key)
            subflow.third = [("MPTCP", mptcp.MPCapableACK(
                flags=self.flags, sender_key=connection.local_key,
                receiver_key=connection.peer_key))]
        else:
            connection.fall_back("no MP_CAPABLE in the SYN/ACK")
        subflow.send_third()

    def _take_join_synack(self, subflow: Subflow, segment: Segment) -> None:
        connection, option = self._connection, segment.find(mptcp.MPJoinSYNACK)
        if not option:
            subflow.reset(mptcp.MPTCPReset(reason=MPTCP_ERROR))
            return
        subflow.peer_nonce, subflow.remote_id = option.nonce, option.address_id
        subflow.peer_backup = bool(option.backup)
        expected = mptcp.join_hmac(connection.peer_key, connection.local_key, option.nonce,
                                   subflow.nonce)[:8]
        if not self._behaviour.join_hmac_fits(expected, option.hmac):
            subflow.reset(mptcp.MPTCPReset(reason=MPTCP_ERROR))
            return
        hmac = subflow.forced_hmac
        if hmac is None:
            hmac = mptcp.join_hmac(connection.local_key, connection.peer_key, subflow.nonce,
                                   option.nonce)[:20]
        third = subflow.forced_third
        subflow.third = [("MPTCP", mptcp.MPJoinACK(hmac=hmac) if third is None else third)]
        subflow.send_third()

    # The peer sends the SYN

    def answer(self, syn: Segment) -> None:
        """Answer a SYN that isn't a join."""
        connection, option = self._connection, syn.find(mptcp.MPCapableSYN)
        subflow = self._add(syn.destination, syn.source)
        subflow.peer_syn(syn)
        self._offered = bool(option and self._behaviour.answer_capable(syn))
        options: list[Option] = []
        if option and self._offered:
            connection.checksum = bool(self._behaviour.checksum_required
                                       or int(option.flags) & _CHECKSUM)
            options = [mptcp.MPCapableSYNACK(version=self._behaviour.version, flags=self.flags,
                                             sender_key=connection.local_key)]
        subflow.start("SA", options)

    def answer_join(self, syn: Segment, option: mptcp.MPJoinSYN) -> None:
        """Answer a SYN with MP_JOIN that has our token."""
        connection = self._connection
        subflow = self._add(syn.destination, syn.source, join=True)
        subflow.peer_syn(syn)
        subflow.nonce, subflow.peer_nonce = self._behaviour.nonce(), option.nonce
        subflow.remote_id, subflow.peer_backup = option.address_id, bool(option.backup)
        own = mptcp.join_hmac(connection.local_key, connection.peer_key, subflow.nonce,
                              subflow.peer_nonce)
        answer = self._behaviour.join_synack(connection, mptcp.MPJoinSYNACK(
            address_id=subflow.address_id, hmac=own[:8], nonce=subflow.nonce))
        subflow.start("SA", [] if answer is None else [answer])

    def take_third(self, subflow: Subflow, segment: Segment) -> None:
        """Our SYN/ACK was answered."""
        if subflow.join:
            connection, option = self._connection, segment.find(mptcp.MPJoinACK)
            expected = mptcp.join_hmac(connection.peer_key, connection.local_key,
                                       subflow.peer_nonce, subflow.nonce)[:20]
            if not option or not self._behaviour.join_hmac_fits(expected, option.hmac):
                subflow.reset(mptcp.MPTCPReset(reason=MPTCP_ERROR))
        else:
            self._take_capable(subflow, segment)
            self._connection.stack.established(self._connection)

    def _take_capable(self, subflow: Subflow, segment: Segment) -> None:
        connection = self._connection
        capable = (segment.find(mptcp.MPCapableACK) or segment.find(mptcp.MPCapableData)
                   or segment.find(mptcp.MPCapableDataChecksum))
        if not self._offered:
            connection.fall_back("no MP_CAPABLE in the SYN, or not answered")
        elif not capable:
            connection.fall_back("no MP_CAPABLE in the third packet")
        elif not self._behaviour.keys_fit(connection.local_key, capable.receiver_key):
            connection.fall_back("not our key in the third packet")
        else:
            connection.establish(subflow, capable.sender_key)
