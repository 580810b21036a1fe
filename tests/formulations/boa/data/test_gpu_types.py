"""GPU types: what interruptions do to a job, and what is refused about prices, quotas, spot and names of types."""

from __future__ import annotations

import copy
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import Status
from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.gpu_types import GpuType, Spot
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.exact.costs import describe
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.schema import FloatArray
from optplan.solving import solve
from optplan.verification import verify

CASES = Path(__file__).parents[3] / "cases"
Data = dict[str, Any]

#: 2 GPUs, 0.1 interruptions per GPU-hour, 15 minutes of restart and 1 hour of lost work each.
SPOT: Data = {"interruptions_per_gpu_hour": 0.1, "restart_s": 900.0, "lost_work_s": 3600.0}
GOOD: Data = {
    "formulation": "boa",
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [3.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4, 8], "speedup": [1.0, 1.5, 2.0, 2.5]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [4.0, 6.0]},
            },
            "rescale_s": 360.0,
        }
    },
    "gpu_types": {"t4": {"price_usd_per_hour": 0.5}, "a100": {"price_usd_per_hour": 3.0}},
    "budget": "60usd/hour",
}


def changed(*changes: tuple[str, object]) -> Data:
    """Return the good data with fields changed or added, by their paths."""
    data = copy.deepcopy(GOOD)
    for path, value in changes:
        *parents, last = path.split("/")
        inner = data
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return data


def spot_of(**changes: object) -> Spot:
    """Return the spot terms above with some fields changed."""
    return Spot.model_validate(SPOT | changes)


# Interruptions


@pytest.mark.parametrize(
    ("widths", "billed", "wall", "held"),
    [
        # Load of 2 GPUs: 0.1 * 2 * (1/4 + 1) = 0.25, so 1 / 0.75.
        (2, True, 4 / 3, 4 / 3),
        # Lost work alone: 0.2 * 1 = 0.2, so held 1 / 0.8; and 1 + 0.2 / 4 times as long.
        (2, False, 1.05 / 0.8, 1.25),
        (4, True, 2.0, 2.0),
        (4, False, 1.1 / 0.6, 1 / 0.6),
        # Billed, 8 GPUs have a load of exactly 1 and never finish; not billed, of 0.8.
        (8, True, math.inf, math.inf),
        (8, False, 1.2 / 0.2, 5.0),
        (10, False, math.inf, math.inf),
    ],
)
def test_stretches_by_hand(widths: int, billed: bool, wall: float, held: float) -> None:
    """Work over one minus load; a restart that is not billed takes time and no GPUs."""
    got_wall, got_held = spot_of(restart_billed=billed).stretch(np.array([widths]))
    assert got_wall.tolist() == pytest.approx([wall], rel=1e-14)
    assert got_held.tolist() == pytest.approx([held], rel=1e-14)


@given(st.floats(0.0, 0.2), st.floats(0.0, 7200.0), st.floats(0.0, 7200.0), st.booleans())
def test_interruptions_never_help(per_hour: float, restart_s: float, lost_work_s: float, billed: bool) -> None:
    """Factors are at least 1, grow with the width, and a job holds its GPUs no longer than it takes."""
    spot = Spot(
        interruptions_per_gpu_hour=per_hour + 1e-9,
        restart_s=restart_s,
        lost_work_s=lost_work_s,
        restart_billed=billed,
    )
    wall, held = spot.stretch(np.arange(1, 20))
    assert (held >= 1.0).all()
    assert (wall >= held).all()
    for factors in (wall, held):
        finite = factors[np.isfinite(factors)]
        assert (np.diff(finite) >= 0).all()
        assert np.isinf(factors[finite.size :]).all()


def test_gpus_that_stay_stretch_nothing() -> None:
    """Without spot all factors are one, and every width finishes."""
    kept = GpuType()
    assert [factor.tolist() for factor in kept.stretch(np.array([1, 64]))] == [[1.0, 1.0], [1.0, 1.0]]
    assert kept.finishes(np.array([1, 10**6])).all()


