"""Due dates of classes: against hand arithmetic, all plans of random tiny instances, and general engines."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from optplan.contracts import Status
from optplan.errors import DataError, UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.boa.judge.duality import dual_bound, least_consumption
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.solving import build_plan, explain, frontier, solve
from optplan.verification import verify

from .class_limits import ENGINES, make_two_streams

two_streams = partial(make_two_streams, "most_mean_jct_s")


def random_due_dates(seed: int) -> BoaInstance:
    """Draw up to three classes on one or two types, pauses, a quota or none, due dates that may be too early."""
    rng = np.random.default_rng(seed)
    kinds = ["a", "b"][: int(rng.integers(1, 3))]
    classes: dict[str, dict[str, Any]] = {}
    for number in range(int(rng.integers(1, 4))):
        epochs = int(rng.integers(1, 4))
        classes[f"class{number}"] = {
            "arrival_rate_per_hour": float(rng.uniform(0.5, 2.0)),
            "epoch_size_gpu_hours": rng.uniform(0.2, 2.0, epochs).tolist(),
            "speedup": {
                kind: {"form": "table", "gpus": [1, 2], "speedup": [[s, s * f] for f in rng.uniform(1.2, 1.9, epochs)]}
                for kind, s in zip(kinds, (1.0, float(rng.uniform(0.5, 3.0))), strict=False)
            },
            "rescale_s": float(rng.choice([0.0, 120.0, 900.0])),
            "type_change_s": float(rng.choice([0.0, 100.0])),
            "weight": float(rng.choice([1.0, 3.0])),
        }
    gpu_types: dict[str, dict[str, float]] = {kind: {"price_usd_per_hour": 1.0 + kinds.index(kind)} for kind in kinds}
    if seed % 3 == 0:
        gpu_types[kinds[-1]]["quota_gpus"] = float(rng.uniform(0.5, 6.0))
    problem = str(rng.choice(["whole", "rescaling"]))
    fields = {"formulation": "boa", "gpu_types": gpu_types, "problem": problem}
    plain = BoaInstance.parse(fields | {"classes": classes})
    least = sum(least_consumption(plain, np.eye(len(plain.limit_names))[0]).values())
    for each in classes.values():
        if rng.random() < 0.7:
            each["most_mean_jct_s"] = 3600.0 * sum(each["epoch_size_gpu_hours"]) * float(rng.uniform(0.3, 1.2))
    budget = f"{least * float(rng.uniform(0.97, 2.0))!r}{plain.budget_unit.value}"
    return BoaInstance.parse(fields | {"classes": classes, "budget": budget})


def test_a_due_date_turns_the_plan_around() -> None:
    """The heavy class gets the second GPU, unless the light one is due in 40 min: (2 * 1 + 0.6) / 3 h instead."""
    # What is spared by not giving it to the heavy one: without a due date (2 * 0.6 + 1) / 3 h.
    assert solve(two_streams()).objective == pytest.approx(3600.0 * 2.2 / 3.0)
    result = solve(two_streams(light="40min"))
    assert (result.status, result.solver) == (Status.OPTIMAL, "linked-paths")
    assert result.objective == pytest.approx(3600.0 * 2.6 / 3.0)
    assert result.measures["classes.light.mean_jct_s"] == pytest.approx(2160.0)


def test_the_price_of_a_due_date() -> None:
    """Two thirds of the light jobs on 2 GPUs leave a third of the heavy: a second moves 1 / 1440 of either."""
    instance = two_streams("mixed", light="44min")
    result = solve(instance)
    # 3,600 s less two thirds of 1,440 s; the rest of the second GPU, a third, is the heavy class's.
    assert result.objective == pytest.approx((2.0 * (3600.0 - 1440.0 / 3.0) + 2640.0) / 3.0)
    # A second later: 1 s more of the light class for 1 s less of the heavy one, which counts twice.
    price = result.shadow_prices["due.light"]
    assert (price.less, price.more) == pytest.approx((1.0 / 3.0, 1.0 / 3.0))
    assert price.unit == "s of mean JCT per s"
    # 0.2 GPUs more move all jobs of the heavy class by 1,440 s, two thirds of the mean.
    assert result.shadow_prices["budget"].more == pytest.approx(1440.0 * (2.0 / 3.0) / 0.2)
    later = solve(two_streams("mixed", light=2641.0))
    assert later.objective == pytest.approx((result.objective or 0.0) - 1.0 / 3.0)
    assert verify(instance, result).ok


def test_which_limit_to_relax_by_how_much() -> None:
    """Mixed plans need 2.37 GPUs for both dates, or one of them an hour later; in 35 min nobody is ever done."""
    instance = two_streams("mixed", light="40min", heavy="36min")
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert result.infeasibility is not None
    # Light: 2,400 s are 5/6 of its jobs on 2 GPUs, so 2 + 0.2 * (1 + 5/6) GPUs; with 2.2 GPUs none of them are.
    least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
    assert least == pytest.approx({"budget": 2.0 + 0.2 * 11.0 / 6.0, "due.heavy": 3360.0, "due.light": 3600.0})
    assert "a due date of light of at least 3,600 s (given: 2,400)" in result.infeasibility.reason
    assert verify(instance, result).ok
    never = solve(two_streams(light="35min"))
    assert never.infeasibility is not None
    assert {each.limit for each in never.infeasibility.relaxations} == {"due.light"}
    assert {each.limit for each in never.infeasibility.hopeless} == {"budget"}


def test_pure_plans_may_miss_what_mixed_ones_keep() -> None:
    """With both due in 50 min two thirds of each class would do, all of one do not: each limit is told with proof."""
    instance = two_streams(light="50min", heavy="50min")
    result = solve(instance)
    assert result.infeasibility is not None
    assert "keeps the budget and all due dates, although mixed plans do" in result.infeasibility.reason
    least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
    assert least == pytest.approx({"budget": 2.4, "due.heavy": 3600.0, "due.light": 3600.0})
    assert verify(instance, result).ok
    for solver in ENGINES:
        assert solve(instance, solver=solver).status is Status.INFEASIBLE


def test_the_judge_catches_a_late_class() -> None:
    """The plan without due dates breaks the light class's by 1,200 s, under its name."""
    plan = solve(two_streams()).solution
    assert isinstance(plan, BoaSolution)
    judged = evaluate(two_streams(light="40min"), plan)
    (broken,) = [check for check in judged.checks if not check.holds]
    assert (broken.family, broken.right) == ("due.light", 2400.0)
    assert broken.left == pytest.approx(3600.0)
    assert broken.message == "mean completion time must not exceed the due date of light"


