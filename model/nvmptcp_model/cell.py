# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell as the C++ program examples/nvme-mptcp-cell.cc reads it: numbers in place of units."""

import re
from dataclasses import asdict, replace
from typing import Any

from nvmptcp_lab import units
from nvmptcp_lab.errors import UsageError
from nvmptcp_lab.topology import Direction, Link, Topology

from .schema import Fabric, ModelSettings

SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20}


def size(text: str) -> int:
    """Bytes of a size as fio writes it, such as 128k."""
    match = re.fullmatch(r"(\d+)([kKmM]?)", text)
    assert match
    return int(match[1]) * SIZES[match[2].lower()]


def direction(end: Direction, ecn_threshold: int | None) -> dict[str, Any]:
    """netem's settings of one end: rate in bit/s, times in us, loss 0 to 1, limit in packets."""
    return {
        "rate_bps": units.rate(end.rate) if end.rate else None,
        "delay_us": units.microseconds(end.delay) if end.delay else 0,
        "jitter_us": units.microseconds(end.jitter) if end.jitter else 0,
        "loss": round(units.percent(end.loss) / 100, 9) if end.loss else 0,
        "limit": end.limit,
        "ecn_threshold": ecn_threshold,
    }


def _fabric(fabric: Fabric, hosts: int, paths: int) -> dict[str, Any] | None:
    if fabric.kind == "links":
        return None
    host_link = direction(fabric.host_link(), fabric.ecn_threshold)
    return {"kind": fabric.kind, "hosts": hosts, "leaves": fabric.leaves, "spines": fabric.spines,
            "host_links": [{"to_target": host_link, "to_host": host_link}] * paths,
            "uplink": direction(fabric.uplink(), fabric.ecn_threshold),
            "start_within_us": (units.microseconds(fabric.start_within) if fabric.start_within
                                else 0)}


def _ends(link: Link, ecn_threshold: int | None) -> dict[str, Any]:
    return {"to_target": direction(link.to_target, ecn_threshold),
            "to_host": direction(link.to_host, ecn_threshold)}


def _lab_switches(settings: ModelSettings,
                  topology: Topology) -> tuple[tuple[Link, ...], dict[str, Any]]:
    """The target's links, and `fabric`, of hosts with kernels of their own, as the lab links them.

    Each has links of its own, on which netem works at both ends; the switch between them takes no
    time; what comes to the target queues once more, at the rate of its link (`end_script` of the
    lab's topology).
    """
    for key, used in (("event", any(settings.changes())),
                      ("topology.family", topology.family == "ipv6")):
        if used:
            raise UsageError(f"{key}: not with several hosts on kernels of their own"
                             " (association.separate_kernels) in the model")
    queues = tuple(replace(link, to_target=Direction(rate=link.to_target.rate,
                                                     limit=link.to_target.limit))
                   for link in topology.links)
    own = [replace(link, to_host=Direction()) for link in topology.links]
    return queues, {"kind": "switch", "hosts": settings.association.hosts,
                    "host_links": [_ends(link, settings.fabric.ecn_threshold) for link in own]}


def document(settings: ModelSettings, seed: int, pcap: str | None = None,
             trace: str | None = None) -> dict[str, Any]:
    """The JSON of a cell. pcap: prefix of files; trace: directory, for time series.

    Raises UsageError where the model has no such thing.
    """
    topology, fio, association = settings.paths(), settings.fio, settings.association
    ecn = settings.fabric.ecn_threshold
    links = topology.links
    fabric = _fabric(settings.fabric, association.hosts, len(links))
    if association.separate_kernels and association.hosts > 1 and fabric is None:
        links, fabric = _lab_switches(settings, topology)
    events = [{"at": change.at, "path": change.path - 1, "link": change.state,
               **(_ends(change.link, ecn) if change.link else {})}
              for change in sorted(settings.changes(), key=lambda change: change.at)]
    return {
        "paths": [{**_ends(link, ecn), "backup": link.backup} for link in links],
        "family": topology.family,
        "mtu": topology.mtu,
        "mptcp": asdict(topology.mptcp),
        "sysctl": dict(topology.sysctl),
        # nodes of the model are separate in any case
        "association": {**association.model_dump(exclude={"separate_kernels"}),
                        "ports": association.ports or len(links)},
        "devices": settings.devices.model_dump(),
        "fio": {
            "rw": fio.rw, "rwmixread": fio.rwmixread, "bs": size(fio.bs),
            "bssplit": [[size(part.partition("/")[0]), int(part.partition("/")[2])]
                        for part in fio.bssplit.split(":") if part],
            "iodepth": fio.iodepth, "numjobs": fio.numjobs, "runtime": fio.runtime,
            "rate_bytes_s": fio.rate_mib_s * 2**20 if fio.rate_mib_s else None,
            "timeline_ms": fio.timeline_ms,
        },
        "events": events,
        "seed": seed,
        "attributes": {name: _attribute(value) for name, value in settings.attributes.items()},
        "device": settings.device.model_dump() if settings.device.model_fields_set else None,
        "fabric": fabric,
        "output": {"pcap": pcap, "trace": trace},
    }


def _attribute(value: str | int | float | bool) -> str:
    """As ns-3 reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
