"""From a run back into the instance: the next plan predicts what was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.contracts.standing import MeasuredNode, MeasuredTrial, Standing
from optplan.errors import UsageError
from optplan.execution.running import run
from optplan.execution.runs import read_run
from optplan.execution.standing import take_stock
from optplan.formulations import formulation_of
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.planning import retime
from optplan.instances.files import read_instance
from optplan.instances.library import names
from optplan.solving import build_plan, solve
from optplan.units import format_duration

SEARCH: dict[str, Any] = {
    "formulation": "rubberband",
    "experiment": {
        "form": "stages",
        "stages": [{"trials": 16, "iterations": 20}, {"trials": 8, "iterations": 20}, {"trials": 4, "iterations": 40}],
    },
    "training": {"seconds_per_iteration": {"1": 8.0, "2": 5.0, "4": 3.0, "8": 2.0}, "start_s": 4.0},
    "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 3.6, "initialise_s": 20.0, "most_instances": 16},
    "deadline_s": 700.0,
}


def measure(plan: Plan, out: Path, **options: Any) -> Standing:  # noqa: ANN401 - fields of SearchOptions
    """Run a plan on the virtual clock, and take stock."""
    run(plan, out=out, replan_above=None, **options)
    state = read_run(out).state
    return take_stock(state, state.t)


def calibrate(instance: Any, plan: Plan, standing: Standing) -> tuple[Any, tuple[str, ...]]:  # noqa: ANN401
    """Call the formulation's own."""
    return formulation_of(instance).calibrate(instance, plan, standing)


def test_the_next_plan_of_a_search_predicts_the_run(tmp_path: Path) -> None:
    """Trials take 1.4 times as long and nodes cost 1.2 times as much: the same decisions, timed anew, are the run."""
    instance = RubberBandInstance.parse(SEARCH)
    plan = build_plan(instance, solve(instance))
    standing = measure(plan, tmp_path / "run", slower=1.4, dearer=1.2)
    calibrated, said = calibrate(instance, plan, standing)
    totals = retime(calibrated, plan).totals()
    assert totals["time_s"] == pytest.approx(standing.now_s)
    assert totals["cost_usd"] == pytest.approx(standing.spent_usd)
    assert calibrated.training.start_s.expected_s == pytest.approx(5.6)
    table = calibrated.training.seconds_per_iteration
    assert table.seconds.tolist() == pytest.approx([11.2, 7.0, 4.2, 2.8]), (
        "widths that were not measured keep the ratio"
    )
    assert calibrated.cloud.price_usd_per_hour == pytest.approx(4.32)
    assert any(line.endswith("was 4 s") for line in said)
    again = build_plan(calibrated, solve(calibrated))
    assert run(again).time_s == pytest.approx(again.totals()["time_s"])


def test_noise_is_told_from_many_trials(tmp_path: Path) -> None:
    """Trials vary by 20 % of their mean; three hundred of them show it to a tenth."""
    search = SEARCH | {"experiment": {"form": "stages", "stages": [{"trials": 300, "iterations": 20}]}}
    training = SEARCH["training"] | {"start_s": 0.0, "trial_noise": {"form": "log-normal", "sd_fraction": 0.2}}
    noisy = RubberBandInstance.parse(search | {"training": training, "deadline_s": 4000.0})
    plan = build_plan(noisy, solve(noisy, gap=1e-2))
    standing = measure(plan, tmp_path / "run", lucky=True, seed=1)
    quiet = RubberBandInstance.parse(search | {"training": training | {"trial_noise": None}, "deadline_s": 4000.0})
    calibrated, said = calibrate(quiet, plan, standing)
    assert calibrated.training.trial_noise.sd_fraction == pytest.approx(0.2, rel=0.1)
    assert any(line.startswith("training.trial_noise: 0.2") or "trial_noise: 0.1" in line for line in said)
    calibrated, _ = calibrate(noisy, plan, measure(plan, tmp_path / "constant"))
    assert calibrated.training.trial_noise is None


