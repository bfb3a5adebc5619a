# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab perf run --inventory`: scenarios on machines that are reached over ssh."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import COMMAND, one_line_error
from nvmptcp_conformance.perf import machines, scenario
from nvmptcp_lab import boot, topology
from nvmptcp_lab.build import ensure_kernel
from nvmptcp_lab.errors import UsageError
from nvmptcp_lab.guest import machine

PATHS = topology.from_table({"paths": 2, "rate": "100mbit"}, "test")
INVENTORY = """
[target]
ssh = "storage"
addresses = ["10.0.1.2", "10.0.2.2"]
rate = "100mbit"

[[host]]
ssh = "client"
"""
TINY = """
title = "Tiny"
topology = { paths = 2 }
[association]
ports = 1
transport = ["tcp", "mptcp"]
[fio]
rw = "randread"
bs = "32k"
runtime = 1
iodepth = 16
numjobs = 1
"""

Machines = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def machines_run(tmp_path: Path) -> Machines:
    """`perf run tiny.toml --inventory machines.toml` on two namespaces of a guest.

    before: commands for the guest. Returns exit code, output, and what is left there.
    """
    def run(inventory: str = INVENTORY, before: str = "") -> tuple[int, str, dict[str, Any]]:
        (tmp_path / "machines.toml").write_text(inventory)
        (tmp_path / "tiny.toml").write_text(TINY)
        (tmp_path / "before").write_text(before)
        script = Path(__file__).with_name("machines_in_guest.py")
        with (tmp_path / "output").open("wb") as output:
            done = boot.run(boot.Guest(
                ensure_kernel(), [sys.executable, str(script), str(tmp_path), *COMMAND, "perf",
                                  "run", "tiny.toml", "--inventory", "machines.toml", "--cache",
                                  "kept", "--output", "found"],
                topology=PATHS, writable=[tmp_path], memory="2G", seed=1),
                stdout=output, stderr=output)
        text = (tmp_path / "output").read_text()
        assert not done.report
        return done.exit_code, text, json.loads((tmp_path / "left.json").read_text())

    return run


NOTHING: dict[str, list[str]] = {"subsystems": [], "ports": [], "null_blk": [],
                                 "controllers": [], "tmp": []}


def test_cells_are_measured_over_ssh_and_nothing_stays(machines_run: Machines,
                                                       tmp_path: Path) -> None:
    code, text, left = machines_run()
    assert code == 0, text
    assert left == NOTHING
    found = json.loads((tmp_path / "found" / "results.json").read_text())
    assert found["source"].startswith("machines over ssh: target Linux 7.")
    by_transport = {cell["axes"]["association.transport"]: cell for cell in found["cells"]}
    tcp, mptcp = by_transport["transport tcp"], by_transport["transport mptcp"]
    # One path for TCP, both for MPTCP, as the limits that follow from the inventory's rate.
    for cell, paths in ((tcp, 1), (mptcp, 2)):
        limit = cell["limit_mib_s"]["read"]
        assert limit == pytest.approx(11.4 * paths, rel=0.03)
        assert 0.85 * limit < cell["figures"]["read_mib_s"]["median"] <= limit
        assert cell["figures"]["retransmitted_segments"]["median"] >= 0
    assert (tcp["flows"], mptcp["flows"]) == (1, 2)


def test_a_target_in_use_is_left_alone(machines_run: Machines) -> None:
    code, text, left = machines_run(before="mkdir /sys/kernel/config/nvmet/ports/1")
    assert code == 1
    assert "storage: /sys/kernel/config/nvmet/ports/1 exists already: the target is in use" in text
    assert "Traceback" not in text
    assert left == {**NOTHING, "ports": ["1"]}


def test_what_fails_on_a_machine_is_told_and_taken_down(machines_run: Machines) -> None:
    code, text, left = machines_run(INVENTORY.replace('["10.0.1.2"', '["10.9.9.9"'))
    assert code == 1
    assert "storage: [Errno 99] Cannot assign requested address" in text
    assert left == NOTHING


def test_a_missing_block_device_is_told_before_anything_is_made(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "MODULES", dict.fromkeys(machine.MODULES, tmp_path))
    monkeypatch.setattr(machine, "SUBSYSTEMS", tmp_path / "subsystems")
    monkeypatch.setattr(machine, "PORTS", tmp_path / "ports")
    monkeypatch.setattr("sys.argv", ["machine", "offer"])
    (tmp_path / "cell.json").write_text(json.dumps(
        {"hosts": 1, "traddrs": ["10.0.1.2"], "block_devices": ["/dev/no-such-device"]}))
    assert machine.main() == 1
    assert capsys.readouterr().err == "/dev/no-such-device: no such block device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["cell.json"]


def test_a_machine_that_does_not_answer_is_told(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text(INVENTORY.replace("storage", "no-such.invalid"))
    (tmp_path / "tiny.toml").write_text(TINY)
    done = subprocess.run([*COMMAND, "perf", "run", "tiny.toml", "--inventory", "machines.toml"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no-such.invalid: ssh: " in one_line_error(done)


@pytest.mark.parametrize(("text", "words"), [
    ("", "target: Field required"),
    (INVENTORY.replace("ssh = \"client\"", "shh = \"client\""), "host.0.ssh: Field required"),
    (INVENTORY + "port = 1\n", "host.0.port: Extra inputs"),
    (INVENTORY.replace("100mbit", "fast"), "target.rate: "),
    (INVENTORY.replace('["10.0.1.2", "10.0.2.2"]', "[]"), "target.addresses: "),
    ("[target", "not TOML: ")])
def test_a_bad_inventory_is_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        machines.load(tmp_path / "bad.toml")
    assert str(error.value).startswith(f"{tmp_path}/bad.toml: {words}")


def test_a_missing_inventory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: can't read the inventory"):
        machines.load(tmp_path / "none.toml")


@pytest.mark.parametrize(("change", "words"), [
    ('topology = { paths = 2, loss = "1%" }', "netem settings: the machines' paths"),
    ("topology = { paths = 2, mtu = 9000 }", "mtu, [mptcp] or [sysctl]"),
    ("topology = { paths = 3 }", "3 paths, but the inventory has 2 addresses"),
    ("topology = { paths = 2 }\ndevices = { gso = false }", "[devices]: "),
    ("topology = { paths = 2 }\nevent = [{ at = 0.5, path = 1, link = \"down\" }]",
     "[[event]]: only the lab")])
def test_what_machines_cannot_do_is_told(tmp_path: Path, change: str, words: str) -> None:
    (tmp_path / "machines.toml").write_text(INVENTORY)
    (tmp_path / "tiny.toml").write_text(TINY.replace("topology = { paths = 2 }", change))
    one = scenario.find(str(tmp_path / "tiny.toml"))
    with pytest.raises(UsageError) as error:
        machines.check(machines.load(tmp_path / "machines.toml"), [one])
    assert str(error.value).startswith("tiny: ")
    assert words in str(error.value)


def test_options_that_exclude_one_another_are_told(tmp_path: Path) -> None:
    (tmp_path / "machines.toml").write_text(INVENTORY)
    (tmp_path / "tiny.toml").write_text(TINY)
    done = subprocess.run([*COMMAND, "perf", "run", "tiny.toml", "--inventory", "machines.toml",
                           "--separate-kernels"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--inventory: not together with" in one_line_error(done)
