# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways in which a peer doesn't accept joins."""

from ...endpoints import raw
from ...layers import mptcp
from .raw_stage import InstrumentBehaviour

_LACK_OF_RESOURCES = 2  # reason in MP_TCPRST (RFC 8684 §3.6)


class _Resets(InstrumentBehaviour):
    def accept_join(self, connection: raw.Connection, syn: raw.Segment) -> mptcp.MPTCPReset:
        return mptcp.MPTCPReset(reason=_LACK_OF_RESOURCES)


class _Silent(InstrumentBehaviour):
    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [] if subflow.join else [segment]


class _PlainTcp(InstrumentBehaviour):
    def join_synack(self, connection: raw.Connection, option: mptcp.MPJoinSYNACK) -> None:
        return None


REFUSALS: dict[str, type[InstrumentBehaviour]] = {
    "RST": _Resets, "no answer": _Silent, "SYN and ACK without MP_JOIN": _PlainTcp}
