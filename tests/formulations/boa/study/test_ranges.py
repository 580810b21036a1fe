"""Ranges of answers: ends that hold for every truth within the bands, and worths that no knowledge can exceed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts.ranges import AnswerRange
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands
from optplan.formulations.boa.study.ranges import TRUTHS, find_range
from optplan.progress import interruptible
from optplan.solving import explain, solve
from optplan.verification import verify


def one_class(budget: str, **changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return one job an hour of 1 GPU-hour, on 1 GPU or 1.6 times as fast on 2, which is wrong by up to 25 %."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6], "error": [0.0, 0.25]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    fields: dict[str, Any] = {"formulation": "boa", "classes": {"job": job}, "gpu_types": {"t4": {}}}
    return BoaInstance.parse(fields | {"name": "one", "problem": "whole", "budget": budget} | changes)


def ranged(instance: BoaInstance) -> AnswerRange:
    """Return the range of an instance's answer."""
    found = solve(instance).range
    assert found is not None
    return found


def test_range_by_hand() -> None:
    """2 GPUs take 3600 / 1.6 = 2250 s and 1.25 GPUs; in truth 1800 to 2812.5 s, and 1 to 1.5625 GPUs of the 1.3.

    So at the lower end of the band 2 GPUs are too many, and 1 GPU takes 3600 s.
    """
    found = ranged(one_class("1.3gpu"))
    assert found.best == pytest.approx((1800.0, 3600.0))
    assert found.own == pytest.approx((1800.0, 2812.5))
    first, second = found.truths[:2]
    assert (first.shifts, second.shifts) == ({"job": {"t4": 1.0}}, {"job": {"t4": -1.0}})
    assert (first.consumption["budget"], second.consumption["budget"]) == pytest.approx((1.0, 1.5625))
    assert found.widths == {"job": {"t4": (1.0, 2.0)}}
    # Knowing that 2 GPUs are too many makes nothing faster.
    assert found.measurements == ()


def test_worth_by_hand() -> None:
    """With 1.2 GPUs the plan is 1 GPU, 3600 s. Were 2 GPUs twice as fast, they would do, and save 1800 s: no more."""
    found = ranged(one_class("1.2gpu"))
    assert found.best == pytest.approx((1800.0, 3600.0))
    assert found.own == (3600.0, 3600.0)
    (measured,) = found.measurements
    assert (measured.subject, measured.gpu_type, measured.gpus) == ("job", "t4", 2)
    assert measured.worth == pytest.approx(1800.0)


def test_no_plan_at_the_lower_end() -> None:
    """On 2 GPUs alone a budget of 1.3 GPUs is too little there; the bound says that as the objective does."""
    found = ranged(one_class("1.3gpu", widths={"only": [2]}))
    least, most = found.best
    assert least == pytest.approx(1800.0)
    assert most is None
    assert found.truths[1].best_bound is None
    assert found.widths == {}


def test_as_many_truths_whatever_the_instance() -> None:
    """Both ends of all; the own ends of each band where these are few; a Latin hypercube between."""
    found = ranged(one_class("1.3gpu"))
    between = sorted(truth.shifts["job"]["t4"] for truth in found.truths[2:])
    assert between == pytest.approx([-6 / 7, -4 / 7, -2 / 7, 0, 2 / 7, 4 / 7, 6 / 7])
    for number, own in ((3, 6), (4, 0)):
        job = one_class("1gpu").classes["job"]
        several = one_class("9gpu", classes={f"job{place}": job for place in range(number)})
        found = ranged(several)
        assert len(found.truths) == TRUTHS
        shifts = np.array([[each["t4"] for each in truth.shifts.values()] for truth in found.truths])
        assert (shifts[0] == 1).all()
        assert (shifts[1] == -1).all()
        assert np.count_nonzero(np.count_nonzero(shifts, axis=1) == 1) >= own
        cells = TRUTHS - 2 - own
        for column in shifts[2 + own :].T:
            assert np.sort(column) == pytest.approx((2 * np.arange(cells) + 1) / cells - 1)


