"""Tasks spread over the processors of this machine, or over the machines of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from multiprocessing import get_context
from typing import Any, TypeVar

from optplan.errors import MissingExtraError, UsageError
from optplan.progress import end_with_parent

_Name = TypeVar("_Name")
_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")


class Engine(StrEnum):
    """Who does the work."""

    #: Processes of this machine.
    PROCESSES = "processes"
    #: A Ray cluster: the one that ``RAY_ADDRESS`` names, or one on this machine. Its machines have optplan too, and
    #: find the files that tasks name at the same paths.
    RAY = "ray"


def spread(
    work: Callable[[_Task], _Answer],
    tasks: Mapping[_Name, _Task],
    processes: int | None = None,
    *,
    engine: Engine | str = Engine.PROCESSES,
    fresh: bool = False,
) -> Iterator[tuple[_Name, _Answer]]:
    """Do the same with many tasks, by name, several at once; each name comes with its answer once it is there."""
    # ``work`` is at the top of a module. None takes a process for each processor, one of them this one unless
    # ``fresh``.
    if engine not in set(Engine):
        raise UsageError(f"engine: got {engine!r}; {' or '.join(Engine)} is allowed")
    if processes is not None and processes < 1:
        raise UsageError(f"processes: got {processes}; at least 1 is needed")
    if engine == Engine.RAY and processes is not None:
        raise UsageError(f"processes: got {processes}; a Ray cluster begins as many as it has CPUs for: leave it out")
    if not tasks:
        return iter(())
    if engine == Engine.RAY:
        return _run_on_ray(work, tasks, fresh=fresh)
    count = min(processes or os.cpu_count() or 1, len(tasks))
    if count == 1 and not fresh:
        return ((name, work(task)) for name, task in tasks.items())
    return _run_in_processes(work, tasks, count, fresh=fresh)


def _run_in_processes(
    work: Callable[[_Task], _Answer], tasks: Mapping[_Name, _Task], count: int, *, fresh: bool
) -> Iterator[tuple[_Name, _Answer]]:
    # Spawned processes inherit nothing, so answers cannot depend on the state of this one.
    context, most = get_context("spawn"), 1 if fresh else None
    with ProcessPoolExecutor(count, context, end_with_parent, max_tasks_per_child=most) as pool:
        futures = {pool.submit(work, task): name for name, task in tasks.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise UsageError(
                f"processes: got {count}, but one of them ended before its work did; each imports the main script "
                "again, so call this below `if __name__ == '__main__':` in a script that is a file, or use processes=1 "
                "(which also needs less memory)"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_on_ray(
    work: Callable[[_Task], _Answer], tasks: Mapping[_Name, _Task], *, fresh: bool
) -> Iterator[tuple[_Name, _Answer]]:
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("ray", "ray") from None
    began = not ray.is_initialized()
    if began:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:

        def act(task: _Task) -> _Answer:  # Ray takes functions, no partials
            return work(task)

        # A worker that has done so many tasks ends; 0 is any number.
        remote: Callable[[_Task], Any] = ray.remote(max_calls=1 if fresh else 0)(act).remote
        waiting = {remote(task): name for name, task in tasks.items()}
        while waiting:
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        if began:
            ray.shutdown()