def test_frontier_plan_and_explanation() -> None:
    """From 2.2 GPUs on the frontier keeps the due date, each point proven; plans carry it; choices are explained."""
    instance = two_streams(light="36min")
    line = frontier(instance)
    assert line.budgets[0] == pytest.approx(2.2)
    point = line.at(2.3)
    assert point.certificate is not None
    asked = instance.replace(budget="2.3gpu")
    assert dual_bound(asked, dict(point.certificate.multipliers)) == pytest.approx(point.objective)
    assert point.objective == pytest.approx((2.0 * (3600.0 - 720.0) + 2160.0) / 3.0)
    result = solve(instance)
    limit = build_plan(instance, result).limits["due.light"]
    assert (limit.amount, limit.unit) == (2160.0, "s")
    assert explain(instance, result).choices


def test_who_cannot_take_due_dates_refuses() -> None:
    """Solvers without the feature, and the problem with real widths, say so."""
    with pytest.raises(UnsupportedError, match="cannot handle due-dates"):
        solve(two_streams(light="40min"), solver="layered-paths")
    with pytest.raises(DataError, match="due dates need whole widths; solve whole or rescaling"):
        two_streams(light="40min").replace(problem="continuous")


def test_instances_without_due_dates_keep_their_ids() -> None:
    """The field is left out of what is written and hashed where there is none, and read as a duration."""
    assert "most_mean_jct_s" in JobClass.LATER
    assert two_streams().content_hash() == "6fb1a20fa0a067974c097605ac5d25f4410128ca7d814547353b50b73152768c"
    assert two_streams(light="40min").content_hash() == two_streams(light=2400.0).content_hash()
