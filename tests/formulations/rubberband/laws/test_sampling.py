"""The sampled simulator: the graph walked, near the exact expectations, and the same luck for all plans."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from optplan.errors import DataError, UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate, on_time_probability
from optplan.formulations.rubberband.laws import sampling
from optplan.formulations.rubberband.laws.lifetimes import list_runs
from optplan.formulations.rubberband.laws.sampling import (
    Drawn,
    Queue,
    Samples,
    StageLatencies,
    StageSource,
    estimate_mean,
    sample_plan,
)
from optplan.schema import FloatArray

from .execution_graphs import Node, Task, build_dag

FinishTimes = Callable[[Any, Mapping[Node, float]], dict[Node, float]]

Case = tuple[RubberBandInstance, RubberBandSolution]

#: Seconds of an iteration by GPUs.
SECONDS = {1: 8.0, 2: 5.0, 4: 4.0, 8: 4.0}


def build(
    *stages: tuple[int, int],
    training: dict[str, Any] | None = None,
    cloud: dict[str, Any] | None = None,
    **fields: Any,  # noqa: ANN401 - fields of the instance
) -> RubberBandInstance:
    """Return a search of (trials, iterations) on instances of two GPUs for $36 an hour, 1 cent a second."""
    listed = [{"trials": trials, "iterations": iterations} for trials, iterations in stages]
    return RubberBandInstance.parse(
        {
            "formulation": "rubberband",
            "experiment": {"form": "stages", "stages": listed},
            "training": {"seconds_per_iteration": SECONDS} | (training or {}),
            "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 36.0, "minimum_charge_s": 0.0} | (cloud or {}),
        }
        | fields
    )


def allocate(*stages: tuple[int, int]) -> RubberBandSolution:
    """Return a solution of one bracket from (instances, GPUs)."""
    return RubberBandSolution.parse({"brackets": [[{"instances": m, "gpus": a} for m, a in stages]]})


#: Everything is noisy.
NOISY = build(
    (6, 12),
    (3, 12),
    (1, 24),
    training={
        "iteration_noise": {"form": "log-normal", "sd_fraction": 0.5},
        "trial_noise": {"form": "normal", "sd_fraction": 0.1},
        "start_s": {"form": "log-normal", "mean_s": 10.0, "sd_s": 5.0},
    },
    cloud={
        "provision_s": {"form": "log-normal", "mean_s": 20.0, "sd_s": 10.0},
        "initialise_s": {"form": "log-normal", "mean_s": 30.0, "sd_s": 10.0},
    },
)


# --------------------------------------------------------------------------------------------------- worked out by hand


GROWING = build((5, 1), (2, 2), (1, 5), cloud={"provision_s": 20.0, "initialise_s": 30.0})
#: 5 trials on 2 GPUs: 3 waves of 8 s. 2 trials on 2 GPUs each, held by 4 instances: 10 s. 1 trial on 2 GPUs: 25 s.
GROWN = allocate((1, 2), (4, 4), (2, 2))
# Stage times with growth: 50 + 24, 50 + 10, 25. Instances: one from 20 to 134 (after stage 2), three from 74 + 20, of
# which one goes at 134 and two at 159.
LIVES_S = (114.0, 40.0, 65.0, 65.0)


def test_time_and_cost_of_a_plan_without_noise() -> None:
    """Held instances pay while others are added, new ones from the start of their initialisation."""
    samples = sample_plan(GROWING, GROWN, samples=3)
    assert samples.completion_s.tolist() == [159.0] * 3
    assert samples.stage_s[0].tolist() == [[74.0, 60.0, 25.0]] * 3
    assert samples.growth_s[0].tolist() == [[50.0, 50.0, 0.0]] * 3
    assert samples.cost_usd == pytest.approx([0.01 * sum(LIVES_S)] * 3)
    assert samples.held_gpu_s == pytest.approx([2 * sum(LIVES_S)] * 3)
    # Busy: 5 trials of 8 s on 1 GPU, 2 of 10 s on 2 GPUs, one of 25 s on 2 GPUs.
    assert samples.busy_gpu_s == pytest.approx([40.0 + 40.0 + 50.0] * 3)


def test_minimum_charge_is_of_each_instance() -> None:
    """With a minimum of 60 s, only the instance that lived 40 s pays more."""
    instance = GROWING.replace(cloud=GROWING.cloud.replace(minimum_charge_s=60.0))
    assert sample_plan(instance, GROWN, samples=1).cost_usd == pytest.approx([0.01 * (sum(LIVES_S) + 20.0)])


def test_data_is_paid_by_new_instances() -> None:
    """One instance and three more download 10 GB for $0.02 each, under either billing."""
    data = {"data_gb": 10.0, "data_price_usd_per_gb": 0.02}
    for billing, compute_usd in (("per-instance", 0.01 * sum(LIVES_S)), ("per-function", 0.005 * 130.0)):
        instance = GROWING.replace(cloud=GROWING.cloud.replace(billing=billing, **data))
        assert sample_plan(instance, GROWN, samples=1).cost_usd == pytest.approx([compute_usd + 4 * 0.2])


def test_functions_pay_for_busy_time_only() -> None:
    """Per function there is no minimum charge, and nothing is paid for growth and idle instances."""
    instance = GROWING.replace(cloud=GROWING.cloud.replace(billing="per-function", minimum_charge_s=1000.0))
    assert sample_plan(instance, GROWN, samples=1).cost_usd == pytest.approx([0.005 * 130.0])


def test_dynamic_queue_gives_the_next_trial_to_the_first_free_slot() -> None:
    """Trials of 9, 2, 3 and 4 s on two slots: chains end at 12 and 6, one line at 9 and 2 + 3 + 4."""
    train_s = np.array([[9.0, 2.0, 3.0, 4.0]])
    assert sampling.run_trials(train_s, 2, Queue.CHAINS).tolist() == [12.0]
    assert sampling.run_trials(train_s, 2, Queue.DYNAMIC).tolist() == [9.0]
    assert train_s.tolist() == [[9.0, 2.0, 3.0, 4.0]]


def test_brackets_side_by_side() -> None:
    """The slowest bracket is when the search completes; costs add up."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}
    instance = build((1, 1), training={"trial_noise": {"form": "normal", "sd_fraction": 0.1}}).replace(
        experiment=experiment
    )
    chains = [[{"instances": 1, "gpus": 2} for _ in chain] for chain in instance.brackets]
    for chain, stages in zip(chains, instance.brackets, strict=True):
        for allocation, stage in zip(chain, stages, strict=True):
            allocation["gpus"] = min(2, stage.trials)
    samples = sample_plan(instance, RubberBandSolution.parse({"brackets": chains}), samples=50)
    ends_s = np.stack([stage_s.sum(axis=1) for stage_s in samples.stage_s])
    assert len(samples.stage_s) == 3
    assert samples.completion_s == pytest.approx(ends_s.max(axis=0))
    # Nothing is released before the end, and there are no delays: each cluster's one instance pays all of its time.
    assert samples.cost_usd == pytest.approx(0.01 * ends_s.sum(axis=0))
    # Side by side brackets have luck of their own.
    assert abs(np.corrcoef(ends_s)[0, 1]) < 0.5