def run_jobs(spot: Spot, gpus: int, work_h: float, jobs: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Run jobs through interruptions, event by event; return the hours that they take and hold GPUs.

    Interruptions come at random while GPUs are held. Each undoes an exponentially distributed amount of work and is
    followed by an exponentially distributed restart: part of what is left to do on the GPUs when it is billed, a pause
    without GPUs when it is not.
    """
    rng = np.random.default_rng(seed)
    left, wall, held = np.full(jobs, work_h), np.zeros(jobs), np.zeros(jobs)
    running = np.arange(jobs)
    while running.size:
        until = rng.exponential(1.0 / (spot.interruptions_per_gpu_hour * gpus), running.size)
        elapsed = np.minimum(until, left[running])
        wall[running] += elapsed
        held[running] += elapsed
        left[running] -= elapsed
        running = running[until < left[running] + elapsed]
        restart = rng.exponential(spot.restart_s / 3600.0, running.size)
        left[running] += rng.exponential(spot.lost_work_s / 3600.0, running.size)
        if spot.restart_billed:
            left[running] += restart
        else:
            wall[running] += restart
    return wall, held


@pytest.mark.parametrize(
    ("spot", "gpus", "work_h"),
    [
        (spot_of(), 2, 3.0),
        (spot_of(restart_billed=False), 4, 2.0),
        (spot_of(interruptions_per_gpu_hour=0.02, restart_s=60.0, lost_work_s=1800.0), 16, 0.5),
        (spot_of(interruptions_per_gpu_hour=1.0, restart_s=300.0, lost_work_s=0.0, restart_billed=False), 8, 1.0),
        (spot_of(interruptions_per_gpu_hour=0.5, restart_s=0.0, lost_work_s=900.0), 4, 4.0),
    ],
)
def test_the_process_takes_what_the_formula_says(spot: Spot, gpus: int, work_h: float) -> None:
    """The means of 20,000 simulated jobs lie within four standard errors of the formula."""
    wall, held = run_jobs(spot, gpus, work_h, jobs=20_000, seed=1)
    for simulated, (factor,) in zip((wall, held), spot.stretch(np.array([gpus])), strict=True):
        error = float(simulated.std(ddof=1)) / math.sqrt(simulated.size)
        assert abs(float(simulated.mean()) - work_h * factor) <= 4.0 * error
        assert error < 0.02 * work_h * factor  # so that it means something


@pytest.mark.parametrize(("billed", "wall", "held"), [(True, 4 / 3, 4 / 3), (False, 1.05 / 0.8, 1.25)])
def test_the_judge_counts_interruptions_in_time_and_gpus(billed: bool, wall: float, held: float) -> None:
    """One hour on 2 spot GPUs after a start of 0.1 h: both are stretched, in time by ``wall``, in GPUs by ``held``.

    A job of 3 GPU-hours at speed 1.5 runs for 2 hours; one arrives every hour.
    """
    instance = BoaInstance.parse(changed(("gpu_types/t4/spot", SPOT | {"restart_billed": billed}), FEWER))
    branch = Branch(widths=np.array([2.0]), gpu_types=("t4",))
    judged = evaluate(instance, BoaSolution(branches={"bert": (branch,)}))
    assert judged.objective == pytest.approx(3600.0 * 2.1 * wall, rel=1e-14)
    assert judged.measures["gpus.t4"] == pytest.approx(2.0 * 2.1 * held, rel=1e-14)
    assert judged.measures["gpus_rescaling"] == pytest.approx(2.0 * 0.1 * held, rel=1e-14)
    assert judged.measures["gpus.a100"] == 0.0
    assert judged.consumption == pytest.approx({"budget": 0.5 * 4.2 * held}, rel=1e-14)


#: Widths on which jobs on the spot GPUs above finish.
FEWER = ("classes/bert/widths", {"max": 4})


def test_widths_that_never_finish_are_left_out_by_name() -> None:
    """From 8 GPUs on the load is 1; the warning says so, and the options end before."""
    with pytest.warns(
        DataWarning,
        match=r"^classes\.bert: jobs never finish on t4 from 8 GPUs on: interruptions come faster than restarts; these",
    ):
        instance = BoaInstance.parse(changed(("gpu_types/t4/spot", SPOT)))
    assert instance.allowed_widths("bert", "t4").tolist() == [1, 2, 4]
    assert instance.options("bert").labels == ("t4.1", "t4.2", "t4.4", "a100.1", "a100.2")
    branch = Branch(widths=np.array([8.0]), gpu_types=("t4",))
    (wrong,) = [
        check for check in evaluate(instance, BoaSolution(branches={"bert": (branch,)})).checks if not check.holds
    ]
    assert wrong.family == "allowed-width"


@pytest.mark.parametrize("name", ["spot-load-of-one", "spot-load-of-one-2"])
def test_a_load_of_one_but_for_rounding_is_one(name: str) -> None:
    """0.3 * 8 * (600 + 900) / 3600 is 1, and in floating point a little less: 8 spot GPUs are left out everywhere."""
    with pytest.warns(DataWarning, match="jobs never finish on b (from 8 GPUs on|at any width)"):
        instance = BoaInstance.parse(json.loads((CASES / f"{name}.json").read_text()))
    assert not any("b.8" in instance.options(each).labels for each in instance.classes)
    result = solve(instance)
    assert result.status is Status.INFEASIBLE  # the floor is what only such a width could run
    assert verify(instance, result).ok


def test_a_type_on_which_nothing_finishes_is_left_out() -> None:
    """At 2 interruptions per GPU-hour that cost an hour each, T4 is no choice at all; A100 still is."""
    worse = SPOT | {"interruptions_per_gpu_hour": 2.0}
    with pytest.warns(DataWarning, match=r"^classes\.bert: jobs never finish on t4 at any width: interruptions come"):
        instance = BoaInstance.parse(changed(("gpu_types/t4/spot", worse)))
    assert instance.options("bert").gpu_types == ("a100",)


def test_a_class_that_finishes_nowhere_is_refused_by_name() -> None:
    """With the fields that would have to change; spot on the only type that it can run on is enough."""
    worse = SPOT | {"interruptions_per_gpu_hour": 2.0}
    message = (
        r"^classes\.bert: jobs never finish on t4 at any width, a100 at any width: interruptions come faster than "
        r"restarts; lower interruptions_per_gpu_hour, restart_s or lost_work_s in gpu_types\.\*\.spot, or allow fewer"
    )
    with pytest.raises(DataError, match=message):
        BoaInstance.parse(changed(("gpu_types/t4/spot", worse), ("gpu_types/a100/spot", worse)))
    alone = changed(("gpu_types/t4/spot", worse))
    del alone["classes"]["bert"]["speedup"]["a100"]
    with pytest.raises(DataError, match=r"^classes\.bert: jobs never finish on t4 at any width: interruptions"):
        BoaInstance.parse(alone)


def test_rare_interruptions_give_no_warning() -> None:
    """Nothing is said when every width finishes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        instance = BoaInstance.parse(changed(("gpu_types/t4/spot", SPOT | {"interruptions_per_gpu_hour": 0.01})))
    assert instance.options("bert").labels[3] == "t4.8"


# What is refused


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "gpu_types/t4/price_usd_per_hour",
            0,
            "got 0; a price above zero is needed. Without prices a budget counts GPUs; for GPUs that are yours, "
            "limit them by quota_gpus and give what an hour of them costs you",
        ),
        ("gpu_types/t4/price_usd_per_hour", -1.0, "got -1.0; input should be greater than 0"),
        ("gpu_types/t4/price_usd_per_hour", "0.5", "got '0.5'; a number is needed"),
        ("gpu_types/t4/price_usd_per_hour", False, "got False; a number is needed"),
        ("gpu_types/a100/quota_gpus", -8.0, "got -8.0; input should be greater than or equal to 0"),
        ("gpu_types/a100/quota_gpus", math.inf, "got inf; input should be a finite number"),
        ("gpu_types/a100/quota_gpus", "8", "got '8'; a number is needed"),
        ("gpu_types/a100/quotas_gpus", 8.0, "unknown field 'quotas_gpus'; did you mean 'quota_gpus'"),
        ("gpu_types/t4/spot", True, "got True; "),
        ("gpu_types/t4/spot", {"restart_s": 60.0}, "is missing"),
        ("gpu_types/t4/spot/interruptions_per_gpu_hour", 0.0, "got 0.0; input should be greater than 0"),
        ("gpu_types/t4/spot/restart_s", -1.0, "got -1.0; input should be greater than or equal to 0"),
        ("gpu_types/t4/spot/lost_work_s", -1.0, "got -1.0; input should be greater than or equal to 0"),
        ("gpu_types/t4/spot/lost_work_s", math.nan, "got nan; input should be a finite number"),
        ("gpu_types/t4/spot/restart_billed", "perhaps", "got 'perhaps'; "),
        ("gpu_types/t4/spot/rate", 1.0, "unknown field 'rate'"),
        ("classes/bert/rescale_s_on/t4", -1.0, "got -1.0; input should be greater than or equal to 0"),
        ("classes/bert/type_change_s", -1.0, "got -1.0; input should be greater than or equal to 0"),
        ("classes/bert/type_change_s_from/t4/a100", -1.0, "got -1.0; input should be greater than or equal to 0"),
        ("classes/bert/type_change_s_from/t4", 20.0, "got 20.0; "),
    ],
)
def test_fields_of_types_are_refused_by_name(path: str, value: object, message: str) -> None:
    """Path, value, and what is allowed."""
    data = changed(("gpu_types/t4/spot", dict(SPOT))) if "spot/" in path else changed()
    inner, (*parents, last) = data, path.split("/")
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value
    where = re.escape(path.replace("/", ".").removesuffix(".quotas_gpus"))
    with pytest.raises(DataError, match=rf"^{where}.*{re.escape(message)}"):
        BoaInstance.parse(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "classes/bert/rescale_s_on",
            {"v100": 60.0},
            "classes.bert.rescale_s_on: 'v100' is not among gpu_types (t4, a100); add it there or correct the name",
        ),
        (
            "classes/bert/type_change_s_from",
            {"v100": {"t4": 60.0}},
            "classes.bert.type_change_s_from: 'v100' is not among gpu_types (t4, a100); add it there or correct",
        ),
        (
            "classes/bert/type_change_s_from",
            {"t4": {"v100": 60.0}},
            "classes.bert.type_change_s_from.t4: 'v100' is not among gpu_types (t4, a100); add it there or correct",
        ),
        (
            "classes/bert/speedup/v100",
            {"form": "amdahl", "serial_fraction": 0.1},
            "classes.bert.speedup: 'v100' is not among gpu_types (t4, a100); add it there or correct the name",
        ),
    ],
)
def test_types_that_there_are_not_are_refused(path: str, value: object, message: str) -> None:
    """Wherever a type can be named."""
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        BoaInstance.parse(changed((path, value)))


