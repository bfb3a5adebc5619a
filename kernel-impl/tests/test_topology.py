# SPDX-License-Identifier: GPL-2.0-or-later
"""Topologies: what a file may say, and that each path really is its own link, both ways."""

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import Lab, one_line_error
from nvmptcp_lab import topology, verbs
from nvmptcp_lab.errors import UsageError


@pytest.mark.parametrize("path", sorted(verbs.TOPOLOGIES.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_topologies_load(path: Path) -> None:
    assert len(topology.load(path).links) == 4


def test_directions_and_paths_override_the_defaults() -> None:
    text = """
        rate = "1gbit"
        loss = "1%"
        [[path]]
        [[path]]
        rate = "100mbit"
        to_host = { loss = "0%", delay = "2ms", jitter = "1ms" }
    """
    first, second = topology.from_table(tomllib.loads(text), "test").links
    assert first.to_host.netem() == first.to_target.netem() == "limit 1000 loss 1% rate 1gbit"
    assert second.to_target.netem() == "limit 1000 loss 1% rate 100mbit"
    assert second.to_host.netem() == "limit 1000 delay 2ms 1ms loss 0% rate 100mbit"


@pytest.mark.parametrize(("text", "where", "why"), [
    ('rates = "1gbit"', "rates", "unknown key"),
    ('rate = "1gb"', "rate", "is not a rate"),
    ("rate = 1000", "rate", "is not a rate"),
    ('rate = "0mbit"', "rate", "above 0"),
    ('delay = "5"', "delay", "is not a time"),
    ('jitter = "5ms"', "jitter", "needs a delay"),
    ('loss = "101%"', "loss", "more than 100%"),
    ("limit = 0", "limit", "whole number from 1"),
    ("paths = 0", "paths", "whole number from 1 to 16"),
    ("paths = 17", "paths", "whole number from 1 to 16"),
    ("paths = true", "paths", "whole number"),
    ("paths = 3\n[[path]]", "paths", "there are 1 [[path]]s"),
    ("path = 3", "path", "[[path]] tables"),
    ('[[path]]\n[[path]]\nrate = "x"', "path[2].rate", "is not a rate"),
    ("[[path]]\nbackup = 1", "path[1].backup", "true or false"),
    ("[[path]]\nbackup = true\n[mptcp]\ntarget_endpoints = 'none'", "path[1].backup", "endpoints"),
    ("[[path]]\nto_host = { los = 1 }", "path[1].to_host.los", "unknown key"),
    ('family = "ipx"', "family", "one of ipv4, ipv6"),
    ("mtu = 100", "mtu", "1280"),
    ('[mptcp]\nhost_endpoints = "all"', "mptcp.host_endpoints", "none, subflow, fullmesh"),
    ("[mptcp]\nsubflows = -1", "mptcp.subflows", "0 to 64"),
    ("[sysctl]\n'kernel.panic' = 1", "sysctl.kernel.panic", "net."),
])
def test_errors_name_file_and_key(text: str, where: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        topology.from_table(tomllib.loads(text), "some.toml")
    assert str(caught.value).startswith(f"some.toml: {where}: ")
    assert why in str(caught.value)


def test_errors_reach_the_command_line(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("paths = \n")
    done = lab("run", "--topology", "bad.toml", "true")
    assert done.returncode == 2
    assert "bad.toml: not TOML" in one_line_error(done)


def test_what_the_guest_refuses_is_one_clear_error(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('[mptcp]\nscheduler = "no-such-scheduler"\n')
    done = lab("run", "--topology", "odd.toml", "true")
    assert done.returncode == 1
    assert "the topology could not be built" in one_line_error(done)


def test_first_packet_of_each_path_arrives(lab: Lab) -> None:
    """A link that is not ready drops it, and ARP tries again a second later."""
    script = "for i in 1 2 3 4; do on host ping -q -c 1 -W 5 10.0.$i.2; done"
    done = lab("run", "--topology", "four-gigabit", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout
    worst = [float(words.split("/")[-2]) for words in done.stdout.splitlines() if "rtt" in words]
    assert len(worst) == 4
    assert max(worst) < 10, done.stdout


def single_association(lab: Lab, directory: Path, topology: str) -> Any:
    """What `perf` finds for one MPTCP association over the topology."""
    (directory / "paths.toml").write_text(topology)
    done = lab("perf", "--transport", "mptcp", "--topology", "paths.toml", "--ports", 1,
               "--rw", "randread,randwrite", "--runtime", 1, "--json", "out.json")
    assert done.returncode == 0, done.stderr
    return json.loads((directory / "out.json").read_text())


def carried(flows: list[dict[str, Any]], *directions: str) -> Counter[str]:
    """Bytes by the host's address."""
    count = Counter[str]()
    for flow in flows:
        count[flow["local"].partition("%")[0]] += sum(flow[each] for each in directions)
    return count


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("endpoints", ["none", "subflow"])
def test_each_path_uses_its_own_link_both_ways(
    lab: Lab, tmp_path: Path, family: str, endpoints: str
) -> None:
    """Four subflows; the links' own counters show a quarter of the data on each, each way."""
    result = single_association(lab, tmp_path, (
        f'paths = 4\nrate = "1000mbit"\nfamily = "{family}"\n[mptcp]\nsubflows = 3\n'
        f'host_endpoints = "{endpoints}"\n'
        f'target_endpoints = "{"none" if endpoints == "subflow" else "signal"}"\n'))
    for rw, direction in (("randread", "bytes_received"), ("randwrite", "bytes_sent")):
        counts = carried(result["subflows"][rw], direction).values()
        share = [count / sum(counts) for count in counts]
        assert len(share) == 4
        assert min(share) > 0.23, (rw, share)
    assert result["read_mib_s"] > 4 * 105
    assert result["write_mib_s"] > 4 * 105


@pytest.mark.parametrize(("host", "target"), [("none", "signal"), ("subflow", "none")])
def test_a_backup_path_is_left_alone_while_others_work(
    lab: Lab, tmp_path: Path, host: str, target: str
) -> None:
    result = single_association(lab, tmp_path, (
        f'rate = "1000mbit"\npath = [{{}}, {{}}, {{ backup = true }}]\n'
        f'[mptcp]\nhost_endpoints = "{host}"\ntarget_endpoints = "{target}"\n'))
    for rw in ("randread", "randwrite"):
        counts = carried(result["subflows"][rw], "bytes_sent", "bytes_received")
        assert counts["10.0.3.1"] < 10_000 < min(counts["10.0.1.1"], counts["10.0.2.1"]), counts
        assert len(counts) == 3
    assert 2 * 105 < result["read_mib_s"] < 2 * 115
