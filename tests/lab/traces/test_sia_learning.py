"""What the model says of an application that was seen on some placements only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from optplan.lab.traces.sia import read_profile
from optplan.lab.traces.sia_agents import fit_speeds
from optplan.lab.traces.sia_workloads import APPLICATIONS

CIFAR10 = APPLICATIONS["cifar10"]


def test_nothing_is_known(data_pack: Path) -> None:
    """Before it has run, speeds are those of perfect scaling, and several nodes need two GPUs."""
    within, across = fit_speeds(read_profile(data_pack / "sia" / "traces", CIFAR10, "aws"), frozenset(), 4)
    assert within.shape == (100, 5)
    assert within[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert across[99].tolist() == [0.0, 0.0, 2.0, 3.0, 4.0]


def test_more_is_known_after_more(data_pack: Path) -> None:
    """Alone on a GPU it seems to scale almost perfectly; on eight of two nodes it turns out that networks take time."""
    profile = read_profile(data_pack / "sia" / "traces", CIFAR10, "aws")
    seen: list[list[tuple[int, ...]]] = [[(1,)], [(1,), (2,), (4,)], [(1,), (2,), (4,), (4, 4)]]
    speeds = [fit_speeds(profile, frozenset(placements), 16) for placements in seen]
    eight = [across[50, 8] / within[50, 1] for within, across in speeds]
    assert eight[0] > eight[1] > eight[2]
    assert abs(eight[2] - 6.1) < 1.0  # measured: 6.1
    np.testing.assert_array_less(0.0, speeds[2][0][:, 1:])


def test_what_was_not_measured_is_interpolated(data_pack: Path) -> None:
    """A placement without rows of its own still teaches something."""
    profile = read_profile(data_pack / "sia" / "traces", CIFAR10, "aws")
    known: list[list[tuple[int, ...]]] = [[(1,)], [(1,), (4, 4, 4, 3, 3)]]
    alone, seen = (fit_speeds(profile, frozenset(more), 8)[1] for more in known)
    assert (seen[:, 8] < alone[:, 8]).all()
