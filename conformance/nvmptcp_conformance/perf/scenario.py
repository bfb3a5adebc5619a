# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios: what to measure, one TOML file each.

A scenario describes paths, events on them, associations and an fio job, without saying what runs
it: the kernel lab does, and models may. Lists and cases make a matrix of cells of it.
"""

import copy
import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from nvmptcp_lab import tomlfile, units
from nvmptcp_lab.errors import UsageError
from nvmptcp_lab.topology import MAX_PATHS, Link, Topology, from_table
from nvmptcp_lab.verbs import TOPOLOGIES
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .toml_lines import Lines, Location

SCENARIOS = Path(__file__).with_name("scenarios")
CASES = Path(__file__).with_name("cases.toml")
NOTHING: Mapping[str, Any] = {}


class Section(BaseModel):
    """A table of a scenario file. `description` of each key is its documentation, too."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Head(Section):
    """The keys at the top of the file."""

    title: str = Field(min_length=1, description="one line, for tables and plots")
    answers: str = Field("", description="the question that the scenario answers, and whose it is")
    seeds: int = Field(1, ge=1, le=100, description="runs of each cell, with the seeds 1, 2, …;"
                       " medians count. Without loss or jitter 1 is enough")


class Association(Section):
    """`[association]`: the target's ports, and how the host connects."""

    transport: Literal["tcp", "mptcp"] = Field("mptcp", description="TCP variant of the ports")
    ports: int | None = Field(None, ge=1, le=MAX_PATHS, description="target ports, on the"
                              " addresses of the first paths; over MPTCP the other addresses are"
                              " joined. Default: one a path")
    controllers_per_path: int = Field(1, ge=1, le=256, description="controllers that the host"
                                      " connects to each port, with one I/O queue each")
    native_multipath: bool = Field(True, description="nvme_core.multipath; `false` needs a single"
                                   " controller, since each would be a device of its own")
    iopolicy: Literal["numa", "round-robin", "queue-depth"] = Field(
        "numa", description="of native NVMe multipath")
    hosts: int = Field(1, ge=1, le=16, description="hosts, each with an NQN, a subsystem and an fio"
                       " job of its own. They share the paths")
    tcp_hosts: int = Field(0, ge=0, le=16, description="so many of the hosts, the last ones, use"
                           " plain TCP, whatever the ports offer")
    separate_kernels: bool = Field(False, description="in the lab, host and target are kernels of"
                                   " their own, with a switch between them on each path, as is each"
                                   " of several hosts, with links of its own to the switches; else"
                                   " namespaces of one kernel")
    connect_options: str = Field("", description="further options of the connection, as"
                                 " /dev/nvme-fabrics takes them, such as `keep_alive_tmo=1`")


class Devices(Section):
    """`[devices]`: the network devices, on both ends alike."""

    bonding: Literal["none", "balance-rr", "802.3ad"] = Field(
        "none", description="one bonding device of all paths; 802.3ad with the hash policy layer3+4"
        " and fast LACP. Ports and connections use its address alone")
    gso: bool = Field(True, description="generic segmentation offload; `false`: each packet that"
                      " netem sees is one segment")


class Fio(Section):
    """`[fio]`: one fio job on the block device, with libaio and direct I/O."""

    rw: Literal["read", "write", "randread", "randwrite", "rw", "randrw"] = Field(
        "randread", description="pattern")
    rwmixread: int = Field(50, ge=0, le=100, description="percent of reads of `rw` and `randrw`")
    bs: str = Field("128k", pattern=r"^[1-9]\d*[kKmM]?$", description="block size")
    bssplit: str = Field("", pattern=r"^(\d+[kKmM]?/\d+(:\d+[kKmM]?/\d+)*)?$", description="mix of"
                         " block sizes, as `4k/60:128k/40`, in percent; takes the place of `bs`")
    iodepth: int = Field(256, ge=1, le=4096, description="I/Os in flight of each job")
    numjobs: int = Field(4, ge=1, le=64, description="jobs")
    runtime: int = Field(10, ge=1, le=86400, description="seconds")
    rate_mib_s: float | None = Field(None, gt=0, description="offered load of all jobs together,"
                                     " in MiB/s. Default: as much as goes")
    timeline_ms: int | None = Field(None, ge=1, le=60000, description="keep completions, bytes and"
                                    " latency of each interval of so many ms")


