# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the cells of scenarios over Dask, keeping each result as soon as it is there."""

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nvmptcp_lab.errors import LabError, UsageError

from . import results
from .scenario import Cell, Scenario, Settings

CONNECT_SECONDS, WORKER_SECONDS = 10, 60  # to a scheduler, and for its first worker
END_SECONDS = 20  # for runs that were stopped, to clean up behind them
AGAIN_SECONDS = 0.2
_stopping = threading.Event()
_idle = threading.Condition()
_tasks = 0  # that run in this process


class Backend(Protocol):
    """What measures a cell: the lab, or a model. Dask sends it to its workers, so it is picklable.
    """

    @property
    def source(self) -> str:
        """What measures, for people, such as a kernel's release and key."""

    def key(self, settings: Settings, seed: int) -> str:
        """What a result is kept under: the same key, the same result."""

    def measure(self, settings: Settings, seed: int) -> dict[str, Any]:
        """One run; its result as `nvmptcp_lab.perf.run_cell` has it. Raises LabError."""

    def stop(self) -> None:
        """End what `measure` has started in this process."""


def default_cache(name: str = "perf") -> Path:
    """Where results are kept by their key, unless somebody says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nvmptcp" / name


@dataclass(frozen=True)
class Job:
    """One run: a cell with a seed."""

    cell: Cell
    seed: int
    key: str

    @property
    def name(self) -> str:
        return f"{self.cell.scenario}: {self.cell.name}, seed {self.seed}"


@contextlib.contextmanager
def dask_client(scheduler: str | None, jobs: int) -> Iterator[Any]:
    """A client of the scheduler at this address, or of a cluster in this process.

    The latter's workers are threads: a run is a process of its own anyway. Raises UsageError
    when nobody answers.
    """
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        if scheduler:
            try:
                client = stack.enter_context(Client(scheduler, timeout=CONNECT_SECONDS))
            except (OSError, ValueError) as error:
                raise UsageError(f"--scheduler {scheduler}: no Dask scheduler answers there"
                                 f" ({type(error).__name__}: {error})") from None
            try:
                client.wait_for_workers(1, timeout=WORKER_SECONDS)
            except TimeoutError:
                raise UsageError(f"--scheduler {scheduler}: it has no workers; start `dask worker"
                                 f" {scheduler}` on the machines that shall measure") from None
        else:
            cluster = stack.enter_context(LocalCluster(
                n_workers=1, threads_per_worker=jobs, processes=False,
                dashboard_address="127.0.0.1:0",
                memory_limit=0))  # runs are no part of this process: nothing to watch
            client = stack.enter_context(Client(cluster))
        yield client


def task(backend: Backend, settings: Settings, seed: int) -> dict[str, Any]:
    """What a worker does."""
    with _counted():
        if _stopping.is_set():
            raise LabError("stopped")
        return backend.measure(settings, seed)


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    global _tasks
    with _idle:
        _tasks += 1
    try:
        yield
    finally:
        with _idle:
            _tasks -= 1
            _idle.notify_all()


def _stop(client: Any, futures: list[Any], backend: Backend) -> None:
    """Give up what isn't done; return when this process's runs are gone."""
    _stopping.set()
    client.cancel(futures, force=True)
    end = time.monotonic() + END_SECONDS
    done = False
    while not done and time.monotonic() < end:
        backend.stop()  # again and again: a run may be about to start
        with _idle:
            done = _idle.wait_for(lambda: not _tasks, AGAIN_SECONDS)


def run(scenarios: Sequence[Scenario], cache: Path, backend: Backend, *, jobs: int = 1,
        scheduler: str | None = None, seeds: int | None = None) -> results.ResultSet:
    """Measure all cells, or take what was kept; medians of them.

    cache: finished runs; jobs: cells at a time, on this machine; seeds: instead of those of the
    scenarios. Raises LabError that names the first cell which failed: what succeeded is kept. So
    it is when KeyboardInterrupt or SystemExit passes through.
    """
    wanted = [(cell, seed) for scenario in scenarios for cell in scenario.cells
              for seed in range(1, (seeds or scenario.head.seeds) + 1)]
    found = obtain(wanted, cache, backend, jobs=jobs, scheduler=scheduler)
    runs: dict[int, list[dict[str, Any]]] = {}
    for (cell, _), result in zip(wanted, found, strict=True):
        runs.setdefault(id(cell), []).append(result)
    heads = {scenario.name: scenario.head.model_dump() for scenario in scenarios}
    return results.ResultSet(backend.source, heads, tuple(
        results.summarize(scenario.name, cell.axes, cell.name, runs[id(cell)])
        for scenario in scenarios for cell in scenario.cells))


def obtain(wanted: Sequence[tuple[Cell, int]], cache: Path, backend: Backend, *, jobs: int = 1,
           scheduler: str | None = None) -> list[dict[str, Any]]:
    """The result of each cell with its seed: a kept one, else a new one. As `run`."""
    todo = [Job(cell, seed, backend.key(cell.settings, seed)) for cell, seed in wanted]
    found = {job.key: kept for job in todo
             if (kept := _load(cache / f"{job.key}.json")) is not None}
    missing = list({job.key: job for job in todo if job.key not in found}.values())
    _say(f"{len(todo)} runs, {sum(job.key in found for job in todo)} of them kept from before;"
         f" {backend.source}")
    if missing:
        found |= _measure(missing, cache, backend, jobs, scheduler)
    return [found[job.key] for job in todo]


def _measure(missing: list[Job], cache: Path, backend: Backend, jobs: int,
             scheduler: str | None) -> dict[str, dict[str, Any]]:
    from distributed import as_completed

    found: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    kind = LabError
    done, total = 0, sum(job.cell.settings.fio.runtime for job in missing)
    with dask_client(scheduler, jobs) as client:
        begin = time.monotonic()
        futures = {client.submit(task, backend, job.cell.settings, job.seed,
                                 pure=False, priority=-number): job
                   for number, job in enumerate(missing)}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                job = futures[future]
                done += job.cell.settings.fio.runtime
                left = (time.monotonic() - begin) / done * (total - done)
                progress = f"[{number:{len(str(len(missing)))}}/{len(missing)}] {job.name}"
                error = future.exception()
                if error is not None:
                    failed.append(f"{job.name}: {error}")
                    if isinstance(error, UsageError):
                        kind = UsageError
                    _say(f"{progress}: FAILED: {error} (about {left:.0f} s left)")
                    continue
                found[job.key] = future.result()
                _keep(cache / f"{job.key}.json", found[job.key])
                _say(f"{progress}: {_short(found[job.key])} (about {left:.0f} s left)")
        except (KeyboardInterrupt, SystemExit):  # the latter: terminated
            _stop(client, list(futures), backend)
            _say(f"{len(found)} of {len(missing)} runs are kept: the same command goes on from"
                 " there")
            raise
    if failed:
        raise kind(f"{len(failed)} of {len(missing)} runs failed, the others are kept; the"
                   f" first: {failed[0]}")
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _load(path: Path) -> dict[str, Any] | None:
    """A kept result, None where there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def _keep(path: Path, run: Mapping[str, Any]) -> None:
    """Write a result so that it is there whole or not at all."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(run))
    partial.replace(path)


def _short(run: Mapping[str, Any]) -> str:
    return " / ".join(f"{direction} {run[f'{direction}_mib_s']:.1f} MiB/s"
                      for direction in ("read", "write")
                      if run[f"{direction}_mib_s"] is not None)