def test_budgets_in_money_need_every_price() -> None:
    """Of the types that have none, the first is named; a budget in GPUs needs none."""
    missing = changed(("gpu_types/a100", {}))
    with pytest.raises(
        DataError, match=r"^gpu_types\.a100\.price_usd_per_hour: is missing; a budget in money needs it"
    ):
        BoaInstance.parse(missing)
    instance = BoaInstance.parse(missing | {"budget": "60gpu"})
    assert instance.prices_in_budget == {"t4": 1.0, "a100": 1.0}


def test_a_class_does_not_run_on_a_type_without_a_speedup() -> None:
    """It has no such options, and a plan that says otherwise is noticed; other classes may run there."""
    data = changed()
    data["classes"]["yolo"] = data["classes"]["bert"] | {"speedup": {"t4": data["classes"]["bert"]["speedup"]["t4"]}}
    instance = BoaInstance.parse(data)
    assert instance.options("yolo").gpu_types == ("t4",)
    assert instance.options("bert").gpu_types == ("t4", "a100")
    on_a100 = (Branch(widths=np.array([1.0]), gpu_types=("a100",)),)
    judged = evaluate(instance, BoaSolution(branches={"bert": on_a100, "yolo": on_a100}))
    (wrong,) = [check for check in judged.checks if not check.holds]
    assert (wrong.family, wrong.index) == ("gpu-type", "yolo[1]")
    assert wrong.message == "every GPU type must be one on which the class can run (t4)"
    assert math.isnan(judged.objective)


