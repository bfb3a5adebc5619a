# SPDX-License-Identifier: GPL-2.0-or-later
"""What an endpoint may decide otherwise than RFC 8684 has it."""

from __future__ import annotations

import hmac
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...layers import mptcp
from .packets import Segment

if TYPE_CHECKING:
    from .connection import Announcement, Connection
    from .subflow import Subflow

MPTCP_ERROR, _PROHIBITED, _MIDDLEBOX = 1, 3, 6  # reasons in MP_TCPRST (RFC 8684 §3.6)
_EXTENSION, _HMAC_SHA256 = 0x40, 0x01  # flags B, H of MP_CAPABLE (§3.1)


class Behaviour:
    """The decisions of an endpoint, by default those of RFC 8684; override to have a fault.

    Attributes may also be given to the constructor: `Behaviour(checksum_required=True)`. Methods
    are called while the stack is locked: they must not block. One object may serve many
    connections.
    """

    # Offer and negotiation
    offer_mptcp = True  # MP_CAPABLE in the SYN, as initiator
    version = mptcp.VERSION
    checksum_required = False  # flag A
    deny_joins = False  # flag C: no subflows to the first one's address
    # TCP
    mss = 1400  # bytes
    receive_window = 1 << 17  # bytes, of the whole connection; 0 closes the window
    rto = 0.3  # seconds, doubled each time
    syn_rto = 1.0  # seconds, of a SYN or SYN/ACK
    data_rto = 1.0  # seconds without DATA_ACK until data are sent once more, doubled each time
    tries = 6  # of a segment, after which its subflow is given up
    # Options
    dsn_octets = 8
    data_ack_octets = 8
    mapping_size: int | None = None  # bytes in a mapping; None: a segment's
    # Reaction
    acknowledge = True  # send ACKs by itself
    acknowledge_data = True  # and DATA_ACKs in them
    echo_add_addr = True
    most_unmapped = 1 << 16  # bytes on a subflow that may wait for their mapping
    waits_for_subflow = False  # a connection without subflows isn't lost: there may be a join
    reset_strays = True  # RST for segments of no connection, and SYNs that nobody wants

    def __init__(self, **attributes: object) -> None:
        for name, value in attributes.items():
            if not hasattr(type(self), name):
                raise TypeError(f"Behaviour has no attribute {name}")
            setattr(self, name, value)

    # Every segment

    def outgoing(self, subflow: Subflow, segment: Segment) -> Iterable[Segment]:
        """What is sent instead of `segment`, in this order: nothing, others, or more."""
        return (segment,)

    def incoming(self, subflow: Subflow, segment: Segment) -> Iterable[Segment]:
        """What is taken in instead of `segment`. Segments of no subflow don't come here."""
        return (segment,)

    # Keys and handshakes (§3.1, §3.2)

    def key(self) -> int:
        """The key of a new connection."""
        return random.getrandbits(64)

    def nonce(self) -> int:
        """The nonce of a join."""
        return random.getrandbits(32)

    def isn(self) -> int:
        """The initial sequence number of a subflow."""
        return random.getrandbits(32)

    def answer_capable(self, syn: Segment) -> bool:
        """Listener: whether the SYN/ACK has MP_CAPABLE. Asked where the SYN has one that fits."""
        option = syn.find(mptcp.MPCapableSYN)
        return bool(option and option.version >= mptcp.VERSION
                    and int(option.flags) & (_EXTENSION | _HMAC_SHA256) == _HMAC_SHA256)

    def accept(self, syn: Segment) -> bool:
        """Listener: whether a connection is accepted; if not, the SYN is refused by a RST."""
        return True

    def keys_fit(self, own: int, received: int) -> bool:
        """Listener: whether MP_CAPABLE of the third packet has our key; if not, fall back to TCP.
        """
        return own == received

    def unknown_token(self, syn: Segment) -> mptcp.MPTCPReset | None:
        """The option of the RST for MP_JOIN with an unknown token; None: no answer at all."""
        return mptcp.MPTCPReset(reason=MPTCP_ERROR)

    def accept_join(self, connection: Connection, syn: Segment) -> mptcp.MPTCPReset | None:
        """None if MP_JOIN with a known token is answered, else the option of the RST for it."""
        first = connection.subflows[0].local.address
        if self.deny_joins and syn.destination.address == first:
            return mptcp.MPTCPReset(reason=_PROHIBITED)
        return None

    def join_synack(self, connection: Connection,
                    option: mptcp.MPJoinSYNACK) -> mptcp.MPTCPOption | None:
        """The option of the SYN/ACK that answers MP_JOIN."""
        return option

    def join_hmac_fits(self, expected: bytes, received: bytes) -> bool:
        """Whether the peer's HMAC in MP_JOIN is taken; if not, the subflow is reset."""
        return hmac.compare_digest(expected, received)

    def established(self, connection: Connection) -> None:
        """The peer's first DSS has come, so that it stays MPTCP: the time to `announce`."""

    # Addresses (§3.4)

    def add_addr_fits(self, expected: bytes, received: bytes) -> bool:
        """Whether the HMAC of ADD_ADDR is taken; if not, the option is ignored."""
        return hmac.compare_digest(expected, received)

    def announced(self, connection: Connection, address: Announcement) -> None:
        """The peer announced an address (again)."""

    def remove_addr(self, connection: Connection, address_id: int) -> None:
        """The peer withdrew an address: by default its subflows are reset."""
        for subflow in connection.alive:
            if subflow.remote_id == address_id:
                subflow.reset()

    def schedule(self, connection: Connection, usable: Sequence[Subflow]) -> Subflow:
        """The subflow of the next mapping; `usable` ones have room, backups come only if alone."""
        return usable[0]

    # Data (§3.3)

    def checksum_fits(self, expected: int, received: int | None) -> bool:
        """Whether a mapping's DSS checksum is taken. Asked where checksums were negotiated."""
        return expected == received

    def checksum_failed(self, connection: Connection, subflow: Subflow, dsn: int) -> None:
        """A mapping that starts at `dsn` doesn't fit its checksum (§3.7)."""
        connection.reject_mapping(subflow, dsn)

    def checksum_missing(self, connection: Connection, subflow: Subflow) -> None:
        """A mapping has no checksum, though they are in use (§3.3): its subflow is reset."""
        subflow.reset(mptcp.MPTCPReset(reason=MPTCP_ERROR))
        connection.receiver.go_on()

    def unmapped(self, connection: Connection, subflow: Subflow) -> None:
        """More than `most_unmapped` bytes wait for their mapping, as where a box takes the options
        away (§3.7): the subflow is reset.
        """
        subflow.reset(mptcp.MPTCPReset(reason=_MIDDLEBOX))

    def fail(self, connection: Connection, subflow: Subflow, option: mptcp.MPFail) -> None:
        """MP_FAIL came (§3.7)."""
        connection.take_fail(subflow)

    def fallback(self, connection: Connection) -> None:
        """The connection has become TCP."""

    # Closing (§3.5)

    def fastclose_fits(self, own: int, received: int) -> bool:
        """Whether MP_FASTCLOSE has our key; if not, it is ignored."""
        return own == received

    def fastclose(self, connection: Connection, subflow: Subflow) -> None:
        """MP_FASTCLOSE came and is taken: reset all subflows."""
        connection.abort()

    def data_fin(self, connection: Connection) -> None:
        """The peer's stream has ended: the application learns of it, and closes or not."""
