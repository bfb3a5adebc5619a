# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios of the model: their tables, what the program gets, errors that name file and key."""

import json
import re
from pathlib import Path

import pytest
from nvmptcp_conformance.perf import scenario
from nvmptcp_lab.errors import UsageError
from nvmptcp_model import schema
from nvmptcp_model.cell import document


def _load(tmp_path: Path, text: str) -> scenario.Scenario:
    (tmp_path / "mine.toml").write_text(text)
    return scenario.load(tmp_path / "mine.toml", schema.ModelSettings)


def _settings(tmp_path: Path, text: str) -> schema.ModelSettings:
    (cell,) = _load(tmp_path, "title = 't'\n" + text).cells
    assert isinstance(cell.settings, schema.ModelSettings)
    return cell.settings


@pytest.mark.parametrize("name", schema.all_names())
def test_shipped_scenarios_make_cells_that_all_differ(name: str) -> None:
    cells = schema.find(name).cells
    documents = set()
    for cell in cells:
        assert isinstance(cell.settings, schema.ModelSettings)
        documents.add(json.dumps(document(cell.settings, 1)))
    # Whether kernels are separate is the same to the model.
    pairs = sum("separate kernels" in cell.name for cell in cells)
    assert len(documents) == len(cells) - pairs


OWN_KERNELS = """
[topology]
rate = "1gbit"
path = [{ delay = "100us" }, { rate = "500mbit", to_target = { loss = "1%", limit = 7 } }]
[association]
hosts = 4
separate_kernels = true
"""


def test_hosts_on_kernels_of_their_own_have_links_of_their_own(tmp_path: Path) -> None:
    """As the lab links them: netem at the host, and a queue at the target's link."""
    found = document(_settings(tmp_path, OWN_KERNELS), 1)
    assert (found["fabric"]["kind"], found["fabric"]["hosts"]) == ("switch", 4)
    own = [link["to_target"] for link in found["fabric"]["host_links"]]
    assert [(end["rate_bps"], end["delay_us"], end["loss"], end["limit"]) for end in own] == [
        (10**9, 100, 0, 1000), (5 * 10**8, 0, 0.01, 7)]
    assert not any(link["to_host"]["rate_bps"] for link in found["fabric"]["host_links"])
    queues = [path["to_target"] for path in found["paths"]]
    assert [(end["rate_bps"], end["delay_us"], end["loss"], end["limit"]) for end in queues] == [
        (10**9, 0, 0, 1000), (5 * 10**8, 0, 0, 7)]
    assert [path["to_host"]["delay_us"] for path in found["paths"]] == [100, 0]


@pytest.mark.parametrize(("text", "key"), [
    ("[[event]]\nat = 0.5\npath = 1\nlink = 'down'", "event"),
    ("[topology]\nfamily = 'ipv6'", "topology.family"),
])
def test_what_such_hosts_cannot_have(tmp_path: Path, text: str, key: str) -> None:
    wanted = text + "\n[association]\nhosts = 4\nseparate_kernels = true"
    with pytest.raises(UsageError, match=f"^{re.escape(key)}: .*separate_kernels"):
        document(_settings(tmp_path, wanted), 1)


def test_what_the_program_gets(tmp_path: Path) -> None:
    found = document(_settings(tmp_path, """
[topology]
rate = "1gbit"
path = [{ delay = "1ms", jitter = "100us" }, { to_host = { loss = "0.5%", limit = 7 } }]
mptcp = { scheduler = "blest" }
sysctl = { "net.ipv4.tcp_ecn" = 1 }
[association]
hosts = 3
[fio]
bssplit = "4k/60:1M/40"
rate_mib_s = 1.5
[device]
read_us = 80
[attributes]
"ns3::TcpLinuxSocket::X" = true
[[event]]
at = 1
path = 2
loss = "1%"
every = 2
times = 2
[[event]]
at = 2
path = 1
link = "down"
"""), 5)
    assert found["seed"] == 5
    assert found["paths"][0]["to_host"] == {
        "rate_bps": 10**9, "delay_us": 1000, "jitter_us": 100, "loss": 0, "limit": 1000,
        "ecn_threshold": None}
    assert (found["paths"][1]["to_host"]["loss"], found["paths"][1]["to_host"]["limit"],
            found["paths"][1]["to_target"]["loss"]) == (0.005, 7, 0)
    assert found["mptcp"]["scheduler"] == "blest"
    assert found["sysctl"] == {"net.ipv4.tcp_ecn": "1"}
    assert (found["association"]["ports"], found["association"]["hosts"]) == (2, 3)
    assert found["fio"]["bssplit"] == [[4096, 60], [2**20, 40]]
    assert found["fio"]["rate_bytes_s"] == 1.5 * 2**20
    assert found["device"]["read_us"] == 80
    assert found["attributes"] == {"ns3::TcpLinuxSocket::X": "true"}
    assert [(event["at"], event["path"], event["link"]) for event in found["events"]] == [
        (1, 1, None), (2, 0, "down"), (3, 1, None)]
    assert found["events"][0]["to_target"]["loss"] == 0.01
    assert found["fabric"] is None


