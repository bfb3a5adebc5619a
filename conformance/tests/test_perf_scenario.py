# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenario files: their matrix, and errors that name file, line and key."""

import tomllib
from pathlib import Path

import pytest
from nvmptcp_conformance.perf import lab_cell, scenario
from nvmptcp_conformance.perf.toml_lines import Lines
from nvmptcp_lab.errors import UsageError


def _load(tmp_path: Path, text: str) -> scenario.Scenario:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return scenario.load(file)


@pytest.mark.parametrize("name", scenario.names())
def test_shipped_scenarios_load_and_their_cells_can_be_measured(name: str) -> None:
    found = scenario.find(name)
    assert found.cells
    for cell in found.cells:
        assert lab_cell.lab_cell(cell.settings).spec()
    assert len({cell.name for cell in found.cells}) == len(found.cells)
    keys = {lab_cell.key(cell.settings, 1, "") for cell in found.cells}
    assert len(keys) == len(found.cells), "two cells of the matrix are the same"


def test_each_open_question_in_public_is_one_that_a_scenario_answers() -> None:
    """All of them but the one for separate systems, which the lab doesn't do yet."""
    answers = " ".join(scenario.find(name).head.answers for name in scenario.names())
    for words in ("native multipath off", "4 KiB, 8 KiB, 32 KiB", "120 s", "one path lossy",
                  "slower", "shake off loss", "IP/NIC bonding",
                  "load balancers"):
        assert words in answers


def test_lists_and_cases_make_a_matrix(tmp_path: Path) -> None:
    found = _load(tmp_path, """
title = "Matrix"
seeds = 2
[topology]
paths = 2
rate = "10mbit"
loss = ["0%", "1%"]
[fio]
bs = ["4k", "8k"]
[case]
association = ["tcp numa", { name = "mine", association.ports = 1, fio.rw = "write" }]
""")
    assert found.head.seeds == 2
    assert len(found.cells) == 8
    assert found.cells[0].axes == {"association": "tcp numa", "topology.loss": "loss 0%",
                                   "fio.bs": "bs 4k"}
    last = found.cells[-1].settings
    assert (last.association.ports, last.fio.rw, last.fio.bs) == (1, "write", "8k")
    assert last.paths().links[1].to_host.loss == "1%"
    assert last.paths().links[1].to_host.rate == "10mbit"


def test_a_named_topology_and_keys_on_top(tmp_path: Path) -> None:
    found = _load(tmp_path, """
title = "Base"
topology = { base = "four-gigabit-lossy", loss = "1%", path = [{}, { rate = "10mbit" }] }
""")
    first, second = found.cells[0].settings.paths().links
    assert (first.to_host.rate, first.to_host.delay, first.to_host.loss) == (
        "1000mbit", "5ms", "1%")
    assert second.to_host.rate == "10mbit"


def test_events_become_commands_at_their_times(tmp_path: Path) -> None:
    found = _load(tmp_path, """
title = "Events"
topology = { paths = 2, rate = "10mbit", delay = "1ms" }
event = [{ at = 1, path = 2, link = "down", every = 2, times = 2 },
         { at = 2, path = 1, loss = "100%" }, { at = 2.5, path = 1, loss = "0%", rate = "5mbit" }]
""")
    events = lab_cell.lab_cell(found.cells[0].settings).events
    assert [at for at, _ in events] == [1, 2, 2.5, 3]
    assert events[0][1] == events[3][1] == "ip -n target link set path2 down"
    assert events[1][1].splitlines()[0] == (
        "tc -n host qdisc replace dev path1 root netem limit 1000 delay 1ms loss 100% rate 10mbit")
    assert events[2][1].endswith("target qdisc replace dev path1 root netem"
                                 " limit 1000 delay 1ms loss 0% rate 5mbit")


def test_offered_load_is_shared_by_the_jobs(tmp_path: Path) -> None:
    found = _load(tmp_path, """
title = "Rate"
[fio]
rate_mib_s = 80
numjobs = 2
rw = ["read", "rw"]
rwmixread = 75
""")
    options = [lab_cell.lab_cell(cell.settings).fio_options for cell in found.cells]
    assert f"--rate={40 * 2**20},{40 * 2**20}" in options[0]
    assert f"--rate={30 * 2**20},{10 * 2**20}" in options[1]


def test_the_key_is_that_of_all_a_result_follows_from(tmp_path: Path) -> None:
    first, second = _load(tmp_path, """
title = "Keys"
[association]
ports = 1
native_multipath = [true, false]
""").cells
    keys = {lab_cell.key(first.settings, 1, "k"), lab_cell.key(second.settings, 1, "k"),
            lab_cell.key(first.settings, 2, "k"), lab_cell.key(first.settings, 1, "l")}
    assert len(keys) == 4
    assert lab_cell.key(first.settings, 1, "k") in keys


