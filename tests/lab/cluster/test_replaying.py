"""The replay: closed forms, permutations, conservation, and jobs that can never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import DataError, InternalError, UsageError
from optplan.lab.cluster.jobs import Job, Places, SchedulingPolicy, Sight, Spread, TabledApplication
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.in_turn import EqualShare, InTurn, LeastAttained, hold_one_width, hold_reservations
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.world import World
from optplan.lab.fields import Knowledge
from optplan.schema import FloatArray

#: Two epochs of 100 and 60 s on one GPU, of 60 and 30 s on two, of 40 and 20 s on four; 10 s for every start.
TOY = TabledApplication(
    {1: np.array([100.0, 60.0]), 2: np.array([60.0, 30.0]), 4: np.array([40.0, 20.0])}, num_epochs=2, rescale_s=10.0
)


def job(
    name: str = "a", at_s: float = 0.0, *, asks: int = 1, truth: TabledApplication = TOY, agent: Wiser | None = None
) -> Job:
    """Return a job of the toy application."""
    return Job(name, "toy", at_s, truth, asks, agent)


def jcts(outcome: Outcome) -> dict[str, float]:
    """Return completion times by job."""
    return dict(zip((one.name for one in outcome.jobs), outcome.jct_s.tolist(), strict=True))


def test_one_job_on_one_width() -> None:
    """One pause, then each epoch at its time: 10 + 60 + 30 s on two GPUs, of a node of four."""
    outcome = replay([job(at_s=5.0)], hold_one_width(2), gpus_per_node=4)
    assert jcts(outcome) == {"a": 100.0}
    assert outcome.gpu_hours == pytest.approx(200 / 3600)
    assert outcome.node_gpu_hours == pytest.approx(400 / 3600)
    assert (outcome.most_gpus, outcome.most_nodes, outcome.span_s) == (2, 1, 105.0)


class Wiser(TabledApplication):
    """A job that is twice as quick once it has learned."""

    knows = False

    def choose_batch(self, spread: Spread, epoch: int) -> float:
        """Return the time of the table, or half of it."""
        return float(self.epoch_s[sum(spread)][epoch]) * (0.5 if self.knows else 1.0)

    def learn(self, *_: object) -> None:
        """Know better from now on."""
        self.knows = True

    def believe(self, _: int) -> FloatArray:
        """Expect one GPU to be of use, and no more."""
        return np.array([[0.0, 1.0], [0.0, 0.0]])


def test_a_job_that_learns() -> None:
    """In rounds of 60 s it has done 50 of 100 s when it learns, at the second round; all that is left takes half."""
    truth = Wiser({1: np.array([100.0, 60.0])}, num_epochs=2, rescale_s=10.0)
    outcome = replay([job(at_s=60.0, truth=truth, agent=truth)], Pollux(Knowledge.LEARNED), gpus_per_node=4, nodes=1)
    assert jcts(outcome) == {"a": pytest.approx(60 + 25 + 30)}


def test_a_job_learns_from_an_epoch() -> None:
    """Without rounds it learns when its first epoch ends: 10 + 100 + 30 s."""
    truth = Wiser({1: np.array([100.0, 60.0])}, num_epochs=2, rescale_s=10.0)
    assert jcts(replay([job(truth=truth, agent=truth)], hold_one_width(1), gpus_per_node=4)) == {
        "a": pytest.approx(140.0)
    }


def test_a_width_that_changes_pauses_again() -> None:
    """One GPU for 10 + 100 s, then four for 10 + 20 s."""
    outcome = replay([job()], InTurn("grow", lambda one: (1, 4)[one.epochs_done]), gpus_per_node=4)
    assert jcts(outcome) == {"a": 140.0}
    assert outcome.gpu_hours == pytest.approx((110 + 4 * 30) / 3600)
    assert outcome.jobs[0].rescales == 1


def test_jobs_share_nodes() -> None:
    """Of three jobs of two GPUs, two share a node of four; whole nodes are billed."""
    outcome = replay([job(name) for name in "abc"], hold_one_width(2), gpus_per_node=4)
    assert outcome.most_nodes == 2
    assert outcome.node_gpu_hours == pytest.approx(800 / 3600)


def test_a_node_has_to_start() -> None:
    """The first job waits 30 s for its node, the second joins it on the node after 10 s and waits 20 s."""
    outcome = replay([job(), job("b", 10.0)], hold_one_width(2), gpus_per_node=4, start_s=30.0)
    assert jcts(outcome) == {"a": 130.0, "b": 120.0}


def test_a_job_pauses_on_a_node_that_is_there_already() -> None:
    """The second job comes 30 s after the node was ready, and pauses for 10 s like the first."""
    outcome = replay([job(), job("b", 60.0)], hold_one_width(2), gpus_per_node=4, start_s=30.0)
    assert jcts(outcome) == {"a": 130.0, "b": 100.0}


def test_a_job_goes_on_with_what_it_has_while_nodes_start() -> None:
    """On one GPU from 30 s on, it wants four of two nodes at 140 s, and does half of its second epoch until 170 s.

    Then it pauses for 10 s, and the other half takes 10 s on four: until 190 s. Where that is lost, 20 s until 200 s.
    """
    for loses, end_s in ((False, 190.0), (True, 200.0)):
        grow = InTurn("grow", lambda one: (1, 4)[one.epochs_done])
        outcome = replay([job()], grow, gpus_per_node=2, start_s=30.0, world=World(loses_epoch=loses))
        assert jcts(outcome) == {"a": end_s}
        assert outcome.gpu_hours * 3600 == pytest.approx(140.0 + 4 * (end_s - 170.0))
        assert outcome.node_gpu_hours * 3600 == pytest.approx(2 * end_s + 2 * (end_s - 140.0))


def test_who_waits_for_a_node_takes_what_others_leave_before() -> None:
    """The second job waits from 110 s for a node that is ready at 170 s, and begins at 160 s, when the first is over.

    The node of which it has no need any more is given back as soon as it is ready.
    """
    outcome = replay([job(), job("b", 110.0)], hold_one_width(2), gpus_per_node=2, start_s=60.0)
    assert jcts(outcome) == {"a": 160.0, "b": 150.0}
    assert outcome.gpu_hours * 3600 == pytest.approx(2 * 100.0 + 2 * 100.0)
    assert outcome.node_gpu_hours * 3600 == pytest.approx(2 * 260.0 + 2 * 60.0)


def test_a_fixed_cluster_makes_jobs_wait_in_turn() -> None:
    """Four GPUs: the second job needs them all and waits for the first, the third does not overtake it."""
    jobs = [job("a", 0.0, asks=2), job("b", 1.0, asks=4), job("c", 2.0, asks=1)]
    outcome = replay(jobs, hold_reservations(), gpus_per_node=4, nodes=1)
    # a: until 100; b: 10 + 60 s until 170; c: 10 + 160 s until 340.
    assert jcts(outcome) == {"a": 100.0, "b": 169.0, "c": 338.0}
    assert outcome.node_gpu_hours == pytest.approx(4 * 340 / 3600)


def test_gpus_here_and_there() -> None:
    """On a fixed cluster a job takes what is left on several nodes; truth knows how its GPUs are spread."""
    seen = []

    class Watched(TabledApplication):
        def epoch_times_s(self, spread: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
            seen.append(spread)
            return super().epoch_times_s(spread)

    watched = Watched({2: np.array([5.0])}, num_epochs=1)
    three = TabledApplication({3: np.array([50.0])}, num_epochs=1)
    jobs = [job("a", asks=3, truth=three), job("b", asks=3, truth=three), job("c", 1.0, asks=2, truth=watched)]
    outcome = replay(jobs, hold_reservations(), gpus_per_node=4, nodes=2)
    assert seen == [(2,), (1, 1), (2,)]  # to be admitted, to run, and to be told how efficient that was
    assert jcts(outcome)["c"] == 5.0


def test_empty_jobs_and_empty_epochs() -> None:
    """A job without epochs is complete when it arrives; epochs may take no time at all."""
    nothing = TabledApplication({1: np.empty(0)}, num_epochs=0)
    instant = TabledApplication({1: np.zeros(3)}, num_epochs=3)
    outcome = replay([job(truth=nothing), job("b", truth=instant)], hold_one_width(1), gpus_per_node=1)
    assert jcts(outcome) == {"a": 0.0, "b": 0.0}
    assert outcome.gpu_hours == 0.0


@pytest.mark.parametrize("policy", [hold_reservations, LeastAttained])
def test_a_job_that_never_fits_is_reported(policy: type[SchedulingPolicy]) -> None:
    """A job that asks for more than there is, or for a width on which it cannot run, does not keep others waiting."""
    outcome = replay([job(asks=8), job("b", asks=3), job("c", 1.0)], policy(), gpus_per_node=4, nodes=1)
    assert set(outcome.problems) == {"a", "b"}
    assert "the cluster has 4" in outcome.problems["a"]
    assert "on which toy cannot run" in outcome.problems["b"]
    assert outcome.summarise()["completed"] == 1


def test_a_job_that_stops_running_is_reported() -> None:
    """A width of a later epoch on which nothing runs ends the job, and its GPUs are free."""
    outcome = replay([job()], InTurn("bad", lambda one: (1, 3)[one.epochs_done]), gpus_per_node=4)
    assert outcome.problems == {"a": "toy cannot run on 3 GPUs spread as (3,)"}
    assert outcome.summarise()["mean_jct_s"] is None


class _Idle:
    """A policy that gives nobody anything."""

    name = "idle"

    def __init__(self, interval_s: float | None) -> None:
        self.interval_s = interval_s

    def need(self, _: Job) -> int:
        return 1

    def allocate(self, _: Sight) -> Mapping[Job, int]:
        return {}


@pytest.mark.parametrize("interval_s", [None, 60.0])
def test_a_policy_that_gives_nothing_ends(interval_s: float | None) -> None:
    """Jobs that wait for nothing are reported, not looped over."""
    outcome = replay([job(), job("b", 100.0)], _Idle(interval_s), gpus_per_node=4, nodes=1)
    assert set(outcome.problems) == {"a", "b"}


def test_equal_share_of_jobs_that_need_several() -> None:
    """On four GPUs, a job that needs three holds them and leaves one to the next; the one after it waits a round."""
    wide = TabledApplication({3: np.array([30.0])}, num_epochs=1)
    narrow = TabledApplication({1: np.array([50.0])}, num_epochs=1)
    jobs = [job("a", truth=wide), job("b", truth=narrow), job("c", truth=wide)]
    outcome = replay(jobs, EqualShare(), gpus_per_node=4, nodes=1)
    assert jcts(outcome) == {"a": 30.0, "b": 50.0, "c": 90.0}
    nowhere = TabledApplication({}, num_epochs=1)
    outcome = replay([job("a", truth=nowhere), job("b")], EqualShare(), gpus_per_node=2, nodes=1)
    assert outcome.problems == {"a": "toy cannot run on any number of these GPUs"}
    outcome = replay([job("a", truth=wide)], EqualShare(), gpus_per_node=2, nodes=1)
    assert outcome.problems == {"a": "equal-share needs 3 GPUs for it, and the cluster has 2"}


def test_equal_share_by_rounds() -> None:
    """Four GPUs, rounds of 60 s: alone with four; then two each; what the table has no width for is rounded down."""
    outcome = replay([job("a"), job("b", 30.0)], EqualShare(), gpus_per_node=4, nodes=1)
    # a: 10 s of pause, 40 + 10 of 20 s until 60; on two GPUs 10 s and the other half of 30 s: 85.
    # b: from 60 on two, 10 + 50 of 60 s until 120; on four 10 s, 1/6 of 40 s and 20 s.
    assert jcts(outcome) == {"a": 85.0, "b": pytest.approx(120 + 10 + 40 / 6 + 20 - 30)}


def test_least_attained_stops_who_has_had_much() -> None:
    """With a threshold of 50 GPU-seconds, the first job is stopped for the second in the round after it passed it."""
    long = TabledApplication({1: np.array([100.0])}, num_epochs=1)
    policy = LeastAttained(threshold_gpu_hours=50 / 3600)
    outcome = replay([job("a", truth=long), job("b", 30.0, truth=long)], policy, gpus_per_node=1, nodes=1)
    # a: 0 to 60, then b until 120: both have had their 50 and a came into the second queue first: 120 to 160;
    # b goes on in the next round, 180 to 220.
    assert jcts(outcome) == {"a": 160.0, "b": 190.0}
    assert [one.rescales for one in outcome.jobs] == [1, 1]


@pytest.mark.parametrize("policy", [EqualShare, LeastAttained])
def test_policies_that_divide_need_a_size(policy: type[SchedulingPolicy]) -> None:
    """What is divided has to have an end."""
    with pytest.raises(UsageError, match="--nodes"):
        replay([job()], policy(), gpus_per_node=4)


def test_wrong_jobs() -> None:
    """Arrivals before zero, and two jobs of one name, are refused with the job's name."""
    with pytest.raises(DataError, match=r"jobs\.a\.submitted_s"):
        replay([job(at_s=-1.0)], hold_one_width(1), gpus_per_node=4)
    with pytest.raises(DataError, match="two jobs"):
        replay([job(), job(at_s=3.0)], hold_one_width(1), gpus_per_node=4)
    with pytest.raises(UsageError, match="from 1 to 1,000,000 are allowed"):
        replay([job()], hold_one_width(1), gpus_per_node=4, nodes=0)


