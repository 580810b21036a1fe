"""Small markets, written as text or drawn at random, and a policy that follows a list."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optplan.lab.spot.replaying import SpotJob, SpotMarket, SpotPolicy

#: Steps are of an hour, and cost a dollar on spot and three on demand unless a test says otherwise.
STEP_S = 3600.0

Writer = Callable[..., SpotMarket]
Follower = Callable[[tuple[int, ...]], SpotPolicy]
Drawer = Callable[..., tuple[SpotJob, SpotMarket]]


@pytest.fixture
def follow() -> Follower:
    """Return what makes a policy of a list of places, one a step."""
    return lambda places: lambda situation: places[situation.step]


@pytest.fixture
def write_market() -> Writer:
    """Return what makes a market of one text for each zone: ``#`` where it has VMs, ``.`` where it has none."""

    def write(*zones: str, spot_usd: tuple[float, ...] | None = None) -> SpotMarket:
        available = np.array([[mark == "#" for mark in zone] for zone in zones])
        prices = np.tile(np.array((spot_usd or (1.0,) * len(zones))[: len(zones)])[:, None], available.shape[1])
        return SpotMarket(tuple("abcdef"[: len(zones)]), available, prices, 3.0, STEP_S)

    return write


@pytest.fixture
def draw() -> Drawer:
    """Return what draws a job whose deadline on demand can keep, and a market with prices that change."""

    def draw_one(stream: np.random.Generator, *, zones: int, deadline: int) -> tuple[SpotJob, SpotMarket]:
        restart = int(stream.integers(0, min(3, deadline)))
        work = int(stream.integers(1, deadline - restart + 1))
        job = SpotJob(work, deadline, restart, int(stream.integers(1, 4)), STEP_S)
        available = stream.random((zones, deadline)) < stream.uniform(0.2, 0.9)
        prices = stream.uniform(0.5, 2.0, (zones, deadline))
        return job, SpotMarket(tuple("abc"[:zones]), available, prices, 3.0, STEP_S)

    return draw_one
