"""Clusters that are less than ideal: reclaimed nodes, interference, interruptions, stragglers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.cluster.jobs import Job, Places, SchedulingPolicy, Sight, TabledApplication
from optplan.lab.cluster.policies.boa import Scheduled
from optplan.lab.cluster.policies.in_turn import EqualShare, InTurn, hold_one_width
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.policies.price_that_fits import PriceThatFits
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.world import Law, World
from optplan.solving import build_plan, solve


def lasting(*epochs_s: float, widths: tuple[int, ...] = (1,), rescale_s: float = 0.0) -> TabledApplication:
    """Return an application whose epochs take the same on each width."""
    return TabledApplication({k: np.array(epochs_s) for k in widths}, len(epochs_s), rescale_s)


def test_nodes_are_paid_until_they_are_reclaimed() -> None:
    """A node is used for 100 s and paid for 30 more; it counts with its 4 GPUs, and only in what is billed."""
    outcome = replay(
        [Job("a", "toy", 5.0, lasting(100.0))], hold_one_width(1), gpus_per_node=4, world=World(reclaim_s=30)
    )
    assert outcome.node_gpu_hours == pytest.approx(400 / 3600)
    assert outcome.billed_gpu_hours == pytest.approx(520 / 3600)


def test_a_node_that_is_rented_again_is_warm() -> None:
    """The first start takes 120 s; 10 s after its end the node is back in 20 s, and in 120 s after it was reclaimed."""
    jobs = [Job(name, "toy", at_s, lasting(100.0)) for name, at_s in (("a", 0.0), ("b", 230.0), ("c", 1000.0))]
    world = World(reclaim_s=30.0, warm_start_s=20.0)
    outcome = replay(jobs, hold_one_width(1), gpus_per_node=1, start_s=120.0, world=world)
    assert outcome.jct_s.tolist() == [220.0, 120.0, 220.0]
    # 10 s before the second start, and 30 s after the second and the third end.
    assert outcome.billed_gpu_hours - outcome.node_gpu_hours == pytest.approx(70 / 3600)


def test_what_would_change_nothing_is_refused() -> None:
    """Nodes that are gone at once are never warm."""
    with pytest.raises(DataError, match=r"^warm_start_s: got 20, and no node that was given back is .* \(reclaim_s"):
        World.parse({"warm_start_s": 20.0})
    assert World.parse({"reclaim_s": 30.0, "warm_start_s": 20.0}).reclaim_s == 30.0


class _Patient:
    """Rents a node at 60 s, and uses it in the first round in which it is ready."""

    name = "patient"
    interval_s = 60.0

    def need(self, _: Job) -> int:
        """Return 1."""
        return 1

    def choose_nodes(self, sight: Sight) -> int:
        """Two nodes from the second round on."""
        return 2 if sight.now_s >= 60.0 else 1

    def allocate(self, sight: Sight) -> Mapping[Job, Places]:
        """Put the job on the second node."""
        there = [node for node in sight.nodes if node]
        return {job: ((node, 1),) for job in sight.jobs for node in there}


def test_rounds_go_on_while_nodes_start() -> None:
    """The node is asked for at 60 s, there at 190, and used in the round of 240; nothing else happens until then."""
    outcome = replay([Job("a", "toy", 10.0, lasting(5.0))], _Patient(), gpus_per_node=1, nodes=1, start_s=130.0)
    assert outcome.jct_s.tolist() == [235.0]


def test_interference_by_hand() -> None:
    """Two jobs of three GPUs share one of three nodes of two, and have half their speed there.

    The first has done 10 of 30 s when the second comes, and takes 40 s for the rest, until 50. The second has done
    40 of 60 s by then, and takes 10 for the rest: until 60.
    """
    jobs = [Job("a", "toy", 0.0, lasting(30.0, widths=(3,))), Job("b", "toy", 10.0, lasting(30.0, widths=(3,)))]
    for loss, expected in ((0.5, [50.0, 50.0]), (0.0, [30.0, 30.0])):
        fresh = [Job(one.name, "toy", one.submitted_s, one.truth) for one in jobs]
        world = World(interference=loss)
        outcome = replay(fresh, hold_one_width(3), gpus_per_node=2, nodes=3, world=world)
        assert outcome.jct_s.tolist() == pytest.approx(expected)


def test_jobs_on_one_node_are_not_slowed_down() -> None:
    """Jobs of one GPU share a node with each other and with the end of a large one."""
    widths = {"a": 3, "b": 1}
    jobs = [Job("a", "toy", 0.0, lasting(30.0, widths=(3,))), Job("b", "toy", 0.0, lasting(30.0))]
    policy = InTurn("two", lambda one: widths[one.name])
    outcome = replay(jobs, policy, gpus_per_node=2, nodes=2, world=World(interference=0.5))
    assert outcome.jct_s.tolist() == [30.0, 30.0]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace in which the only VM is lost every 200 s."""
    path = tmp_path / "spot.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 100}, "data": [1, 0]}))
    return path


