"""A small stream of jobs with figures that can be checked by hand, and tables of widths by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from optplan.formulations.boa.data.instance import BoaInstance

#: When everything begins, seconds since 1970.
START_S = 1_800_000_000.0


@pytest.fixture
def start_s() -> float:
    """Return the moment at which calculators begin."""
    return START_S


@pytest.fixture
def stream() -> BoaInstance:
    """Two classes: one job an hour of one GPU-hour each, speeds 1, 1.6 and 2 on 1, 2 and 4 GPUs, no rescaling."""
    table = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    return BoaInstance(
        name="two-classes",
        classes={"a": job_class, "b": job_class},
        gpu_types={"t4": {}},
        budget="2.5gpu",
        problem="whole",
    )


@dataclass(frozen=True)
class TableByHand:
    """Widths by class and epoch, each with its type; other classes hold one GPU of any."""

    widths: Mapping[str, Sequence[tuple[int, str]]]

    def held_at(self, job_class: str, epochs_done: int, row: int = 0) -> tuple[int, str | None]:
        """Look it up; beyond the last epoch it is as in the last."""
        del row
        epochs = self.widths.get(job_class)
        return (1, None) if epochs is None else epochs[min(epochs_done, len(epochs) - 1)]


@pytest.fixture(scope="session")
def make_table() -> Callable[..., TableByHand]:
    """Return what makes a table of one type, from widths by class."""

    def make(**widths: Sequence[int]) -> TableByHand:
        return TableByHand({name: [(gpus, "a100") for gpus in row] for name, row in widths.items()})

    return make


@pytest.fixture(scope="session")
def make_typed_table() -> Callable[..., TableByHand]:
    """Return what makes a table of several types, from widths and types by class."""
    return TableByHand
