"""What a block of a test takes of the machine, whatever else the machine does."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from optplan.solving import solve

from .tampering import CASES, Case, named

_STATUS = Path("/proc/self/status")


@dataclass
class Taken:
    """Processor seconds of this thread, and megabytes at the most beyond those at the start."""

    seconds: float = 0.0
    megabytes: float = 0.0


#: What measures a block.
Measure = Callable[[], AbstractContextManager[Taken]]


def _read_megabytes(name: str) -> float:
    """Return a figure of the kernel's about this process."""
    found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1]) / 1024.0


@pytest.fixture(scope="session")
def measure() -> Iterator[Measure]:
    """Return what measures a block; memory where the kernel tells of it, and none elsewhere."""

    @contextmanager
    def measured() -> Iterator[Taken]:
        taken = Taken()
        gc.collect()
        gc.freeze()  # what is there now is not looked through again for the next block, which took half a second
        before_mb = 0.0
        if _STATUS.exists():
            Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
            before_mb = _read_megabytes("VmRSS")
        start = time.thread_time()
        yield taken
        taken.seconds = time.thread_time() - start
        if _STATUS.exists():
            taken.megabytes = _read_megabytes("VmHWM") - before_mb

    yield measured
    gc.unfreeze()


@pytest.fixture(scope="session")
def cases() -> dict[str, Case]:
    """Return an instance and its result for each of the cases."""
    made: dict[str, Case] = {}
    for key, (name, solver, changes) in CASES.items():
        instance = named(name, **changes)
        made[key] = (instance, solve(instance, solver=solver, check=False))
    return made
