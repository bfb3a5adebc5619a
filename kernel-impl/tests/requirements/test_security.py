# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Security considerations, on the reference kernel.

A stranger forges segments. Each attack has its control: the same segment, made rightly, does what
the attack was meant to do.
"""

import pytest
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run

PATHS = "paths = 3"


@pytest.fixture(scope="module")
def controller(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("security", "controller_attacked", tmp_path_factory.mktemp("controller"),
               topology=PATHS)


@pytest.fixture(scope="module")
def host(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("security", "host_attacked", tmp_path_factory.mktemp("host"), topology=PATHS)


@pytest.mark.requirement("TCPV-SEC-001")
def test_data_without_the_right_hmac_are_not_delivered(controller: Situation) -> None:
    """A command at the next DSN, after a wrong HMAC and after none. Fails if a DATA_ACK covers it,
    or if what the host sends at that DSN later is taken for old.
    """
    assert controller.data["outcomes"]["data after it"] == "reset"
    assert controller.data["outcomes"]["data without HMAC"] == "reset"
    assert controller.data["unharmed"] == {
        "transfer": True, "subflows": True, "state": "live", "log": []}
    assert controller.data["control"]["acknowledged"] == 72


@pytest.mark.requirement("TCPV-SEC-002")
def test_a_wrong_hmac_is_answered_by_a_reset(controller: Situation, host: Situation) -> None:
    """In the third packet to the controller, in the SYN/ACK to the host."""
    assert controller.data["outcomes"]["wrong HMAC"] == "reset"
    assert controller.data["control"]["HMAC"] == "joined"
    assert host.data["answers"] == {"wrong": "reset", "right": "HMAC"}


@pytest.mark.requirement("TCPV-SEC-003")
def test_mp_fastclose_with_another_key_is_ignored(controller: Situation, host: Situation) -> None:
    """In sequence, on the first subflow. Fails if the connection or a subflow goes."""
    assert controller.data["unharmed"]["subflows"]
    assert controller.data["unharmed"]["transfer"]
    assert controller.data["control"]["closed"] is not None
    assert host.data["unharmed"] == {"transfer": True, "queues": True, "state": "live", "log": []}
    assert host.data["control"]["closed"] is not None


@pytest.mark.requirement("TCPV-SEC-004")
def test_forged_announcements_are_not_followed(host: Situation) -> None:
    """ADD_ADDR with a wrong HMAC, and with none. Fails if a join goes to the address."""
    assert host.data["forged"] == {"wrong": 0, "missing": 0}
    assert host.data["control"]["joins"] == 1


@pytest.mark.requirement("TCPV-SEC-005")
def test_the_host_limits_announced_addresses(host: Situation) -> None:
    """Two addresses are announced; the limit is 0, 1, 8."""
    accepted = host.data["accepted"]
    assert {limit: [subflows - 1 for _, _, subflows in queues]
            for limit, queues in accepted.items()} == {"0": [0, 0], "1": [1, 1], "8": [2, 2]}


@pytest.mark.requirement("TCPV-SEC-007")
def test_joins_beyond_the_limit_are_refused(controller: Situation) -> None:
    """The limit is 3 subflows, two of them joined, and can't be set to more than 255."""
    assert controller.data["limit"]["queues"] == [[0, "mptcp", 3], [1, "mptcp", 3]]
    assert controller.data["limit"]["beyond"] == "reset"
    assert 8 in controller.data["configurable"]
    assert max(controller.data["configurable"]) < 255  # the first subflow comes on top


@pytest.mark.requirement("TCPV-SEC-008")
def test_half_open_joins_do_not_starve_the_connection(controller: Situation) -> None:
    """1,000 SYNs with the token, never completed; then the host transfers a MiB."""
    assert controller.data["flood"] == {"transfer": True, "state": "live", "half-open": 1_000}


@pytest.mark.requirement("TCPV-SEC-009")
def test_a_failed_join_is_not_repeated_without_end(host: Situation) -> None:
    """A join was answered wrongly; within the next 10 s there are at most 10 others."""
    assert 1 <= host.data["repeated"] <= 1 + 10
