# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios of the model: those of the lab, and tables for what only a model has."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from nvmptcp_conformance.perf import scenario
from nvmptcp_conformance.perf.scenario import NOTHING, Association, Scenario, Section, Settings
from nvmptcp_conformance.perf.toml_lines import Location
from nvmptcp_lab import units
from nvmptcp_lab.topology import Direction
from pydantic import Field, field_validator

SCENARIOS = Path(__file__).parents[1] / "scenarios"


class ModelAssociation(Association):
    """`[association]`: as in the lab's scenarios, with more hosts and one more policy."""

    hosts: int = Field(1, ge=1, le=10_000, description="as there; with a `[fabric]`,"
                       " or on kernels of their own (`separate_kernels`), each is a node")
    tcp_hosts: int = Field(0, ge=0, le=10_000, description="as there")
    iopolicy: Literal[
        "numa", "round-robin", "queue-depth", "adaptive"] = Field(  # type: ignore[assignment]
        "numa", description="of native NVMe multipath; `adaptive` is a proposal, not in Linux 7.3")


class Device(Section):
    """`[device]`: how long the target's devices take. Without it they answer at once."""

    read_us: float = Field(0, ge=0, description="service time of a read, microseconds")
    write_us: float = Field(0, ge=0, description="service time of a write, microseconds")
    distribution: Literal["constant", "exponential", "lognormal"] = Field(
        "constant", description="of service times about that mean")
    sigma: float = Field(1, ge=0, le=10, description="of the logarithm, for `lognormal`")
    parallelism: int | None = Field(None, ge=1, description="commands that a device serves at a"
                                    " time. Default: all")


class Fabric(Section):
    """`[fabric]`: what lies between the hosts and the target. Without it each path is a link."""

    kind: Literal["links", "switch", "leaf-spine"] = Field(
        "links", description="`switch`: each path is a switch of its own, with a link to each host"
        " and the path's link to the target. `leaf-spine`: the target's paths end at the last leaf,"
        " the hosts' at the others in turn; flows take the spines by a hash of addresses and ports"
        " (ECMP)")
    host_rate: str | None = Field(None, description="of each link of a host")
    host_delay: str | None = Field(None, description="of each link of a host, each way")
    host_limit: int = Field(1000, ge=1, description="of each queue to or from a host, packets")
    leaves: int = Field(2, ge=2, le=256, description="of `leaf-spine`")
    spines: int = Field(2, ge=1, le=256, description="of `leaf-spine`")
    uplink_rate: str | None = Field(None, description="of each link between leaf and spine")
    uplink_delay: str | None = Field(None, description="of each link between leaf and spine")
    uplink_limit: int = Field(1000, ge=1, description="of each of its queues, packets")
    start_within: str | None = Field(None, description="hosts start their jobs at random times"
                                     " within it, a time. Default: all at once")
    ecn_threshold: int | None = Field(None, ge=1, description="packets in any queue, the paths' as"
                                      " well, from which ECN-capable ones are marked")

    @field_validator("host_rate", "uplink_rate", "host_delay", "uplink_delay", "start_within")
    @classmethod
    def _unit(cls, value: str | None, info: Any) -> str | None:
        if value is not None:
            (units.rate if info.field_name.endswith("rate") else units.microseconds)(value)
        return value

    def host_link(self) -> Direction:
        """Both directions of a host's links."""
        return Direction(self.host_rate, self.host_delay, limit=self.host_limit)

    def uplink(self) -> Direction:
        """Both directions of a leaf's links to the spines."""
        return Direction(self.uplink_rate, self.uplink_delay, limit=self.uplink_limit)


class ModelSettings(Settings):
    """All tables that make a cell of the model."""

    association: ModelAssociation = ModelAssociation()
    device: Device = Device()
    fabric: Fabric = Fabric()
    attributes: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description='"ns3::CLASS::ATTRIBUTE" = value: defaults of attributes')

    def more_faults(self) -> Iterator[tuple[Location, str]]:
        if self.fabric.kind == "links":
            given = self.fabric.model_fields_set - {"kind", "ecn_threshold"}
            for key in sorted(given):
                yield ("fabric", key), "needs fabric.kind = \"switch\" or \"leaf-spine\""
        else:
            if self.devices.bonding != "none":
                yield ("devices", "bonding"), "not together with a fabric"
            if self.paths().family != "ipv4":
                yield ("topology", "family"), "the model's fabrics have IPv4 only"
        for name in self.attributes:
            if name.count("::") < 2:
                yield ("attributes", name), "is not of the form ns3::CLASS::ATTRIBUTE"


def names() -> list[str]:
    """The model's own scenarios."""
    return scenario.names(SCENARIOS)


def all_names() -> list[str]:
    """Those of the lab, then the model's own."""
    return [*scenario.names(), *names()]


def find(name: str, overrides: Mapping[str, Any] = NOTHING) -> Scenario:
    """A scenario of the lab, of the model, or in a file. Raises UsageError."""
    return scenario.find(name, ModelSettings, (scenario.SCENARIOS, SCENARIOS), overrides)
