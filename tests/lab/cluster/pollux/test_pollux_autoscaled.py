"""Pollux with autoscaling: bands, and how many nodes there are when jobs come and go."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.policies.pollux import PolluxAutoscaled, read_band
from optplan.lab.cluster.replaying import replay

#: Speedups 1, 1.6, 2, 2.4 on 1, 2, 4 and 8 GPUs; no pause.
SLOWING = TabledApplication(
    {k: np.array([6000.0 / s]) for k, s in ((1, 1.0), (2, 1.6), (4, 2.0), (8, 2.4))}, num_epochs=1
)


def test_bands() -> None:
    """A target has the paper's band, a band its middle; what is neither is refused."""
    assert read_band("0.5") == pytest.approx((0.35, 0.5, 0.65))
    assert read_band("0.9") == pytest.approx((0.87, 0.9, 0.93))
    assert read_band("0.3:0.5") == pytest.approx((0.3, 0.4, 0.5))
    for text in ("", "1.0", "half", "0.5:0.4", "0.1:0.2:0.3", "nan"):
        with pytest.raises(UsageError, match="target: got"):
            read_band(text)


@pytest.mark.parametrize(("target", "nodes"), [("0.5", 1), ("0.3", 2), ("0.25:0.35", 2)])
def test_one_job(target: str, nodes: int) -> None:
    """Four GPUs of a node are used at 2.0 / 4, eight of two at 2.4 / 8: a target of 0.5 needs one node, of 0.3 two."""
    outcome = replay([Job("a", "slowing", 0.0, SLOWING)], PolluxAutoscaled(target), gpus_per_node=4)
    assert outcome.nodes_rented.max() == nodes
    assert outcome.gpus_used.max() == 4 * nodes
    # A restart pays from 2 to 4 GPUs once (A - 30) / (A + 30) * 2 > 1.6, A > 270 s; to 8 once (A - 60) / (A + 30) * 2.4
    # is above 2, A > 510 s.
    assert outcome.times_s[outcome.gpus_used.argmax()] == (300.0 if nodes == 1 else 540.0)


def test_nodes_come_and_go() -> None:
    """Four jobs are content with three nodes at a target of 0.5, of which one is left when they are gone."""
    jobs = [Job(f"j{number}", "slowing", 1.0, SLOWING) for number in range(4)]
    jobs.append(Job("late", "slowing", 20_000.0, SLOWING))
    outcome = replay(jobs, make_policy("pollux-autoscaled:0.5"), gpus_per_node=4)
    assert outcome.nodes_rented.max() == 3  # two on four GPUs and two on two: (2 * 2.0 + 2 * 1.6) / 12 is in the band
    before, after = np.searchsorted(outcome.times_s, [19_000.0, 20_100.0], side="right") - 1
    assert outcome.nodes_rented[before] == 1
    assert outcome.gpus_used[before] == 0
    assert outcome.nodes_rented[after] == 1
    assert not outcome.problems


def test_a_target_is_needed() -> None:
    """The autoscaled policy has no default."""
    fix = r"^policy: pollux-autoscaled has no target to keep; .* pollux-autoscaled:0\.5 or"
    with pytest.raises(UsageError, match=fix):
        make_policy("pollux-autoscaled")