class Event(Section):
    """`[[event]]`: something that happens to a path while fio runs."""

    at: float = Field(ge=0, description="seconds since the start of fio")
    path: int = Field(ge=1, description="which path, from 1")
    link: Literal["down", "up"] | None = Field(None, description="the target's end is set down,"
                                               " or up again")
    rate: str | None = Field(None, description="new netem settings of both directions, beside those"
                             " that the path has; `loss = \"100%\"` is a path that swallows all")
    delay: str | None = Field(None, description="as above")
    jitter: str | None = Field(None, description="as above")
    loss: str | None = Field(None, description="as above")
    limit: int | None = Field(None, ge=1, description="as above, packets")
    every: float | None = Field(None, gt=0, description="repeat it after so many seconds")
    times: int = Field(1, ge=1, le=10000, description="how often in all; needs `every`")

    @field_validator("rate", "delay", "jitter", "loss")
    @classmethod
    def _unit(cls, value: str | None, info: Any) -> str | None:
        readers: Mapping[str, Callable[[object], float]] = {
            "rate": units.rate, "loss": units.percent}
        if value is not None:
            readers.get(str(info.field_name), units.microseconds)(value)
        return value

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.link and not self.netem():
            raise ValueError("says nothing to do: give link, rate, delay, jitter, loss or limit")
        if (self.times > 1) != (self.every is not None):
            raise ValueError("every and times go together")
        return self

    def netem(self) -> dict[str, Any]:
        """The netem settings that change."""
        return self.model_dump(include={"rate", "delay", "jitter", "loss", "limit"},
                               exclude_none=True)

    def moments(self) -> list[float]:
        """Seconds at which it happens."""
        return [self.at + number * (self.every or 0) for number in range(self.times)]


@dataclass(frozen=True)
class Change:
    """What happens to a path at one moment: `state`, its link goes down or up; `link`, all of its
    settings from then on."""

    at: float  # s since fio's start
    path: int  # from 1
    state: Literal["down", "up"] | None
    link: Link | None


class Settings(Section):
    """All tables that make a cell."""

    topology: dict[str, Any] = Field(default_factory=dict)
    association: Association = Association()
    devices: Devices = Devices()
    fio: Fio = Fio()
    event: list[Event] = Field(default_factory=list)

    def paths(self) -> Topology:
        """The topology. Raises UsageError."""
        return from_table(self.topology, "topology")

    def changes(self) -> Iterator[Change]:
        """Each moment of each event."""
        links = list(self.paths().links)
        for event in sorted(self.event, key=lambda event: event.at):
            now = None
            if changed := event.netem():
                before = links[event.path - 1]
                now = replace(before, to_target=replace(before.to_target, **changed),
                              to_host=replace(before.to_host, **changed))
                links[event.path - 1] = now
            for moment in event.moments():
                yield Change(moment, event.path, event.link, now)

    def more_faults(self) -> Iterator[tuple[Location, str]]:
        """For models of further tables: what is wrong between tables, with the key's location."""
        yield from ()


@dataclass(frozen=True)
class Cell:
    """One point of a scenario's matrix: `axes` are what tells it from the others."""

    scenario: str
    axes: Mapping[str, str]
    settings: Settings

    @property
    def name(self) -> str:
        return ", ".join(self.axes.values()) or "all"


@dataclass(frozen=True)
class Scenario:
    """A loaded file."""

    name: str
    head: Head
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class _Choice:
    """A value of an axis: its label, what it sets, and where that stands."""

    label: str
    overrides: Mapping[str, Any]
    location: Location