@pytest.mark.parametrize("nodes", [None, 1])
def test_losses_of_a_trace(trace: Path, nodes: int | None) -> None:
    """Each loss costs a pause of 10 s; where the epoch begins again, the first one costs all until then."""
    first_s = (100.0 - np.random.default_rng([3, 1]).uniform(0.0, 200.0)) % 200.0
    job = Job("a", "toy", 0.0, lasting(300.0, 100.0, rescale_s=10.0))
    world = World(spot_trace=str(trace))
    outcome = replay([job], hold_one_width(1), gpus_per_node=1, nodes=nodes, world=world, seed=3)
    assert job.interruptions == job.rescales > 0
    assert outcome.jct_s[0] == pytest.approx(410.0 + 10.0 * job.interruptions)
    assert job.interruptions == np.sum(first_s + 200.0 * np.arange(9) < outcome.jct_s[0])
    again = Job("a", "toy", 0.0, lasting(150.0, rescale_s=10.0))
    world = world.replace(loses_epoch=True)
    outcome = replay([again], hold_one_width(1), gpus_per_node=1, nodes=nodes, world=world, seed=3)
    assert 10.0 < first_s < 160.0
    assert outcome.jct_s[0] == pytest.approx(first_s + 160.0)
    assert outcome.efficiency == pytest.approx(150.0 / (first_s + 160.0))


CLASS = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [300 / 3600, 100 / 3600], "rescale_s": 10.0}
PRICED = BoaInstance.parse(
    {
        "name": "lasting",
        "formulation": "boa",
        "problem": "rescaling",
        "gpu_types": {"gpu": {"gpus_per_node": 1}},
        "budget": "1gpu",
        "classes": {"toy": {**CLASS, "speedup": {"gpu": {"form": "table", "gpus": [1], "speedup": [1.0]}}}},
    }
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hold_one_width(1),
        lambda: Scheduled(build_plan(PRICED, solve(PRICED))),
        lambda: PriceThatFits(PRICED),
        EqualShare,
        Pollux,
    ],
)
def test_nobody_holds_a_node_that_starts(trace: Path, make: Callable[[], SchedulingPolicy]) -> None:
    """The only node is lost every 200 s, and another is there 20 s later: in the next round where a policy has rounds.

    Until then the job holds nothing; what it had done stays done, and it pauses for 10 s.
    """
    policy = make()
    job = Job("a", "toy", 0.0, lasting(300.0, 100.0, rescale_s=10.0), 1)
    world, round_s = World(spot_trace=str(trace)), policy.interval_s or 1e-9
    outcome = replay([job], policy, gpus_per_node=1, nodes=1, start_s=20.0, world=world, seed=3)
    at_s, lost_s, left_s, held_s = 0.0, (100.0 - np.random.default_rng([3, 1]).uniform(0.0, 200.0)) % 200.0, 400.0, 0.0
    while at_s + 10.0 + left_s > lost_s:
        left_s -= lost_s - at_s - 10.0
        held_s += lost_s - at_s
        at_s, lost_s = math.ceil((lost_s + 20.0) / round_s) * round_s, lost_s + 200.0
    assert job.interruptions >= 2
    assert outcome.jct_s[0] == pytest.approx(at_s + 10.0 + left_s)
    assert outcome.gpu_hours * 3600 == pytest.approx(held_s + 10.0 + left_s)
    assert outcome.node_gpu_hours * 3600 == pytest.approx(at_s + 10.0 + left_s)