@pytest.mark.parametrize(("text", "line", "words"), [
    ("title = 3", 1, "title: input should be a valid string, not 3"),
    ("[fio]", 1, "title: is missing"),
    ("title = 't'\nspeed = 1", 2, "speed: unknown key; known here: title, answers, seeds"),
    ("title = 't'\nseeds = 0", 2, "seeds: input should be greater than or equal to 1, not 0"),
    ("title = 't'\n[fio]\n\nbs = 'big'", 4, "fio.bs: string should match pattern"),
    ("title = 't'\n[fio]\nblock = '4k'", 3, "fio.block: unknown key; known here: rw"),
    ("title = 't'\n[fio]\niodepth = '4'", 3, "fio.iodepth: input should be a valid integer"),
    ("title = 't'\n[fio]\niodepth = [1, 2, 1]", 3, "fio.iodepth: a sweep needs values, each once"),
    ("title = 't'\n[fio]\niodepth = [1, 0]", 3, "fio.iodepth: input should be greater"),
    ("title = 't'\n[association]\ntransport = 'sctp'", 3, "should be 'tcp' or 'mptcp'"),
    ("title = 't'\n[association]\nports = 2", 3, "association.ports: is 2, but there are 1 paths"),
    ("title = 't'\n[topology]\npaths = 2\n[association]\nnative_multipath = false", 5,
     "association.native_multipath: false needs ports = 1"),
    ("title = 't'\n[devices]\nbonding = '802.3ad'", 3, "devices.bonding: needs association.ports"),
    ("title = 't'\n[topology]\nrate = '1gb'", 3, "topology.rate: '1gb' is not a rate"),
    ("title = 't'\n[[topology.path]]\n[[topology.path]]\nspeed = 1", 4,
     "topology.path.1.speed: unknown key"),
    ("title = 't'\n[topology]\nbase = 'five-gigabit'", 3, "'five-gigabit' is none of four-gigabit"),
    ("title = 't'\n[[event]]\nat = 1\npath = 1\nrate = '1mbit'\n[[event]]\nat = 1\npath = 9\n"
     "link = 'up'", 8,
     "event.1.path: is 9, but there are 1 paths"),
    ("title = 't'\n[[event]]\nat = 1\npath = 1", 2, "event.0: says nothing to do"),
    ("title = 't'\n[[event]]\nat = 11\npath = 1\nlink = 'up'", 3,
     "event.0.at: happens at 11 s, but fio runs for 10 s"),
    ("title = 't'\n[[event]]\nat = 1\npath = 1\nloss = '2'", 5, "event.0.loss: '2' is not a loss"),
    ("title = 't'\n[case]\nassociation = ['udp']", 3, "no case 'udp' in cases.toml"),
    ("title = 't'\n[[case.a]]\nfio.bs = '4k'", 2, "case.a.0: needs a name"),
    ("title = 't'\n[[case.a]]\nname = 'x'\nfoo = '4k'", 4, "case.a.0.foo: unknown key"),
    ("title = 't'\n[[case.a]]\nname = 'x'\n[[case.a]]\nname = 'y'\nfio.bs = 'big'", 6,
     "case.a.1.fio.bs: string should match"),
    ("title = 't'\n[fio]\nbs = ['4k', '8k']\n[[case.a]]\nname = 'x'\nfio.bs = '4k'", 4,
     "case.a.0: sets fio.bs, which is swept"),
    ("title = 't'\nfio = 3", 2, "fio: input should be a valid dictionary"),
])
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        _load(tmp_path, text)
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'mine.toml'}:{line}: ")
    assert words in message
    assert "\n" not in message


def test_what_is_no_toml_and_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine\.toml: not TOML: .*line 1"):
        _load(tmp_path, "title = \n")
    with pytest.raises(UsageError, match="no such scenario file, nor one of block-sizes"):
        scenario.find("missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not a text file"):
        scenario.load(tmp_path / "binary")


def test_lines_of_keys() -> None:
    text = """a = 1
[b]
c.d = 2
"e.f" = 3
[[g]]
h = 4
[[g]]
h = 5
[g.i]
j = 6
"""
    assert tomllib.loads(text)["g"][1]["i"]["j"] == 6
    lines = Lines(text)
    assert [lines.of(key) for key in (("a",), ("b", "c", "d"), ("b", "e.f"), ("g", 0, "h"),
                                      ("g", 1, "h"), ("g", 1, "i", "j"))] == [1, 3, 4, 6, 8, 10]
    assert lines.of(("b", "missing")) == 2
    assert lines.of(("missing",)) == 1