def names(directory: Path = SCENARIOS) -> list[str]:
    """The scenarios that come with the package."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def find(name: str, model: type[Settings] = Settings,
         directories: Sequence[Path] = (SCENARIOS,),
         overrides: Mapping[str, Any] = NOTHING) -> Scenario:
    """A scenario by name, from these directories, or by file; as `load`. Raises UsageError."""
    for directory in directories:
        shipped = directory / f"{name}.toml"
        if shipped.exists():
            return load(shipped, model, overrides)
    if not Path(name).exists():
        known = sorted(name for directory in directories for name in names(directory))
        raise UsageError(f"{name}: no such scenario file, nor one of {', '.join(known)}")
    return load(Path(name), model, overrides)


def load(path: Path, model: type[Settings] = Settings,
         overrides: Mapping[str, Any] = NOTHING) -> Scenario:
    """Read a file with the tables of this model.

    overrides: tables that go on top of those of the file and of its cases; lists are sweeps there,
    too. Raises UsageError: `FILE:LINE: what`, or `--set KEY: what`.
    """
    text, table = tomlfile.read(path, "scenario")
    return _Loader(path, Lines(text), model, overrides).scenario(table)


class _Loader:
    """Expands and checks one file."""

    def __init__(self, path: Path, lines: Lines, model: type[Settings],
                 overrides: Mapping[str, Any]) -> None:
        self.path, self.lines, self.model, self.overrides = path, lines, model, overrides

    def fail(self, location: Location, why: str) -> UsageError:
        key = ".".join(map(str, location))
        if location and _holds(self.overrides, location):
            return UsageError(f"--set {key}: {why}")
        return UsageError(f"{self.path}:{self.lines.of(location)}: {key}: {why}")

    def scenario(self, table: dict[str, Any]) -> Scenario:
        merge(table, self.overrides)
        sections = {name: value for name, value in table.items() if name in self.model.model_fields}
        cases = table.get("case", {})
        rest = {name: value for name, value in table.items()
                if name not in sections and name != "case"}
        try:
            head = Head.model_validate(rest)
        except ValidationError as error:
            known = ("case", *self.model.model_fields)
            raise self.fail(*_first(error, Head, known)) from None
        axes = [*self._cases(cases), *self._sweeps(sections)]
        cells = []
        for chosen in itertools.product(*(choices for _, choices in axes)):
            settings = self._settings(sections, chosen)
            labels = {name: choice.label for (name, _), choice in zip(axes, chosen, strict=True)}
            cells.append(Cell(self.path.stem, labels, settings))
        return Scenario(self.path.stem, head, tuple(cells))

    def _cases(self, cases: object) -> Iterator[tuple[str, list[_Choice]]]:
        if not isinstance(cases, dict):
            raise self.fail(("case",), "must be tables: [[case.AXIS]], or AXIS = [names]")
        for axis, entries in cases.items():
            if not isinstance(entries, list) or not entries:
                raise self.fail(("case", axis), "must be a list of names or of tables with a name")
            choices = [self._case(axis, number, entry) for number, entry in enumerate(entries)]
            if len({choice.label for choice in choices}) < len(choices):
                raise self.fail(("case", axis), "two cases have the same name")
            yield axis, choices

    def _case(self, axis: str, number: int, entry: object) -> _Choice:
        location: Location = ("case", axis, number)
        if isinstance(entry, str):
            known = tomllib.loads(CASES.read_text()).get(axis, {})
            if entry not in known:
                raise self.fail(location, f"no case {entry!r} in {CASES.name}; there are:"
                                f" {', '.join(known) or f'none for {axis!r}'}")
            return _Choice(entry, known[entry], location)
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise self.fail(location, "needs a name")
        overrides = {key: value for key, value in entry.items() if key != "name"}
        for key in overrides:
            if key not in self.model.model_fields:
                raise self.fail((*location, key), "unknown key; known here: name,"
                                f" {', '.join(self.model.model_fields)}")
        return _Choice(entry["name"], overrides, location)

    def _sweeps(self, sections: Mapping[str, Any]) -> Iterator[tuple[str, list[_Choice]]]:
        """Keys whose value is a list of plain values."""
        for section, table in sections.items():
            if not isinstance(table, dict):
                continue
            for key, value in table.items():
                if isinstance(value, list) and not any(isinstance(part, dict) for part in value):
                    if not value or len(set(map(str, value))) < len(value):
                        raise self.fail((section, key), "a sweep needs values, each once")
                    yield f"{section}.{key}", [
                        _Choice(f"{key} {part}", {section: {key: part}}, (section, key))
                        for part in value]

    def _settings(self, sections: Mapping[str, Any], chosen: tuple[_Choice, ...]) -> Settings:
        table: dict[str, Any] = copy.deepcopy(dict(sections))
        # Sweeps first, so that what a case says of the same key is found out.
        for choice in sorted(chosen, key=lambda choice: choice.location[0] == "case"):
            for section, key in ((s, k) for s, keys in choice.overrides.items()
                                 if isinstance(keys, dict) for k in keys):
                swept = sections.get(section, {})
                if choice.location[0] == "case" and isinstance(swept, dict) and not _holds(
                        self.overrides, (section, key)) and any(
                        other.location == (section, key) for other in chosen):
                    raise self.fail(choice.location, f"sets {section}.{key}, which is swept")
            merge(table, choice.overrides)
        merge(table, _without_lists(self.overrides))
        try:
            settings = self.model.model_validate(_with_named_topology(table))
        except ValidationError as error:
            location, why = _first(error, self.model)
            raise self.fail(self._origin(location, chosen), why) from None
        except KeyError as error:
            known = ", ".join(sorted(path.stem for path in TOPOLOGIES.glob("*.toml")))
            raise self.fail(self._origin(("topology", "base"), chosen),
                            f"{error.args[0]!r} is none of {known}") from None
        self._check(settings, chosen)
        return settings

    def _origin(self, location: Location, chosen: tuple[_Choice, ...]) -> Location:
        """Where a setting was written: in a case, if one has it, else in the table itself."""
        for choice in chosen:
            if choice.location[0] == "case" and _holds(choice.overrides, location):
                deep = (*choice.location, *location)
                return deep if self.lines.has(deep) else choice.location
        return location

    def _check(self, settings: Settings, chosen: tuple[_Choice, ...]) -> None:
        """What concerns several tables."""
        def fail(location: Location, why: str) -> UsageError:
            return self.fail(self._origin(location, chosen), why)

        try:
            paths = settings.paths()
        except UsageError as error:
            _, key, why = str(error).split(": ", 2)
            words = tuple(int(word) - 1 if word.isdigit() else word
                          for word in key.replace("[", ".").replace("]", "").split("."))
            raise fail(("topology", *words), why) from None
        count, association = len(paths.links), settings.association
        ports = association.ports or count
        if ports > count:
            raise fail(("association", "ports"), f"is {ports}, but there are {count} paths")
        if not association.native_multipath and ports * association.controllers_per_path > 1:
            raise fail(("association", "native_multipath"),
                       "false needs ports = 1 and controllers_per_path = 1")
        if association.hosts > 1 and not association.native_multipath:
            raise fail(("association", "hosts"), "several need native_multipath")
        if association.tcp_hosts > association.hosts:
            raise fail(("association", "tcp_hosts"), f"is {association.tcp_hosts}, of"
                       f" {association.hosts} hosts")
        if settings.devices.bonding != "none" and association.ports != 1:
            raise fail(("devices", "bonding"), "needs association.ports = 1: one address")
        for number, event in enumerate(settings.event):
            if event.path > count:
                raise fail(("event", number, "path"),
                           f"is {event.path}, but there are {count} paths")
            if event.moments()[-1] >= settings.fio.runtime:
                raise fail(("event", number, "at"), f"happens at {event.moments()[-1]:g} s, but fio"
                           f" runs for {settings.fio.runtime} s")
        for location, why in settings.more_faults():
            raise fail(location, why)


def _with_named_topology(table: dict[str, Any]) -> dict[str, Any]:
    """`topology.base` names one that the lab brings; other keys go on top. Raises KeyError."""
    given = table.get("topology")
    if not isinstance(given, dict) or "base" not in given:
        return table
    file = TOPOLOGIES / f"{given['base']}.toml"
    if not file.exists():
        raise KeyError(given["base"])
    merged = tomllib.loads(file.read_text())
    if "path" in given:
        merged.pop("paths", None)
    merge(merged, {key: value for key, value in given.items() if key != "base"})
    return {**table, "topology": merged}


def merge(table: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Put `overrides` on top, table by table."""
    for key, value in overrides.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            merge(table[key], value)
        else:
            table[key] = copy.deepcopy(value)


def _without_lists(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without the sweeps: a cell has one value of each."""
    return {key: _without_lists(value) if isinstance(value, dict) else value
            for key, value in table.items() if not isinstance(value, list)}


def _holds(table: object, location: Location) -> bool:
    for word in location[:2]:
        if not isinstance(table, dict) or word not in table:
            return isinstance(table, list)
        table = table[word]
    return True


def _first(error: ValidationError, model: type[BaseModel],
           more: tuple[str, ...] = ()) -> tuple[Location, str]:
    """Location and words of the first thing that pydantic found."""
    found = error.errors()[0]
    location = found["loc"]
    if found["type"] == "extra_forbidden":
        if len(location) > 1 and isinstance(location[0], str):
            inner = model.model_fields[location[0]].annotation
            model = Event if location[0] == "event" else inner  # type: ignore[assignment]
        return location, f"unknown key; known here: {', '.join((*model.model_fields, *more))}"
    if found["type"] == "missing":
        return location, "is missing"
    words = found["msg"].removeprefix("Value error, ")
    words = words[0].lower() + words[1:]
    shown = repr(found["input"])
    plain = isinstance(found["input"], str | int | float) and shown not in words
    return location, f"{words}, not {shown}" if plain else words