def _make_trace(numbers: Sequence[tuple[int, int, int]]) -> list[Job]:
    return [job(f"j{place}", float(at_s), asks=asks) for place, (at_s, asks, _) in enumerate(numbers)]


POLICIES: dict[str, Callable[[], SchedulingPolicy]] = {
    "one": lambda: hold_one_width(2),
    "grow": lambda: InTurn("grow", lambda one: (1, 4)[one.epochs_done]),
    "reservation": hold_reservations,
    "equal": EqualShare,
    "least": lambda: LeastAttained(100 / 3600),
}
TRACES = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from([1, 2, 4]), st.integers(0, 99)), min_size=1, max_size=12
)


@settings(max_examples=40)
@given(numbers=TRACES, which=st.sampled_from(sorted(POLICIES)), nodes=st.integers(1, 3))
def test_everything_is_accounted_for(numbers: list[tuple[int, int, int]], which: str, nodes: int) -> None:
    """Any trace on any size under any policy: all complete, sums agree, and the order of the rows changes nothing."""
    outcome = replay(_make_trace(numbers), POLICIES[which](), gpus_per_node=4, nodes=nodes)
    assert not outcome.problems
    assert outcome.most_gpus <= 4 * nodes
    trace = _make_trace(numbers)
    mixed = [one for _, one in sorted(zip(numbers, trace, strict=True), key=lambda pair: pair[0][2])]
    again = replay(mixed, POLICIES[which](), gpus_per_node=4, nodes=nodes)
    assert jcts(again) == jcts(outcome)
    assert again.node_gpu_hours == outcome.node_gpu_hours
    # Little's law over the whole trace: the integral of the jobs present is the sum of their times.
    ends = np.array([one.completed_s for one in outcome.jobs])
    starts = np.array([one.submitted_s for one in outcome.jobs])
    times = np.unique([*starts, *ends])
    present = [(starts <= t).sum() - (ends <= t).sum() for t in times[:-1]]
    assert np.dot(present, np.diff(times)) == pytest.approx(outcome.jct_s.sum())


