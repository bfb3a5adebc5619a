# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: MP_CAPABLE, queues, and the byte stream."""

import pytest

from ...endpoints import raw
from ...host_under_test import NQN, HostUnderTest, Stage
from ...layers import mptcp
from ...layers.mptcp_stream import End
from ..verdict import check
from .raw_stage import InstrumentBehaviour, RawStage

SMALL = 512  # bytes of a C2HData PDU
SINGLE = 1400  # bytes at the start of a connection that come one by one
CUT_TIMEOUT = 30


@pytest.mark.requirement("TCPV-CONN-001")
@pytest.mark.usefixtures("mptcp_host")
def test_connection_for_each_queue(stage: Stage) -> None:
    """Each queue has an MPTCP connection of its own.

    Sent: answers to what the host sends when it connects over MPTCP.
    Expected: each connection carries one Connect command, and no two for the same queue of an
    association.
    """
    stage.listen()
    stage.trigger()
    admin, io = stage.queues()
    for seen in stage.instrument.seen:
        ids = [command.qid for command in seen.connects()]
        check(len(ids) == 1, f"a connection with {len(ids)} Connect commands, for the queues {ids}")
    ids = [seen.qid for seen in (admin, *io)]
    check(len(set(ids)) == len(ids), f"connections for the queues {ids}")


@pytest.mark.requirement("TCPV-CONN-003")
@pytest.mark.usefixtures("mptcp_host")
def test_one_variant_for_an_association(stage: Stage) -> None:
    """All queues of an association request the same TCP variant.

    Sent: answers to what the host sends when it connects over MPTCP.
    Expected: the connections of all queues are MPTCP.
    """
    stage.listen()
    stage.trigger()
    admin, io = stage.queues()
    check(len({seen.mptcp for seen in (admin, *io)}) == 1, stage.describe())


@pytest.mark.requirement("TCPV-CONN-004")
@pytest.mark.usefixtures("mptcp_host")
def test_mp_capable_in_the_first_syn(stage: Stage) -> None:
    """Each SYN that opens a connection has MP_CAPABLE of version 1.

    Sent: SYN/ACKs with MP_CAPABLE to each SYN that has it.
    Expected: the protocol in effect of each connection is MPTCP.
    """
    stage.listen()
    stage.trigger()
    stage.queues()
    check(all(seen.mptcp for seen in stage.instrument.seen), stage.describe())


@pytest.mark.requirement("TCPV-CONN-005")
def test_first_subflows_go_to_the_entry(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """All connections of an association are opened to the same TRADDR.

    Sent: SYN/ACKs at the address that the trigger names, and at another one, which listens, too.
    Expected: all connections are opened to the first one.
    """
    stage.listen(mptcp_host.listen, mptcp_host.second_address())
    stage.trigger()
    stage.queues()
    elsewhere = [seen for seen in stage.instrument.seen if seen.queue.local[0] != mptcp_host.listen]
    check(not elsewhere, stage.describe())


@pytest.mark.requirement("TCPV-CONN-008")
@pytest.mark.usefixtures("mptcp_host")
def test_one_icreq(stage: Stage) -> None:
    """A connection begins with ICReq, and has no further one.

    Sent: answers to what the host sends when it connects over MPTCP and does I/O.
    Expected: each byte stream begins with ICReq, the only one in it.
    """
    stage.listen()
    stage.trigger(copy=True)
    stage.queues()
    for seen in stage.instrument.seen:
        check(seen.first[:1] == b"\0", f"{seen.describe()} begins with {seen.first[:8].hex()}")
        check(len(seen.icreqs) == 1, f"{seen.describe()} has {len(seen.icreqs)} ICReq PDUs")


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("mptcp_host")
def test_pdus_are_taken_in_order(stage: Stage) -> None:
    """PDUs are processed in the order of the byte stream.

    Sent: the data of Read commands in C2HData PDUs of 512 bytes.
    Expected: the host writes what it has read, unchanged.
    """
    stage.instrument.max_c2h_data = SMALL
    stage.listen()
    stage.trigger(copy=True)
    stage.queues()
    check(stage.copy_is_right(), f"what the host copied differs: {stage.describe()}")


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_pdus_are_cut_anywhere(stage: Stage) -> None:
    """A PDU may be cut at any byte.

    Sent: the first 1,400 bytes of each connection one by one, each when the one before is
    acknowledged, so that each is a mapping of its own.
    Expected: the host opens its queues, and copies data unchanged.
    """
    stage.instrument.sends_bytes = SINGLE
    stage.listen()
    stage.trigger(copy=True)
    stage.queues()
    check(stage.wait(lambda: stage.copy_is_right(NQN), CUT_TIMEOUT),
          f"what the host copied differs: {stage.describe()}")


class FirstSynLost(InstrumentBehaviour):
    """Doesn't answer to the first SYN from a port."""

    reset_strays = False

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.capable: dict[End, list[bool]] = {}  # of the SYNs from a port

    def accept(self, syn: raw.Segment) -> bool:
        syns = self.capable.setdefault(syn.source, [])
        syns.append(syn.find(mptcp.MPCapableSYN) is not None)
        return len(syns) > 1


@pytest.mark.requirement("TCPV-CONN-007")
def test_lost_syn_is_no_proof(raw_stage: RawStage) -> None:
    """An unanswered SYN is sent again with MP_CAPABLE.

    Sent: no answer to the first SYN of each connection; a SYN/ACK to the second one.
    Expected: both SYNs have MP_CAPABLE, and the host opens its queues over MPTCP.
    """
    behaviour = FirstSynLost()
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger()
    raw_stage.queues()
    without = [syns for syns in behaviour.capable.values() if not all(syns[:2])]
    check(not without, f"{len(without)} of {len(behaviour.capable)} connections: the SYN that"
          " repeats an unanswered one has no MP_CAPABLE")
    check(all(seen.mptcp for seen in raw_stage.instrument.seen), raw_stage.describe())
