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
from typing import Any

from nvmptcp_lab import boot
from nvmptcp_lab.errors import LabError, UsageError

from . import lab_cell, results
from .scenario import Cell, Scenario

CONNECT_SECONDS, WORKER_SECONDS = 10, 60  # to a scheduler, and for its first worker
END_SECONDS = 20  # for guests that were stopped, to clean up behind them
AGAIN_SECONDS = 0.2
_stopping = threading.Event()
_idle = threading.Condition()
_tasks = 0  # that run in this process


def default_cache() -> Path:
    """Where results are kept by their key, unless somebody says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nvmptcp" / "perf"


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

    The latter's workers are threads: a guest is a process of its own anyway. Raises UsageError
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
                memory_limit=0))  # guests are no part of this process: nothing to watch
            client = stack.enter_context(Client(cluster))
        yield client


def task(settings_json: str, seed: int, profile: str, kernel_key: str) -> dict[str, Any]:
    """What a worker does."""
    with _counted():
        if _stopping.is_set():
            raise LabError("stopped")
        return lab_cell.measure(settings_json, seed, profile, kernel_key)


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


def _stop(client: Any, futures: list[Any]) -> None:
    """Give up what isn't done; return when this process's guests are gone."""
    _stopping.set()
    client.cancel(futures, force=True)
    end = time.monotonic() + END_SECONDS
    done = False
    while not done and time.monotonic() < end:
        boot.stop_all()  # again and again: a guest may be about to start
        with _idle:
            done = _idle.wait_for(lambda: not _tasks, AGAIN_SECONDS)


def run(scenarios: Sequence[Scenario], cache: Path, *, jobs: int = 1, scheduler: str | None = None,
        profile: str = "default", seeds: int | None = None) -> results.ResultSet:
    """Measure all cells, or take what was kept; medians of them.

    cache: finished runs; jobs: cells at a time, on this machine; seeds: instead of those of the
    scenarios. Raises LabError that names the first cell which failed: what succeeded is kept. So
    it is when KeyboardInterrupt or SystemExit passes through.
    """
    kernel = lab_cell.kernel(profile)
    todo = [Job(cell, seed, lab_cell.key(cell.settings, seed, kernel.key))
            for scenario in scenarios for cell in scenario.cells
            for seed in range(1, (seeds or scenario.head.seeds) + 1)]
    found = {job.key: kept for job in todo
             if (kept := lab_cell.load(cache / f"{job.key}.json")) is not None}
    missing = list({job.key: job for job in todo if job.key not in found}.values())
    _say(f"{len(todo)} runs, {sum(job.key in found for job in todo)} of them kept from before;"
         f" kernel {kernel.release}, {kernel.key}")
    if missing:
        found |= _measure(missing, cache, jobs, scheduler, profile, kernel.key)
    return _collect(scenarios, todo, found, f"Linux {kernel.release}, build {kernel.key}")


def _measure(missing: list[Job], cache: Path, jobs: int, scheduler: str | None, profile: str,
             kernel_key: str) -> dict[str, dict[str, Any]]:
    from distributed import as_completed

    found: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    done, total = 0, sum(job.cell.settings.fio.runtime for job in missing)
    with dask_client(scheduler, jobs) as client:
        begin = time.monotonic()
        futures = {client.submit(task, job.cell.settings.model_dump_json(), job.seed, profile,
                                 kernel_key, pure=False, priority=-number): job
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
                    _say(f"{progress}: FAILED: {error} (about {left:.0f} s left)")
                    continue
                found[job.key] = future.result()
                _keep(cache / f"{job.key}.json", found[job.key])
                _say(f"{progress}: {_short(found[job.key])} (about {left:.0f} s left)")
        except (KeyboardInterrupt, SystemExit):  # the latter: terminated
            _stop(client, list(futures))
            _say(f"{len(found)} of {len(missing)} runs are kept: the same command goes on from"
                 " there")
            raise
    if failed:
        raise LabError(f"{len(failed)} of {len(missing)} runs failed, the others are kept; the"
                       f" first: {failed[0]}")
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _keep(path: Path, run: Mapping[str, Any]) -> None:
    """Write a result so that it is there whole or not at all."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(run))
    partial.replace(path)


def _short(run: Mapping[str, Any]) -> str:
    return " / ".join(f"{direction} {run[f'{direction}_mib_s']:.1f} MiB/s"
                      for direction in ("read", "write")
                      if run[f"{direction}_mib_s"] is not None)


def _collect(scenarios: Sequence[Scenario], todo: list[Job], found: Mapping[str, dict[str, Any]],
             source: str) -> results.ResultSet:
    cells = []
    for scenario in scenarios:
        for cell in scenario.cells:
            runs = [found[job.key] for job in todo if job.cell is cell]
            cells.append(results.summarize(scenario.name, cell.axes, cell.name, runs))
    heads = {scenario.name: scenario.head.model_dump() for scenario in scenarios}
    return results.ResultSet(source, heads, tuple(cells))