def test_nothing_without_bands_and_nothing_unasked() -> None:
    """Where all speedups are exact there is one truth; a range that is not asked for is not looked for."""
    instance = one_class("1.3gpu")
    job = instance.classes["job"]
    exact = job.replace(speedup={"t4": job.speedup["t4"].replace(error=None)})
    assert solve(instance.replace(classes={"job": exact})).range is None
    assert solve(instance, ranges=False).range is None
    assert solve(one_class("0.9gpu")).range is None  # there is no plan


def test_no_range_once_interrupted() -> None:
    """What the range is by then says how soon somebody interrupted; the result is as it was."""
    instance = one_class("1.3gpu")
    result = solve(instance)
    with interruptible() as interruption:
        interruption.interrupt()
        assert find_range(instance, result) is None


def test_range_is_the_same_again() -> None:
    """For the same seed; with the solver's time left out, results are equal."""
    instance = random_instance(3)
    first, second = (solve(instance) for _ in range(2))
    assert first.range is not None
    assert first.range == second.range
    assert find_range(instance, first) == first.range


@pytest.mark.parametrize(("field", "value"), [("least_mean_gpus", 0.5), ("most_gpus", {"gpus": 9, "probability": 0.9})])
def test_where_no_range_is_found(field: str, value: object) -> None:
    """With floors, or a limit on GPUs at once, the result has none and says so."""
    instance = one_class("1.3gpu")
    if field == "most_gpus":
        instance = instance.replace(most_gpus=value)
    else:
        instance = instance.replace(classes={"job": instance.classes["job"].replace(least_mean_gpus=value)})
    result = solve(instance)
    assert result.range is None
    said = f"how the answer changes within the bands of speedups is not found with {field}"
    assert any(warning.startswith(said) for warning in result.warnings)


def test_a_range_is_derived_again() -> None:
    """The judge checks all that it says, and a range survives writing and reading."""
    instance = one_class("1.3gpu")
    result = solve(instance)
    verification = verify(instance, result)
    assert verification.ok
    assert not any(claim.startswith("range: ") for claim in (*verification.never_checked, *verification.on_trust))
    ends = {check.index for check in verification.checks if check.family == "range"}
    assert {"truths[0] bound", "truths[0] best", "truths[1] bound", "truths[1] best", "widths"} <= ends
    assert type(result).parse(result.to_json_data()).range == result.range
    assert "Within the errors of speedups: 30 min 00 s to 1 h 00 min" in " ".join(str(result).split())


def test_explanations_say_what_to_measure() -> None:
    """As the result does, and where it has no range all the same."""
    instance = one_class("1.2gpu")
    for ranges in (True, False):
        explanation = explain(instance, solve(instance, ranges=ranges))
        assert [(each.subject, each.gpus) for each in explanation.measurements] == [("job", 2)]