# ---------------------------------------------------------------------------------------- the same as walking the graph

DISTRIBUTIONS = st.one_of(
    st.sampled_from([0.0, 5.0, 40.0]),
    st.builds(
        lambda form, mean, spread: {"form": form, "mean_s": mean, "sd_s": spread * mean},
        st.sampled_from(["normal", "log-normal"]),
        st.sampled_from([3.0, 30.0]),
        st.sampled_from([0.05, 0.14, 0.8]),
    ),
    st.just({"form": "empirical", "values_s": [5.0, 6.0, 6.0, 20.0]}),
)
NOISE = st.one_of(
    st.none(),
    st.builds(
        lambda form, spread: {"form": form, "sd_fraction": spread},
        st.sampled_from(["normal", "log-normal"]),
        st.sampled_from([0.03, 0.15, 0.6]),
    ),
    st.just({"form": "normal", "sd_s": 0.5}),
    st.just({"form": "empirical", "factors": [0.8, 0.9, 0.9, 1.4]}),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw small searches and plans that they allow, in both modes and under both billings."""
    trials = sorted(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)), reverse=True)
    least, per_instance = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 4]))
    mode = draw(st.sampled_from(["any", "fair"]))
    instance = build(
        *((count, draw(st.sampled_from([1, 3, 12]))) for count in trials),
        training={
            "iteration_noise": draw(NOISE),
            "trial_noise": draw(NOISE),
            "start_s": draw(DISTRIBUTIONS),
            "start_s_on": draw(st.sampled_from([{}, {4: 20.0}])),
            "least_gpus": least,
            "factor_by_instances": draw(st.sampled_from([None, {"instances": [1, 8], "factor": [1.0, 1.7]}])),
        },
        cloud={
            "gpus_per_instance": per_instance,
            "billing": draw(st.sampled_from(["per-instance", "per-function"])),
            "minimum_charge_s": draw(st.sampled_from([0.0, 61.3, 203.7])),
            "provision_s": draw(DISTRIBUTIONS),
            "initialise_s": draw(DISTRIBUTIONS),
            "data_gb": 10.0,
            "data_price_usd_per_gb": draw(st.sampled_from([0.0, 0.01])),
        },
        mode=mode,
    )
    chain = []
    for count in trials:
        slots = [c for c in range(1, count) if mode == "any" or count % c == 0]
        gpus_per_trial, at_once = draw(
            st.sampled_from([(least, c) for c in slots] + [(p, count) for p in (2, 4, 8) if p >= least])
        )
        fitting = per_instance // gpus_per_trial
        needed = math.ceil(at_once / fitting) if fitting else at_once * (gpus_per_trial // per_instance)
        chain.append((needed + draw(st.integers(0, 2)), gpus_per_trial * at_once))
    return instance, allocate(*chain)


def draw_latencies(case: Case, size: int, seed: int) -> list[StageLatencies]:
    """Return the latencies that the simulator draws, of one bracket."""
    return [StageSource(case[0], run, 0, seed).draw(size) for run in list_runs(*case)]


def row(array: FloatArray, number: int) -> FloatArray:
    """Return one sample of latencies; those without noise have one row for all."""
    line: FloatArray = array[number if array.shape[0] > 1 else 0]
    return line


def name_latencies(latencies: Sequence[StageLatencies], number: int) -> dict[Node, float]:
    """Return the latencies of one sample by the graph's tasks."""
    named: dict[Node, float] = {}
    for stage, latency in enumerate(latencies):
        named[(Task.SCALE, stage)] = float(row(latency.scale_s, number)[0])
        for kind, times_s in ((Task.INIT_INSTANCE, latency.initialise_s), (Task.TRAIN, latency.train_s)):
            named.update({(kind, stage, k): float(time_s) for k, time_s in enumerate(row(times_s, number))})
    return named


def walk(
    case: Case, latencies: Sequence[StageLatencies], number: int, finish_times: FinishTimes
) -> tuple[float, float]:
    """Return completion time and cost of one sample, task by task and instance by instance."""
    instance, solution = case
    graph = build_dag(instance, solution)
    times_s = name_latencies(latencies, number)
    ends = finish_times(graph, times_s)
    cloud, usd = instance.cloud, 0.0
    born_s: list[float] = []  # of the instances held, the oldest first
    chain = solution.brackets[0]
    for stage, allocation in enumerate(chain):
        added = [node for node in graph if node[:2] == (Task.INIT_INSTANCE, stage)]
        born_s += [ends[(Task.SCALE, stage)] for _ in added]
        usd += len(added) * cloud.data_gb * cloud.data_price_usd_per_gb
        assert len(born_s) == allocation.instances
        kept = chain[stage + 1].instances if stage + 1 < len(chain) else 0
        while len(born_s) > kept:
            life_s = ends[(Task.SYNC, stage)] - born_s.pop(0)
            usd += max(life_s, cloud.minimum_charge_s) * cloud.price_usd_per_hour / 3600 * cloud.is_per_instance
    if not cloud.is_per_instance:
        gpu_usd_per_s = cloud.price_usd_per_hour / 3600 / cloud.gpus_per_instance
        trials = [(node, data) for node, data in graph.nodes(data=True) if data["kind"] is Task.TRAIN]
        usd += sum(data["gpus"] * times_s[node] * gpu_usd_per_s for node, data in trials)
    return max(ends.values()), usd


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")  # noise that is clipped is among the cases
@given(case=cases(), seed=st.integers(0, 5))
def test_samples_are_the_graph_walked(case: Case, seed: int, finish_times: FinishTimes) -> None:
    """The arrays' critical paths and costs are those of the graph, walked node by node on the same draws."""
    samples = sample_plan(*case, samples=4, seed=seed)
    latencies = draw_latencies(case, 4, seed)
    walked = [walk(case, latencies, number, finish_times) for number in range(4)]
    assert samples.completion_s == pytest.approx([time_s for time_s, _ in walked], rel=1e-12)
    assert samples.cost_usd == pytest.approx([usd for _, usd in walked], rel=1e-12)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@given(case=cases())
def test_dynamic_queue_is_list_scheduling(case: Case) -> None:
    """With one line of trials, each stage ends when a heap of free slots says so."""
    samples = sample_plan(*case, samples=3, queue="dynamic")
    for run, latency in zip(list_runs(*case), draw_latencies(case, 3, 0), strict=True):
        for number in range(3):
            free = [0.0] * run.slots
            for time_s in row(latency.train_s, number):
                heapq.heapreplace(free, free[0] + float(time_s))
            took_s = samples.stage_s[0][number, run.stage] - samples.growth_s[0][number, run.stage]
            assert took_s == pytest.approx(max(free), rel=1e-9)


# -------------------------------------------------------------------------------------- close to the exact expectations


#: Relative error that is no sampling error: the grids of the evaluator's convolutions blur the jumps of measured
#: values, and what is too rare for so many samples has no part in their spread.
OTHER_ERROR = 1e-4


def deviations(samples: FloatArray, expected: float) -> float:
    """Return by how many standard errors a sampled mean is off, beyond other errors."""
    estimate = estimate_mean(samples)
    beyond = max(0.0, abs(estimate.value - expected) - OTHER_ERROR * expected)
    return beyond / max(estimate.standard_error, 1e-9 * expected)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@settings(max_examples=60)
@given(case=cases())
def test_means_agree_with_the_evaluator(case: Case) -> None:
    """Expected time, cost and GPU-hours are within four standard errors of the evaluator's."""
    measures = evaluate(*case).measures
    samples = sample_plan(*case, samples=4000, seed=11)
    assert deviations(samples.completion_s, measures["expected_s"]) < 4.0
    assert deviations(samples.cost_usd, measures["expected_usd"]) < 4.0
    assert deviations(samples.busy_gpu_s / 3600, measures["busy_gpu_hours"]) < 4.0
    assert deviations(samples.held_gpu_s / 3600, measures["held_gpu_hours"]) < 4.0


def test_chances_agree_with_the_evaluator() -> None:
    """The share of samples that keep a deadline is within four standard errors of the probability."""
    plan = allocate((3, 4), (2, 3), (2, 4))
    samples = sample_plan(NOISY, plan, samples=10_000)
    for deadline_s in np.quantile(samples.completion_s, (0.1, 0.5, 0.95)).tolist():
        on_time = (samples.completion_s <= deadline_s).astype(float)
        assert deviations(on_time, on_time_probability(NOISY, plan, deadline_s)) < 4.0


# ------------------------------------------------------------------------------------------ the same luck for all plans


def test_a_stage_does_not_feel_what_other_stages_get() -> None:
    """Plans that differ in the first stage only share the sampled times of the others to the bit."""
    one = sample_plan(NOISY, allocate((3, 6), (3, 6), (3, 2)), samples=20).stage_s[0]
    other = sample_plan(NOISY, allocate((40, 6), (3, 6), (3, 2)), samples=20).stage_s[0]
    assert (one[:, 1:] == other[:, 1:]).all()
    assert (one[:, 0] < other[:, 0]).any()  # the latest of forty instances is later than that of three


def test_more_instances_keep_the_luck_of_the_first_ones() -> None:
    """The k-th instance that a stage adds initialises as long in all plans; so does each trial train at one width."""
    few, many = (
        draw_latencies((NOISY, allocate((held, gpus), (held, 3), (held, 2))), 10, 3)[0]
        for held, gpus in ((2, 4), (70, 6))
    )
    assert (few.initialise_s == many.initialise_s[:, :2]).all()
    assert (few.train_s == many.train_s).all()


def test_paired_differences_are_tight() -> None:
    """Two plans sampled with one seed differ much less than with two seeds."""
    one, other = allocate((3, 6), (2, 3), (1, 2)), allocate((2, 3), (2, 3), (1, 2))
    base = sample_plan(NOISY, one, samples=2000, seed=1)
    paired = estimate_mean(base.cost_usd - sample_plan(NOISY, other, samples=2000, seed=1).cost_usd)
    apart = estimate_mean(base.cost_usd - sample_plan(NOISY, other, samples=2000, seed=2).cost_usd)
    assert paired.standard_error < 0.7 * apart.standard_error


def test_stages_drawn_for_another_plan_are_those_drawn_anew() -> None:
    """Plans that share what was drawn amount to the same to the bit, and only stages that run otherwise are drawn."""
    one, other = allocate((3, 6), (3, 6), (3, 2)), allocate((2, 3), (3, 6), (3, 2))
    drawn: Drawn = {}
    for plan in (one, other):
        shared, alone = (sample_plan(NOISY, plan, samples=20, seed=1, drawn=known) for known in (drawn, None))
        assert (shared.cost_usd == alone.cost_usd).all()
        assert (shared.completion_s == alone.completion_s).all()
    assert len(drawn) == 5  # the second stage adds an instance in one of them


def test_more_samples_begin_with_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ten of a hundred samples are the ten, however many are drawn at a time."""
    plan = allocate((3, 6), (3, 3), (1, 2))
    ten, hundred = (sample_plan(NOISY, plan, samples=samples) for samples in (10, 100))
    assert (hundred.cost_usd[:10] == ten.cost_usd).all()
    monkeypatch.setattr(sampling, "_CHUNK", 100)
    small = sample_plan(NOISY, plan, samples=100)
    assert (small.cost_usd == hundred.cost_usd).all()
    assert (small.stage_s[0] == hundred.stage_s[0]).all()
    assert not (sample_plan(NOISY, plan, samples=100, seed=1).cost_usd == small.cost_usd).any()


# -------------------------------------------------------------------------------------------------- figures and options


def make_samples(*completion_s: float) -> Samples:
    """Return samples with these completion times, each costing a tenth."""
    times_s = np.array(completion_s)
    nothing = np.zeros_like(times_s)
    return Samples(times_s, times_s / 10.0, (times_s[:, None],), (nothing[:, None],), nothing, nothing)


def test_figures_of_samples() -> None:
    """Mean and standard error of 10, 20, 30 and 40 s."""
    samples = make_samples(10.0, 20.0, 30.0, 40.0)
    mean = samples.mean_s()
    # Deviation: sqrt((225 + 25 + 25 + 225) / 3) = 12.91; standard error: half of it.
    assert mean.value == 25.0
    assert mean.standard_error == pytest.approx(math.sqrt(500 / 3) / 2)
    assert mean.high - mean.value == pytest.approx(1.959964 * mean.standard_error)
    assert mean.value - mean.low == pytest.approx(mean.high - mean.value)
    assert samples.mean_usd().value == 2.5
    assert samples.size == 4


def test_one_sample_says_nothing_of_the_spread() -> None:
    """The interval of a single sample is everything."""
    mean = make_samples(10.0).mean_s()
    assert (mean.value, mean.low, mean.high) == (10.0, -math.inf, math.inf)
    assert math.isnan(mean.standard_error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples: got 0; a whole number from 1 on is needed"),
        ({"samples": 2.5}, "samples: got 2.5; a whole number from 1 on is needed"),
        ({"seed": -1}, "seed: got -1; a whole number from 0 on is needed"),
        ({"seed": True}, "seed: got True; a whole number from 0 on is needed"),
        ({"queue": "chain"}, "queue: got 'chain'; did you mean 'chains'?"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    """The message names the option, the value and what is allowed."""
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        sample_plan(GROWING, GROWN, **options)


def test_plans_of_other_searches() -> None:
    """A plan that does not fit the search is refused, in whichever bracket."""
    with pytest.raises(DataError, match=r"brackets\.0: got 1 stages; the experiment has 3"):
        sample_plan(GROWING, allocate((1, 2)))
    with pytest.raises(DataError, match="brackets: got 2 chains of stages; the experiment has 1"):
        sample_plan(GROWING, RubberBandSolution(brackets=GROWN.brackets * 2))
