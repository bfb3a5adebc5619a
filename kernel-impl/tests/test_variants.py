# SPDX-License-Identifier: GPL-2.0-or-later
"""Old and new hosts and targets in all pairs, and what the user space of today makes of it."""

import json
import shlex
from pathlib import Path

import pytest
from lab_helpers import Lab
from nvmptcp_lab import boot
from nvmptcp_lab.guest.fabrics import HOST_ID, HOST_NQN

TARGET = """
from nvmptcp_lab.guest import nvmet
subsystem = nvmet.subsystem(nvmet.null_block(64, True))
nvmet.add_port(nvmet.Port(1, "10.0.1.2", variant="{variant}", attributes="{attributes}"), subsystem)
"""


def _target(variant: str, attributes: str = "adda") -> str:
    """The shell command that sets up a target with one port."""
    program = TARGET.format(variant=variant, attributes=attributes)
    return shlex.join([*boot.python("x")[:-2], "-c", program])


def _guest(lab: Lab, script: str, *options: object) -> str:
    done = lab("run", *options, "--", "sh", "-ec", script)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def _connect(variant: str) -> str:
    option = f",tcp_variant={variant}" if variant else ""
    return ("on host sh -c 'printf %s transport=tcp,traddr=10.0.1.2,trsvcid=4420,"
            "nqn=nqn.2026-11.org.example:nvmptcp,"
            f"hostnqn={HOST_NQN},hostid={HOST_ID}{option} >/dev/nvme-fabrics'")


@pytest.mark.parametrize(("target", "host", "in_effect"), [
    ("mptcp", "mptcp", "mptcp 4"),
    ("mptcp", "", "tcp 1"),
    ("tcp", "mptcp", "tcp 1"),
    ("tcp", "tcp", "tcp 1"),
])
def test_every_pair_connects(lab: Lab, target: str, host: str, in_effect: str) -> None:
    out = _guest(lab, f"{_target(target)}; {_connect(host)}; sleep 1;"
                      " cat /sys/class/nvme/nvme0/tcp_variant /sys/class/nvme/nvme0/tcp_queues")
    assert out.splitlines() == [host or "tcp", f"0 {in_effect}", f"1 {in_effect}"]


def test_middlebox_that_strips_the_option(lab: Lab) -> None:
    """A port that doesn't require MPTCP serves the host over TCP; one that does refuses it."""
    strip = ("on target nft 'add table ip t; add chain ip t c {type filter hook prerouting"
             " priority -300;}; add rule ip t c tcp option mptcp exists reset tcp option mptcp'")
    out = _guest(lab, f"{_target('mptcp')}; {strip}; {_connect('mptcp')};"
                      " cat /sys/class/nvme/nvme0/tcp_queues")
    assert out.splitlines() == ["0 tcp 1", "1 tcp 1"]
    out = _guest(lab, f"{_target('mptcp', 'adda,mpreq')}; {strip};"
                      f" {_connect('mptcp')} 2>/dev/null && echo connected || echo refused;"
                      " dmesg | grep -c 'MPTCP is required'")
    assert out.split()[0] == "refused"
    assert int(out.split()[1]) >= 1


def test_stock_nvme_cli_uses_the_port_as_plain_tcp(lab: Lab) -> None:
    """An old host's tools: the entry is one of TCP to them, and connecting to it works."""
    identity = f"--hostnqn={HOST_NQN} --hostid={HOST_ID}"
    out = _guest(lab, f"{_target('mptcp')};"
                      f" on host nvme discover -t tcp -a 10.0.1.2 -s 4420 {identity} -o json;"
                      " echo ===;"
                      f" on host nvme connect-all -t tcp -a 10.0.1.2 -s 4420 {identity};"
                      " cat /sys/class/nvme/nvme*/tcp_queues")
    log, queues = out.split("===")
    records = json.loads(log)["records"]
    entries = [entry for entry in records if entry["subtype"] == "nvme subsystem"]
    assert [(entry["trtype"], entry["traddr"], entry["sectype"]) for entry in entries] == [
        ("tcp", "10.0.1.2", "none")]
    assert "1 tcp 1" in queues.splitlines()
    assert "mptcp" not in queues


def test_last_path_but_one_may_go(lab: Lab, tmp_path: Path) -> None:
    """Three of four paths are cut for good while fio runs: no I/O error, the association stays."""
    script = f"""
        {_target("mptcp")}; {_connect("mptcp")}; sleep 1
        fio --name=x --filename=/dev/nvme0n1 --rw=randrw --bs=16k --rate_iops=500 --iodepth=16 \
            --ioengine=libaio --direct=1 --eta=never --time_based --runtime=20 \
            --clocksource=clock_gettime --output=/tmp/fio --output-format=json & fio=$!
        sleep 3; for path in 1 2 3; do ip -n target link set path$path down; sleep 2; done
        wait $fio
        cat /sys/class/nvme/nvme0/state; sed -n '/^{{/,$p' /tmp/fio
    """
    state, _, report = _guest(lab, script).partition("\n")
    assert state == "live"
    job = json.loads(report)["jobs"][0]
    assert job["error"] == 0
    assert job["read"]["total_ios"] > 5_000


def test_reset_and_recovery_in_a_namespace(lab: Lab) -> None:
    """A reset, then a target that goes away and returns: all queues get their subflows again."""
    program = """
import time
from nvmptcp_lab.guest import fabrics, nvmet
subsystem = nvmet.subsystem(nvmet.null_block(64, True))
port = nvmet.Port(1, "10.0.1.2", variant="mptcp", attributes="adda")
nvmet.add_port(port, subsystem)
controller = fabrics.connect("10.0.1.2", variant="mptcp")

def show():
    print(controller.attribute("state"), *(flows for _, _, flows in controller.queues()))

time.sleep(1)
show()
nvmet.write(controller.path / "reset_controller", 1)
time.sleep(2)
show()
nvmet.remove_port(port)
time.sleep(3)
print(controller.attribute("state"))
nvmet.add_port(port, subsystem)
time.sleep(15)
show()
controller.disconnect()
"""
    out = _guest(lab, shlex.join([*boot.python("x")[:-2], "-c", program]))
    assert out.splitlines() == ["live 4 4", "live 4 4", "connecting", "live 4 4"]