class _Scripted:
    """A policy that does what it is told, round by round, on as many nodes as it is told."""

    name, interval_s = "scripted", 60.0

    def __init__(self, rounds: Sequence[tuple[int, Mapping[str, Places]]]) -> None:
        self._rounds = iter(rounds)
        self._wishes: Mapping[str, Places] = {}

    def need(self, _: Job) -> int:
        return 1

    def choose_nodes(self, sight: Sight) -> int:
        count, self._wishes = next(self._rounds, (len(sight.nodes), {}))
        return count

    def allocate(self, sight: Sight) -> Mapping[Job, Places]:
        return {one: self._wishes[one.name] for one in sight.jobs if one.name in self._wishes}


def test_a_policy_chooses_nodes_and_their_number() -> None:
    """Two jobs swap their nodes at once, a third node comes and goes, and an empty one is given up."""
    flat = TabledApplication({1: np.array([300.0]), 4: np.array([75.0])}, num_epochs=1, rescale_s=10.0)
    rounds: list[tuple[int, Mapping[str, Places]]] = [
        (2, {"a": ((0, 1),), "b": ((1, 4),)}),  # a: 50 of 300 s done, b: 50 of 75 s
        (3, {"a": ((1, 1),), "b": ((0, 4),)}),  # a: 100 of 300 s, b is done after 10 + 25 s
        (1, {}),  # a stays where it is
    ]
    jobs = [job("a", truth=flat), job("b", truth=flat)]
    outcome = replay(jobs, _Scripted(rounds), gpus_per_node=4, nodes=1)
    assert jcts(outcome) == {"a": 10 + 50 + 10 + 250, "b": 95.0}
    assert [one.rescales for one in outcome.jobs] == [1, 1]
    assert outcome.nodes_rented.tolist() == [2, 3, 3, 1, 1]
    assert outcome.times_s.tolist() == [0.0, 60.0, 95.0, 120.0, 320.0]