def test_launches_and_iterations_vary_as_measured() -> None:
    """By hand: launches of 10, 20, 20 and 30 s; iterations of 2 s with a deviation of 0.2 s on one GPU."""
    instance = RubberBandInstance.parse(SEARCH)
    nodes = tuple(MeasuredNode("gpu", 5.0, launch_s, None) for launch_s in (10.0, 20.0, 20.0, 30.0))
    trials = tuple(MeasuredTrial("b1-s1", 1, 1, 100, 2.0, 0.2, 3.0, 3.0) for _ in range(4))
    calibrated, _ = calibrate(
        instance, build_plan(instance, solve(instance)), Standing(1.0, trials=trials, nodes=nodes)
    )
    cloud, training = calibrated.cloud, calibrated.training
    assert (cloud.provision_s.expected_s, cloud.initialise_s.expected_s) == (5.0, 20.0)
    assert cloud.initialise_s.deviation_s == pytest.approx((200.0 / 3.0) ** 0.5)
    assert training.iteration_noise is not None
    assert training.iteration_noise.sd_fraction == pytest.approx(0.1)
    assert training.seconds_per_iteration.seconds.tolist() == pytest.approx([2.0, 1.25, 0.75, 0.5])


def test_the_next_plan_of_a_fleet_predicts_the_run(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """Iterations take 1.3 times as long: passes are slowed down until the fleet's iteration takes what it took."""
    instance, plan = read_instance("srift-case3"), plan_of("srift-case3")
    plan = plan.replace(plan_id="", limits={})  # its deadline would stop the run
    standing = measure(plan, tmp_path / "run", slower=1.3)
    calibrated, said = calibrate(instance, plan, standing)
    evaluated = formulation_of(calibrated).evaluate(calibrated, solve(instance, gap=1e-2).solution)
    assert evaluated.measures["iteration_s"] == pytest.approx(1.3 * plan.segments[0].expected.iteration_s, rel=1e-6)  # type: ignore[operator]
    assert any("times as long, so that an iteration takes" in line for line in said)


def test_the_launch_of_a_fleet_ends_when_it_trains(plan_of: Callable[..., Plan]) -> None:
    """By hand: VMs are there after 5 + 10 and 5 + 20 s, and the job takes 6 s to start on them: 26 s on average."""
    instance: Any = read_instance("srift-case3")
    plan = plan_of("srift-case3")
    nodes = tuple(MeasuredNode("vm", 5.0, launch_s, None) for launch_s in (10.0, 20.0))
    iteration_s = plan.segments[0].expected.iteration_s
    assert iteration_s is not None
    trials = (MeasuredTrial("train", 1, 1, 100, iteration_s, None, 6.5, 6.0),)
    calibrated, said = calibrate(instance, plan, Standing(1.0, trials=trials, nodes=nodes))
    assert calibrated.launch_s == 26.0
    assert said == (f"launch_s: 26 s, was {format_duration(instance.launch_s)}",)


def test_pauses_and_scaling_of_rounds() -> None:
    """By hand: 6 s until trials train again; with a prior two GPUs are 1.6 times as fast as one."""
    instance = read_instance("seer-paper-example")
    plan = build_plan(instance, solve(instance))
    later = next(segment.id for segment in plan.segments if segment.id.startswith("r2"))
    trials = tuple(
        MeasuredTrial(segment, gpus, 1, 10, iteration_s, None, 6.0, start_s)
        for segment, gpus, iteration_s, start_s in ((later, 2, 1.0, 6.0), ("r1-g1", 1, 1.6, 90.0))
    )
    calibrated, said = calibrate(instance, plan, Standing(1.0, trials=trials))
    assert (calibrated.resize_s, said) == (6.0, ("resize_s: 6 s, was 0 s",))
    informed: Any = next(each for name in names() if getattr(each := read_instance(name), "prior", None) is not None)
    scaling = {"gpus": [1, 2, 4], "speedup": [1.0, 1.9, 3.0]}
    informed = informed.replace(prior=informed.prior.replace(scaling=scaling))
    calibrated, _ = calibrate(informed, plan, Standing(1.0, trials=trials))
    assert calibrated.prior.scaling.speedup.tolist() == pytest.approx([1.0, 1.6, 3.0])


def test_where_nothing_was_measured_that_is_said() -> None:
    """Before the first trial has ended anything."""
    for name in ("rubberband-two-stages", "seer-paper-example", "srift-case3"):
        instance = read_instance(name)
        with pytest.raises(UsageError, match="nothing was measured"):
            calibrate(instance, build_plan(instance, solve(instance, gap=1e-2)), Standing(0.0))
