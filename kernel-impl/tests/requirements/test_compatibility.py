# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Compatibility, and each cell of its matrix, on the reference kernel.

The matrix is read from the chapter, so that text and kernel can't drift apart.
"""

import re
from pathlib import Path

import pytest
from nvmptcp_conformance.layers import mptcp, nvme_tcp
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, payload_length, run
from scapy.compat import raw
from scapy.layers.inet import TCP

CHAPTER = Path(__file__).parents[3] / "spec" / "compatibility.rst"
NETWORKS = ["Clean path", "Options removed from the SYN", "Options removed from the SYN/ACK",
            "Options removed from the third ACK", "Options removed from data, from the first on",
            "Options removed from data, later", "SYNs with MP_CAPABLE dropped"]


@pytest.fixture(scope="module")
def matrix(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("compatibility", "matrix", tmp_path_factory.mktemp("matrix"), topology="paths = 2",
               capture=True)


def specified() -> dict[str, list[str]]:
    """Network → the row of the chapter's matrix, the numbers of notes left out."""
    table = CHAPTER.read_text().partition(":name: compatibility-matrix-table")[2]
    rows = re.findall(r"^   \* - (.+)\n((?:     - .+\n)+)", table, re.MULTILINE)
    return {network: re.findall(r"- (\w)(?: \(\d\))?\n", cells) for network, cells in rows[1:8]}


def test_the_matrix_is_what_is_tried() -> None:
    """Fails if the chapter gets a row or a column that the situation doesn't try."""
    assert list(specified()) == NETWORKS
    assert {len(cells) for cells in specified().values()} == {7}


@pytest.mark.requirement("TCPV-FALL-001", "TCPV-FALL-002", "TCPV-FALL-004")
@pytest.mark.parametrize("network", NETWORKS)
def test_matrix(matrix: Situation, network: str) -> None:
    """Fails if a connection is TCP instead of MPTCP or the other way round, is refused without
    MPREQ or isn't with it, or if data that went over it came back wrong.
    """
    assert matrix.data["cells"][network] == specified()[network]


@pytest.mark.requirement("TCPV-COMP-001")
def test_record_format(matrix: Situation) -> None:
    """RECFMT of the logs of ports with TCPV 0h and 1h. Fails if the variant changed the format."""
    assert matrix.data["recfmt"] == {"old": "0000", "new": "0000", "required": "0000"}


@pytest.mark.requirement("TCPV-COMP-002")
def test_pdu_format_version(matrix: Situation) -> None:
    """PFV of every ICReq and ICResp. Fails if MPTCP connections had another one."""
    versions: dict[tuple[type, bool], set[int]] = {}
    for segment in matrix.segments:
        if payload_length(segment) != nvme_tcp.ICReq.header_size:
            continue
        pdu = nvme_tcp.NVMeTCP(raw(segment[TCP].payload))
        if isinstance(pdu, (nvme_tcp.ICReq, nvme_tcp.ICResp)):
            over_mptcp = bool(mptcp.mptcp_options(segment))
            versions.setdefault((type(pdu), over_mptcp), set()).add(pdu.pfv)
    assert versions == {(form, over_mptcp): {0} for form in (nvme_tcp.ICReq, nvme_tcp.ICResp)
                        for over_mptcp in (False, True)}