def test_a_policy_cannot_take_what_another_holds() -> None:
    """Places that are taken, and nodes that are given up with a job on them, stop everything."""
    for second, message in (((2, {"b": ((0, 4),)}), "are free"), ((1, {"a": ((1, 1),)}), "given up|are free")):
        policy = _Scripted([(2, {"a": ((0, 1),)}), second])
        with pytest.raises(InternalError, match=message):
            replay([job("a"), job("b")], policy, gpus_per_node=4, nodes=2)


def test_figures_over_time() -> None:
    """Two GPUs for 100 s, then nobody until 700 s, then four GPUs until 770 s.

    On two GPUs the epochs, of 100 and 60 s on one, take 10 + 60 + 30 s: 160 GPU-seconds of work in 200. On four they
    take 10 + 40 + 20 s: 160 in 280.
    """
    widths = {"a": 2, "b": 4}
    outcome = replay([job("a"), job("b", 700.0)], InTurn("two", lambda one: widths[one.name]), gpus_per_node=4)
    told = outcome.to_json_data()
    assert told["over_time"]["gpus_used"] == pytest.approx([200 / 600, 280 / 600])
    assert told["over_time"]["gpus_rented"] == pytest.approx([400 / 600, 280 / 600])
    assert told["over_time"]["efficiency"] == pytest.approx([0.8, 160 / 280])
    assert told["efficiency"] == pytest.approx(320 / 480)
    assert told["utilisation"] == pytest.approx(480 / 680)
    assert told["mean_gpus"] == pytest.approx(480 / 770)
    assert told["mean_rented_gpus"] == pytest.approx(680 / 770)
    # Nobody for 600 of 770 s, two GPUs for 100, four for 70: 0 until 77.9 %, 2 until 90.9 %.
    assert [outcome.gpus_in_use_at(share) for share in (0.5, 600 / 770, 0.78, 0.9, 0.95)] == [0, 0, 2, 2, 4]
    assert (told["p50_gpus"], told["p95_gpus"], told["p99_gpus"]) == (0, 4, 4)


