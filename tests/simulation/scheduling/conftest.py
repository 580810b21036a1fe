"""A table of widths by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest


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