def test_a_job_whose_epochs_are_too_long_is_reported(trace: Path) -> None:
    """An epoch of 300 s never ends where a node is lost every 200 s and the epoch begins again."""
    world = World(spot_trace=str(trace), loses_epoch=True)
    outcome = replay([Job("a", "toy", 0.0, lasting(300.0))], hold_one_width(1), gpus_per_node=1, world=world)
    assert "interrupted 1000 times" in outcome.problems["a"]


def test_nodes_are_lost_at_a_rate() -> None:
    """400 jobs of an hour on a node each, at 0.5 an hour: 200 losses, give or take 4 times the root of that."""
    jobs = [Job(f"j{number}", "toy", 0.0, lasting(3600.0)) for number in range(400)]
    world = World(interruptions_per_node_hour=0.5)
    outcome = replay(jobs, hold_one_width(1), gpus_per_node=1, world=world)
    assert abs(sum(one.interruptions for one in jobs) - 200) < 4 * 200**0.5
    assert outcome.jct_s.tolist() == pytest.approx([3600.0] * 400)


@pytest.mark.parametrize("law", list(Law))
def test_stragglers(law: Law) -> None:
    """The mean factor of many epochs is 1, its deviation as given, and no policy changes what is drawn for a job."""
    world = World(straggling=0.2, straggling_law=law)
    factors = world.draw_factors("a", 20_000, seed=5)
    assert factors is not None
    assert factors.mean() == pytest.approx(1.0, abs=0.01)
    assert factors.std() == pytest.approx(0.2, abs=0.01)
    total_s = []
    for gpus in (1, 2):
        truth = lasting(*[1.0] * 50, widths=(1, 2))
        job = Job("a", "toy", 0.0, truth)
        total_s.append(replay([job], hold_one_width(gpus), gpus_per_node=2, world=world, seed=5).jct_s[0])
    assert total_s == pytest.approx([world.draw_factors("a", 50, 5).sum()] * 2)  # type: ignore[union-attr]


@settings(max_examples=30)
@given(
    arrivals=st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 2, 3])), min_size=1, max_size=8),
    nodes=st.sampled_from([None, 2]),
    seed=st.integers(0, 99),
    loses_epoch=st.booleans(),
)
def test_everything_is_accounted_for(
    arrivals: list[tuple[int, int]], nodes: int | None, seed: int, loses_epoch: bool
) -> None:
    """With all of it at once every job is completed, sums agree, and the order of the rows changes nothing."""
    world = World(
        reclaim_s=0.0 if nodes else 20.0,  # nodes that stay are never given back
        warm_start_s=None if nodes else 1.0,
        interference=0.3,
        interruptions_per_node_hour=20.0,
        loses_epoch=loses_epoch,
        straggling=0.3,
    )
    truth = lasting(40.0, 20.0, widths=(1, 2, 3), rescale_s=5.0)
    orders = []
    for step in (1, -1):
        jobs = [Job(f"j{number}", "toy", at_s, truth, gpus) for number, (at_s, gpus) in enumerate(arrivals)]
        policy = EqualShare() if nodes and seed % 2 else InTurn("asked", lambda one: one.requested_gpus or 1)
        outcome = replay(jobs[::step], policy, gpus_per_node=2, nodes=nodes, start_s=3.0, world=world, seed=seed)
        assert not outcome.problems
        assert outcome.billed_gpu_hours >= outcome.node_gpu_hours >= outcome.gpu_hours > 0.0
        assert sum(one.work_gpu_s for one in jobs) == pytest.approx(60.0 * len(jobs))
        orders.append(outcome.to_json_data())
    assert orders[0] == orders[1]


def test_wrong_worlds(tmp_path: Path) -> None:
    """The field that is wrong is named."""
    with pytest.raises(DataError, match=r"^interference: got 1\.0"):
        World(interference=1.0)
    with pytest.raises(DataError, match=r"^reclaim_s"):
        World(reclaim_s=-1.0)
    with pytest.raises(DataError, match=r"none\.json"):
        replay([], hold_one_width(1), gpus_per_node=1, world=World(spot_trace=str(tmp_path / "none.json")))