# What an instance needs


@pytest.mark.parametrize(
    ("changes", "features"),
    [
        ((), {"gpu-types"}),
        ((("gpu_types/a100/quota_gpus", 8.0),), {"gpu-types", "quotas"}),
        ((("classes/bert/type_change_s", 20.0),), {"gpu-types", "type-changes"}),
        ((("classes/bert/type_change_s_from", {"t4": {"a100": 20.0}}),), {"gpu-types", "type-changes"}),
        ((("classes/bert/rescale_s_on", {"a100": 20.0}),), {"gpu-types"}),
        ((("classes/bert/type_change_s", 20.0), ("problem", "whole")), {"gpu-types"}),
        ((("problem", "continuous"),), {"gpu-types"}),
        (
            (("problem", "continuous"), ("classes/bert/speedup/t4", {"form": "power", "exponent": 0.5}), FEWER),
            {"gpu-types", "real-widths"},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_features_are_what_an_instance_has(changes: tuple[tuple[str, object], ...], features: set[str]) -> None:
    """Types, quotas, changes that cost extra, and real widths."""
    assert describe(BoaInstance.parse(changed(*changes))).features == features


def test_one_type_has_features_only_by_spot_and_quota() -> None:
    """One type with a quota has two limits; one spot type has interruptions."""
    data = changed(FEWER)
    del data["gpu_types"]["a100"], data["classes"]["bert"]["speedup"]["a100"]
    assert describe(BoaInstance.parse(data)).features == frozenset()
    quota = copy.deepcopy(data)
    quota["gpu_types"]["t4"]["quota_gpus"] = 5.0
    assert describe(BoaInstance.parse(quota)).features == {"quotas"}
    assert BoaInstance.parse(quota).limits == {"budget": 120.0, "quota.t4": 5.0}
    spot = copy.deepcopy(data)
    spot["gpu_types"]["t4"]["spot"] = SPOT
    assert describe(BoaInstance.parse(spot)).features == {"gpu-types"}


@pytest.mark.parametrize(
    ("budget", "unit", "amount", "prices"),
    [
        ("60usd/hour", "usd/hour", 60.0, {"t4": 0.5, "a100": 3.0}),
        ("1440usd/day", "usd/hour", 60.0, {"t4": 0.5, "a100": 3.0}),
        ("43800usd/month", "usd/hour", 60.0, {"t4": 0.5, "a100": 3.0}),
        ("12gpu", "gpu", 12.0, {"t4": 1.0, "a100": 1.0}),
    ],
)
def test_limits_of_several_types(budget: str, unit: str, amount: float, prices: dict[str, float]) -> None:
    """A budget of money is counted in dollars per hour whatever its period (730 hours a month), quotas in GPUs."""
    instance = BoaInstance.parse(changed(("gpu_types/a100/quota_gpus", 2.5), ("budget", budget)))
    assert instance.budget_unit.value == unit
    assert instance.limits == pytest.approx({"budget": amount, "quota.a100": 2.5}, rel=1e-14)
    assert instance.prices_in_budget == prices
    assert instance.limit_as_given("budget") == (float(re.split("[a-z]", budget)[0]), re.sub(r"^\d+", "", budget))
    assert instance.limit_as_given("quota.a100") == (2.5, "gpu")
    assert instance.price_unit("budget") == f"s of mean JCT per {'GPU' if unit == 'gpu' else unit}"
    assert instance.price_unit("quota.a100") == "s of mean JCT per GPU"


def test_options_are_pairs_type_by_type() -> None:
    """In the order of gpu_types, whatever the order of the speedups; with prices, pauses and what leaving costs."""
    data = changed(
        ("classes/bert/rescale_s_on", {"a100": 720.0}),
        ("classes/bert/type_change_s", 36.0),
        ("classes/bert/type_change_s_from", {"a100": {"t4": 72.0}}),
    )
    data["classes"]["bert"]["speedup"] = dict(reversed(data["classes"]["bert"]["speedup"].items()))
    options = BoaInstance.parse(data).options("bert")
    assert options.gpu_types == ("t4", "a100")
    assert options.labels == ("t4.1", "t4.2", "t4.4", "t4.8", "a100.1", "a100.2")
    assert options.price.tolist() == [0.5] * 4 + [3.0] * 2
    assert options.speeds.tolist() == [[1.0, 1.5, 2.0, 2.5, 4.0, 6.0]]
    assert options.pause_h.tolist() == pytest.approx([0.1] * 4 + [0.2] * 2)
    assert options.change_h == pytest.approx(np.array([[0.0] * 4 + [0.01] * 2, [0.02] * 4 + [0.0] * 2]))
    asked = ("a100", "a100", "t4", "t4", "v100", "t4")
    assert options.find(asked, np.array([2.0, 4.0, 3.0, 4.0, 1.0, 1e9])).tolist() == [5, -1, -1, 2, -1, -1]