def random_instance(seed: int, **changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return two classes of one or two epochs, for even seeds on two types, with bands of several kinds."""
    rng = np.random.default_rng(seed)

    def table() -> dict[str, Any]:
        gain = np.cumprod([1.0, *rng.uniform(1.2, 1.9, 2)])
        error = [0.0, *rng.uniform(0.0, 0.4, 2)]
        kind = {"error": error} if rng.random() < 0.7 else {"provenance": "assumed"}
        return {"form": "table", "gpus": [1, 2, 4], "speedup": gain.tolist()} | kind

    types = ["t4", "v100"][: 2 - seed % 2]
    classes = {
        f"job{number}": {
            "arrival_rate_per_hour": float(rng.uniform(0.5, 2.0)),
            "epoch_size_gpu_hours": rng.uniform(0.5, 2.0, int(rng.integers(1, 3))).tolist(),
            "rescale_s": float(rng.uniform(0.0, 600.0)),
            "speedup": {gpu_type: table() for gpu_type in types},
        }
        for number in range(2)
    }
    fields: dict[str, Any] = {"formulation": "boa", "name": "random", "classes": classes}
    least = sum(each["arrival_rate_per_hour"] * sum(each["epoch_size_gpu_hours"]) for each in classes.values())
    budget = f"{least * float(rng.uniform(1.1, 2.0))}gpu"
    return BoaInstance.parse(fields | {"gpu_types": {one: {} for one in types}, "budget": budget} | changes)


def every_plan(instance: BoaInstance) -> list[BoaSolution]:
    """Return all pure plans."""
    rows: list[list[Branch]] = []
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        names = [options.gpu_types[group] for group in options.group.tolist()]
        own = []
        for columns in product(range(options.widths.size), repeat=job_class.num_epochs):
            held = options.widths[list(columns)].astype(float)
            kinds = tuple(names[column] for column in columns) if len(instance.gpu_types) > 1 else None
            own.append(Branch(widths=held, gpu_types=kinds))
        rows.append(own)
    return [
        BoaSolution(branches={name: (row,) for name, row in zip(instance.classes, choice, strict=True)})
        for choice in product(*rows)
    ]


def least_in(truth: BoaInstance, plans: list[BoaSolution]) -> float | None:
    """Return the least objective of the plans that keep the budget."""
    judged = [evaluate(truth, plan) for plan in plans]
    kept = [each.objective for each in judged if all(check.holds for check in each.checks)]
    return min(kept, default=None)


def truth_of(instance: BoaInstance, shifts: dict[str, dict[str, float]]) -> BoaInstance:
    """Return the instance with speeds shifted within their bands, by class and type."""
    bands, spread = find_bands(instance), {}
    for name, by_type in shifts.items():
        options = instance.options(name)
        shift = np.array([by_type.get(gpu_type, 0.0) for gpu_type in options.gpu_types])[options.group]
        spread[name] = bands[name].spread(shift)
    return apply_speeds(instance, spread)


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_ranges_hold_every_truth(seed: int) -> None:
    """By enumeration in truths drawn within the bands: the best plan, and the own one, are between the ends."""
    instance = random_instance(seed)
    result = solve(instance)
    if result.range is None or not isinstance(result.solution, BoaSolution):
        return
    plans, rng = every_plan(instance)[:: 1 if len(instance.gpu_types) == 1 else 7], np.random.default_rng(seed)
    least, most = result.range.best
    pairs = [(name, one) for name in find_bands(instance) for one in instance.options(name).gpu_types]
    for _ in range(3):
        shifts: dict[str, dict[str, float]] = {}
        for name, one in pairs:
            shifts.setdefault(name, {})[one] = float(rng.uniform(-1, 1))
        truth = truth_of(instance, shifts)
        best, own = least_in(truth, plans), evaluate(truth, result.solution)
        if best is not None:
            assert least is not None
            assert best >= least * (1 - 1e-9)
        if most is not None and len(instance.gpu_types) == 1:
            assert best is not None
            assert best <= most * (1 + 1e-9)
        assert result.range.own[0] * (1 - 1e-9) <= own.objective <= result.range.own[1] * (1 + 1e-9)
        used = [each.consumption["budget"] for each in result.range.truths[:2]]
        assert used[0] * (1 - 1e-9) <= own.consumption["budget"] <= used[1] * (1 + 1e-9)


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(["pure", "mixed"]))
def test_nobody_gains_more_than_a_measurement_is_worth(seed: int, policy: str) -> None:
    """By enumeration over a grid of truths of each class and type alone: what the best plan there saves is no more."""
    instance = random_instance(seed, policy=policy)
    result = solve(instance)
    if result.range is None or not isinstance(result.solution, BoaSolution):
        return
    plans = every_plan(instance)[:: 1 if len(instance.gpu_types) == 1 else 11]
    for measurement in result.range.measurements:
        for shift in (-1.0, -0.6, -0.3, 0.3, 0.7, 1.0):
            truth = truth_of(instance, {measurement.subject: {measurement.gpu_type: shift}})
            best, own = least_in(truth, plans), evaluate(truth, result.solution).objective
            assert best is None or own - best <= measurement.worth + 1e-9 * own
