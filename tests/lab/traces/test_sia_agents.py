"""Agents that learn: what they expect before and after, what they choose, and how long epochs take then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.lab.traces.sia import derive_epochs, read_profile
from optplan.lab.traces.sia_agents import Agent
from optplan.lab.traces.sia_workloads import APPLICATIONS

CIFAR = APPLICATIONS["cifar10"]


def test_an_agent_begins_with_the_least_batch(data_pack: Path) -> None:
    """128 samples on one GPU, of which one pass makes one unit of progress; speeds are linear as far as it knows."""
    agent = Agent(read_profile(data_pack / "sia" / "traces", CIFAR, "aws"))
    within, across = agent.believe(8)
    assert within.tolist() == list(range(9))
    assert across.tolist() == [0, 0, *range(2, 9)]
    profile = derive_epochs(data_pack / "sia" / "traces", "cifar10", "aws", [1], fixed_batch=128)
    assert agent.choose_batch((1,), 0) == pytest.approx(profile.sizes_s[0], rel=0.01)  # progress against iterations


def test_an_agent_finds_the_best_batch(data_pack: Path) -> None:
    """After some choices it runs within a seventh of one that knows all, and never faster; times get the slowdown."""
    agent = Agent(read_profile(data_pack / "sia" / "traces", CIFAR, "aws"), slowdown=1.8)
    for spread in [(1,), (2,), (4,), (4, 4)]:
        for _ in range(4):
            agent.choose_batch(spread, 50)
            agent.learn(spread, 50)
    best = derive_epochs(data_pack / "sia" / "traces", "cifar10", "aws", [1, 8], slowdown=True)
    best_s = float(best.sizes_s[50] / best.speedup[50, 1])
    assert best_s * (1 - 1e-9) <= agent.choose_batch((4, 4), 50) <= 1.15 * best_s
    within, across = agent.believe(64)
    assert np.all(np.diff(within[1:5]) > 0)
    # It has seen that two nodes synchronise more slowly than one.
    assert across[4] < within[4]