def test_work_across_stretches_of_time() -> None:
    """An epoch of 1600 s from 100 s on does 500, 600 and 500 of its GPU-seconds in three stretches of 600 s."""
    long = TabledApplication({1: np.array([1600.0])}, num_epochs=1)
    outcome = replay([job(at_s=100.0, truth=long)], hold_one_width(1), gpus_per_node=1)
    assert outcome.work_gpu_s.tolist() == pytest.approx([500.0, 600.0, 500.0])
    assert outcome.tell_over_time()["gpus_used"] == pytest.approx([5 / 6, 1.0, 5 / 6])


def test_stretches_of_time_double() -> None:
    """An arrival after a billion seconds, by a slip of the unit, takes longer stretches and not all of the memory."""
    outcome = replay([job(), job("b", 1e9)], hold_one_width(2), gpus_per_node=2)
    told = outcome.tell_over_time()
    assert outcome.work_gpu_s.size <= 16_384
    assert told["stretch_s"] == 600.0 * 2**7  # 16,384 of 600 s are 9.8e6 s
    assert outcome.work_gpu_s.sum() == pytest.approx(320.0)
    assert sum(told["gpus_used"]) * told["stretch_s"] == pytest.approx(400.0)


def test_a_job_that_needs_absurdly_many_gpus() -> None:
    """It is reported, whatever the memory that listing its nodes would take."""
    outcome = replay([job(asks=10**12), job("b")], hold_reservations(), gpus_per_node=4)
    assert outcome.problems == {"a": "reservation needs 1000000000000 GPUs for it; up to 10,000 are simulated"}


def test_waiting_is_told() -> None:
    """The second job waits for the first: 170 s before it starts; then both have changed nothing."""
    outcome = replay([job("a"), job("b")], hold_one_width(1), gpus_per_node=1, nodes=1)
    told = outcome.to_json_data()
    assert [one["queued_s"] for one in told["jobs"]] == [0.0, 170.0]
    assert [one["waited_s"] for one in told["jobs"]] == [0.0, 170.0]
    assert told["mean_queued_s"] == 85.0
    assert told["rescales_per_job"] == 0.0


def test_wrong_sums_are_found() -> None:
    """A GPU-second that nobody held, or a job that is neither completed nor reported, stops everything."""
    outcome = replay([job()], hold_one_width(2), gpus_per_node=4)
    outcome.jobs[0].gpu_s += 1.0
    with pytest.raises(InternalError, match="GPU-hours"):
        outcome.check()
    outcome.jobs[0].gpu_s -= 1.0
    outcome.jobs[0].completed_s = None
    with pytest.raises(InternalError, match="neither completed nor reported"):
        outcome.check()
