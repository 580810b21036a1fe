"""Clocks for work on a device: marks between passes, and the seconds from one to another."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from optplan.errors import UsageError
from optplan.profiling.workloads import require_torch


class HostClock:
    """Marks moments by the host's clock, or other seconds: for work that is done when its call returns."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._marks: list[Any] = []

    def start(self) -> None:
        """Forget the marks, and wait until the device is idle."""
        self._marks.clear()
        self.finish()

    def mark(self) -> int:
        """Mark the moment at which the device has done what was asked of it so far; return the mark's number."""
        self._marks.append(self._look())
        return len(self._marks) - 1

    def finish(self) -> None:
        """Wait until every mark is reached: here it is when it is made."""

    def seconds(self, first: int, last: int) -> float:
        """Return the time from one mark to another."""
        return float(self._marks[last] - self._marks[first])

    def _look(self) -> Any:  # noqa: ANN401 - seconds, or an event
        return self._now()


class CudaClock(HostClock):
    """Marks in the stream of work of a CUDA device, which runs behind the host."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def finish(self) -> None:
        """Wait until the device is idle."""
        require_torch().cuda.synchronize(self._device)

    def seconds(self, first: int, last: int) -> float:
        """Return the time from one mark to another."""
        return float(self._marks[first].elapsed_time(self._marks[last])) / 1000.0

    def _look(self) -> Any:  # noqa: ANN401 - an event of PyTorch
        event = require_torch().cuda.Event(enable_timing=True)
        event.record()
        return event


def make_clock(device: str) -> HostClock:
    """Return the clock of a device."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return HostClock()
    if kind != "cuda":
        raise UsageError(f"device: got {device!r}; cpu, cuda and cuda:N can be measured")
    if not require_torch().cuda.is_available():
        message = f"device: got {device!r}, but PyTorch finds no CUDA device here; use cpu, or install drivers and CUDA"
        raise UsageError(message)
    return CudaClock(device)