def test_a_fabric(tmp_path: Path) -> None:
    found = document(_settings(tmp_path, """
association = { hosts = 300 }
[fabric]
kind = "leaf-spine"
spines = 4
host_rate = "25gbit"
ecn_threshold = 65
"""), 1)
    assert found["fabric"]["hosts"] == 300
    links = found["fabric"]["host_links"]
    assert len(links) == len(found["paths"])
    assert {link[way]["rate_bps"] for link in links for way in ("to_target", "to_host")} == {
        25 * 10**9}
    assert {found["fabric"]["uplink"]["ecn_threshold"],
            found["paths"][0]["to_host"]["ecn_threshold"]} == {65}


@pytest.mark.parametrize(("text", "line", "words"), [
    ("[fabric]\nkind = 'ring'", 3, "fabric.kind: input should be 'links', 'switch' or 'leaf-spine"),
    ("[fabric]\nspines = 2", 3, "fabric.spines: needs fabric.kind ="),
    ("[fabric]\nkind = 'switch'\nhost_rate = '1gb'", 4, "fabric.host_rate: '1gb' is not a rate"),
    ("[fabric]\nkind = 'switch'\ncolour = 1", 4, "fabric.colour: unknown key; known here: kind"),
    ("[device]\nread_us = -1", 3, "device.read_us: input should be greater than or equal to 0"),
    ("[attributes]\nFoo = 1", 3, "attributes.Foo: is not of the form ns3::CLASS::ATTRIBUTE"),
    ("[topology]\nfamily = 'ipv6'\n[fabric]\nkind = 'switch'", 3,
     "topology.family: the model's fabrics have IPv4 only"),
    ("[association]\nhosts = 20000", 3, "association.hosts: input should be less than or equal to"),
    ("[association]\niopolicy = 'best'", 3, "association.iopolicy: input should be 'numa'"),
    ("[devices]\nbonding = '802.3ad'\n[association]\nports = 1\n[fabric]\nkind = 'switch'", 3,
     "devices.bonding: not together with a fabric"),
    ("[fibre]\nx = 1", 2, "fibre: unknown key; known here: title, answers, seeds, case, topology"),
])
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        _load(tmp_path, f"title = 't'\n{text}")
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'mine.toml'}:{line}: ")
    assert words in message
    assert "\n" not in message


def test_the_lab_refuses_the_tables_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("title = 't'\n[device]\nread_us = 80\n")
    with pytest.raises(UsageError, match=r"mine\.toml:2: device: unknown key"):
        scenario.load(tmp_path / "mine.toml")


def test_changes_go_on_top_of_the_file_and_of_its_cases(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("""
title = "t"
[fio]
bs = ["4k", "8k"]
[[case.a]]
name = "one"
fio.iodepth = 1
[[case.a]]
name = "two"
fio.iodepth = 2
""")
    found = schema.find(str(tmp_path / "mine.toml"), {"fio": {"iodepth": 9, "bs": "32k"}})
    assert [cell.name for cell in found.cells] == ["one", "two"]
    assert {(cell.settings.fio.iodepth, cell.settings.fio.bs) for cell in found.cells} == {
        (9, "32k")}
    swept = schema.find(str(tmp_path / "mine.toml"), {"fio": {"numjobs": [1, 2]}})
    assert [cell.settings.fio.numjobs for cell in swept.cells] == [1, 2] * 4
