# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvme-mptcp-cell` by itself: what a wrong cell gets is one line that names the key."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("model_fixtures",)

ENDS = {"to_target": {"rate_bps": 1e8}, "to_host": {"rate_bps": 1e8}}
MPTCP = {"association": {"transport": "mptcp"}}


def _program(built: Path, text: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([built / "nvme-mptcp-cell"], input=text, capture_output=True, text=True,
                          timeout=60)


@pytest.mark.parametrize(("cell", "words"), [
    ({"paths": 3}, "paths: must be a list"),
    ({"paths": []}, "paths: there must be from 1 to 250 of them"),
    ({"paths": [{**ENDS, "to_host": {"rate_bps": -1}}]},
     "paths[0].to_host.rate_bps: must be a number from 1000 to 10000000000000, not -1"),
    ({"colour": 1}, "colour: unknown key"),
    ({"mtu": "big"}, 'mtu: must be a number from 576 to 65535, not "big"'),
    ({"seed": 1.5}, "seed: must be a whole number"),
    ({"family": "ipx"}, "family: must be one of ipv4, ipv6, not ipx"),
    ({"association": {"hosts": 0}}, "association.hosts: must be a number from 1 to 100000, not 0"),
    ({"association": {"connect_options": "queue_size=x"}},
     "association.connect_options: queue_size can't be x"),
    ({"fio": {"bssplit": [[4096, 60]]}}, "fio.bssplit: the shares make 60 percent, not 100"),
    ({"events": [{"at": 1, "path": 7}]}, "events[0].path: must be a number from 0 to 0, not 7"),
    ({"sysctl": {"net.ipv4.tcp_rmem": "1 2"}},
     "sysctl.net.ipv4.tcp_rmem: must be three growing numbers, not 1 2"),
    ({"sysctl": {"net.ipv4.tcp_sack": 0}}, "sysctl.net.ipv4.tcp_sack: the model has"),
    ({"sysctl": {"net.ipv4.tcp_congestion_control": "vegas"}},
     "sysctl.net.ipv4.tcp_congestion_control: must be bbr, cubic or reno, not vegas"),
    ({"sysctl": {"net.ipv4.tcp_rto_min_us": "5 ms"}},
     "sysctl.net.ipv4.tcp_rto_min_us: must be a number from 1000 to 120000000, not 5 ms"),
    ({"sysctl": {"net.mptcp.stale_loss_cnt": -1}},
     "sysctl.net.mptcp.stale_loss_cnt: must be a number from 0 to 4294967295, not -1"),
    ({"attributes": {"ns3::Nothing::X": "1"}},
     "attributes.ns3::Nothing::X: there is no such attribute"),
    ({"attributes": {"ns3::TcpLinuxSocket::Gso": "perhaps"}},
     "attributes.ns3::TcpLinuxSocket::Gso: can't be perhaps, it is bool"),
    ({"attributes": {"ns3::TcpLinuxSocket::Rmem": "3 2 1"}},
     "attributes.ns3::TcpLinuxSocket::Rmem: must be three growing numbers, not 3 2 1"),
    ({"attributes": {"ns3::NetemNetDevice::Loss": "0.5"}},
     "attributes.ns3::NetemNetDevice::Loss: has no effect here, set loss of a path"),
    ({**MPTCP, "attributes": {"ns3::MptcpPathManager::CongestionControl": "ns3::Node"}},
     "attributes.ns3::MptcpPathManager::CongestionControl: ns3::Node is no ns3::TcpCongestionOps"),
    ({**MPTCP, "mptcp": {"scheduler": "ns3::Node"}}, "mptcp.scheduler: there is no scheduler"),
    ({"fabric": {"host_links": [ENDS]}}, "fabric.kind: is missing"),
    ({"fabric": {"kind": "switch", "host_links": []}},
     "fabric.host_links: there must be as many as paths"),
    ({"fabric": {"kind": "switch", "host_links": [ENDS, {"to_host": {}}]}},
     "fabric.host_links[1].to_target: is missing"),
    ({"fabric": {"kind": "switch", "host_links": [ENDS]}, "family": "ipv6"},
     "family: a fabric has ipv4 only"),
    ({"fabric": {"kind": "switch", "host_links": [ENDS]}, "devices": {"bonding": "802.3ad"}},
     "devices.bonding: not together with a fabric"),
    ({"output": {"pcap": "/nonexistent/x"}}, "output.pcap: no files can be made in /nonexistent"),
])
def test_bad_cells_are_refused_by_name(built: Path, cell: dict[str, Any], words: str) -> None:
    done = _program(built, json.dumps({"paths": [ENDS], **cell}))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"nvme-mptcp-cell: {words}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '"paths"'])
def test_what_is_no_cell_is_refused(built: Path, text: str) -> None:
    done = _program(built, text)
    assert done.returncode == 2
    assert done.stderr.startswith("nvme-mptcp-cell: the cell: ")
    assert done.stderr.count("\n") == 1


def test_a_link_without_a_way_through_fails(built: Path) -> None:
    dead = {**ENDS, "to_target": {"rate_bps": 1e8, "loss": 1}}
    done = _program(built, json.dumps({"paths": [dead], "fio": {"runtime": 0.1}}))
    assert done.returncode == 1
    assert done.stderr == "nvme-mptcp-cell: not all controllers could be connected\n"


@pytest.mark.parametrize("mode", ["balance-rr", "802.3ad"])
def test_mptcp_over_a_bond_has_one_path(built: Path, mode: str) -> None:
    cell = {"paths": [ENDS, ENDS], **MPTCP, "devices": {"bonding": mode},
            "mptcp": {"host_endpoints": "fullmesh"}, "fio": {"runtime": 0.1}}
    done = _program(built, json.dumps(cell))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
