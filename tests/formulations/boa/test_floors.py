"""Floors of classes: against hand arithmetic, all plans of random tiny instances, and general engines."""

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
from optplan.solving import analyse_sensitivity, build_plan, explain, frontier, solve
from optplan.verification import verify

from .class_limits import ENGINES, make_two_streams

two_streams = partial(make_two_streams, "least_mean_gpus")


def random_floors(seed: int) -> BoaInstance:
    """Draw up to three classes on one or two types, pauses, a quota or none, floors that may be too high."""
    rng = np.random.default_rng(seed)
    kinds = ["a", "b"][: int(rng.integers(1, 3))]
    classes: dict[str, dict[str, Any]] = {}
    for number in range(int(rng.integers(1, 4))):
        epochs = int(rng.integers(1, 4))
        classes[f"class{number}"] = {
            "arrival_rate_per_hour": float(rng.uniform(0.5, 2.0)),
            "epoch_size_gpu_hours": rng.uniform(0.2, 2.0, epochs).tolist(),
            "speedup": {
                # Above 2 GPUs hold less than one on the same work: a table may be superlinear.
                kind: {"form": "table", "gpus": [1, 2], "speedup": [[s, s * f] for f in rng.uniform(0.9, 2.3, epochs)]}
                for kind, s in zip(kinds, (1.0, float(rng.uniform(0.5, 3.0))), strict=False)
            },
            "rescale_s": float(rng.choice([0.0, 120.0, 900.0])),
            "type_change_s": float(rng.choice([0.0, 100.0])),
            "weight": float(rng.choice([1.0, 3.0])),
        }
    gpu_types: dict[str, dict[str, Any]] = {kind: {"price_usd_per_hour": 1.0 + kinds.index(kind)} for kind in kinds}
    if seed % 3 == 0:
        gpu_types[kinds[-1]]["quota_gpus"] = float(rng.uniform(0.5, 6.0))
    if seed % 5 == 0:
        spot = {"interruptions_per_gpu_hour": 0.1, "restart_s": 120.0, "lost_work_s": 300.0}
        gpu_types[kinds[0]]["spot"] = spot | {"restart_billed": bool(rng.integers(2))}
    fields = {"formulation": "boa", "gpu_types": gpu_types, "problem": str(rng.choice(["whole", "rescaling"]))}
    plain = BoaInstance.parse(fields | {"classes": classes})
    least = sum(least_consumption(plain, np.eye(len(plain.limit_names))[0]).values())
    for each in classes.values():
        load = each["arrival_rate_per_hour"] * sum(each["epoch_size_gpu_hours"])
        if rng.random() < 0.7:
            each["least_mean_gpus"] = load * float(rng.uniform(0.4, 1.8))
        if rng.random() < 0.3:
            each["most_mean_jct_s"] = 3600.0 * sum(each["epoch_size_gpu_hours"]) * float(rng.uniform(0.5, 1.5))
    budget = f"{least * float(rng.uniform(0.97, 2.5))!r}{plain.budget_unit.value}"
    return BoaInstance.parse(fields | {"classes": classes, "budget": budget})


def test_a_floor_turns_the_plan_around() -> None:
    """The heavy class gets the second GPU, unless 1.1 GPUs are the light one's: (2 * 1 + 0.6) / 3 h instead."""
    assert solve(two_streams()).objective == pytest.approx(3600.0 * 2.2 / 3.0)
    result = solve(two_streams(light="1.1gpu"))
    assert (result.status, result.solver) == (Status.OPTIMAL, "linked-paths")
    assert result.objective == pytest.approx(3600.0 * 2.6 / 3.0)
    assert result.measures["classes.light.gpus_running"] == pytest.approx(1.2)


def test_the_price_of_a_floor() -> None:
    """Half the light jobs on 2 GPUs hold 1.1, which leaves half of the heavy ones: a GPU moves five of either class."""
    instance = two_streams("mixed", light=1.1)
    result = solve(instance)
    assert result.objective == pytest.approx((2.0 * (3600.0 - 720.0) + (3600.0 - 720.0)) / 3.0)
    # A GPU is 5 times what all of a class take more on 2, who gain 1,440 s; the heavy ones count twice.
    price = result.shadow_prices["floor.light"]
    assert (price.less, price.more) == pytest.approx((1440.0 * 5.0 / 3.0,) * 2)
    assert price.unit == "s of mean JCT per GPU"
    # The bound is of the floor itself; the plan runs on a little more, so that no tolerance breaks it.
    assert result.bound == pytest.approx(2880.0, rel=1e-13)
    assert 2880.0 * (1.0 + 1e-12) < (result.objective or 0.0) < 2880.0 * (1.0 + 1e-9)
    lower = solve(two_streams("mixed", light=1.09))
    assert lower.objective == pytest.approx((result.objective or 0.0) - 0.01 * price.more)
    assert verify(instance, result).ok


def test_pauses_keep_no_floor() -> None:
    """With starts of an hour each class holds 2 GPUs, of which 1 runs: a floor of 1.1 needs the second one."""
    fields = two_streams(light=1.1).to_json_data() | {"problem": "rescaling", "budget": "5.5gpu"}
    for job_class in fields["classes"].values():
        job_class["rescale_s"] = 3600.0
    result = solve(BoaInstance.parse(fields))
    assert result.measures["classes.light.gpus_running"] == pytest.approx(1.2)
    assert result.measures["classes.light.gpus"] == pytest.approx(3.2)
    assert result.measures["classes.heavy.gpus"] == pytest.approx(2.0)


def test_which_limit_to_relax_by_how_much() -> None:
    """Both floors need 2.3 GPUs, or one of them 0.1 less; more than 1.2 no plan of a class ever runs."""
    instance = two_streams("mixed", light=1.1, heavy=1.2)
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert result.infeasibility is not None
    least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
    assert least == pytest.approx({"budget": 2.3, "floor.heavy": 1.1, "floor.light": 1.0})
    assert "keeps the budget and all floors" in result.infeasibility.reason
    assert "a floor of light of at most 1 GPUs (given: 1.1)" in result.infeasibility.reason
    assert verify(instance, result).ok
    above = two_streams(light=1.3)
    never = solve(above)
    assert never.infeasibility is not None
    assert {each.limit: each.least_feasible for each in never.infeasibility.relaxations} == pytest.approx(
        {"floor.light": 1.2}
    )
    assert {each.limit for each in never.infeasibility.hopeless} == {"budget"}
    assert verify(above, never).ok


def test_pure_plans_may_miss_what_mixed_ones_keep() -> None:
    """With both floors at 1.1 half of each class would do, all of one do not: each limit is told with proof."""
    instance = two_streams(light=1.1, heavy=1.1)
    result = solve(instance)
    assert result.infeasibility is not None
    assert "keeps the budget and all floors; one of these would do" in result.infeasibility.reason
    least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
    assert least == pytest.approx({"budget": 2.4, "floor.heavy": 1.0, "floor.light": 1.0})
    assert verify(instance, result).ok
    for solver in ENGINES:
        assert solve(instance, solver=solver).status is Status.INFEASIBLE


def test_the_judge_catches_a_class_below_its_floor() -> None:
    """The plan without floors runs the light class on one GPU, under the floor's name."""
    plan = solve(two_streams()).solution
    assert isinstance(plan, BoaSolution)
    (broken,) = [check for check in evaluate(two_streams(light=1.1), plan).checks if not check.holds]
    assert (broken.family, broken.left) == ("floor.light", 1.1)
    assert broken.right == pytest.approx(1.0)
    assert broken.message == "the floor of light must not exceed the time-average GPUs on which its jobs run"


def test_frontier_plan_and_explanation() -> None:
    """From 2.2 GPUs on the frontier keeps the floor, each point proven; plans carry it; choices are explained."""
    instance = two_streams(light=1.2)
    line = frontier(instance)
    assert line.budgets[0] == pytest.approx(2.2)
    point = line.at(2.3)
    assert point.certificate is not None
    asked = instance.replace(budget="2.3gpu")
    assert dual_bound(asked, dict(point.certificate.multipliers)) == pytest.approx(point.objective)
    assert point.objective == pytest.approx((2.0 * (3600.0 - 720.0) + 2160.0) / 3.0)
    result = solve(instance)
    limit = build_plan(instance, result).limits["floor.light"]
    assert (limit.amount, limit.unit) == (1.2, "gpu")
    assert explain(instance, result).choices


def test_who_cannot_take_floors_refuses() -> None:
    """Solvers without the feature, real widths and wrong estimates say so; other amounts, too."""
    with pytest.raises(UnsupportedError, match="cannot handle floors"):
        solve(two_streams(light=1.1), solver="layered-paths")
    with pytest.raises(DataError, match="floors need whole widths; solve whole or rescaling"):
        two_streams(light=1.1).replace(problem="continuous")
    with pytest.raises(DataError, match=r"least_mean_gpus.*'5usd'; a number of GPUs is needed, as in 12gpu"):
        two_streams(light="5usd")
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(DataError, match="least_mean_gpus"):
            two_streams(light=wrong)
    instance = two_streams(light=1.1)
    with pytest.raises(UnsupportedError, match="floors"):
        analyse_sensitivity(instance, solve(instance), {"speedup": 0.1}, samples=2)


@pytest.mark.parametrize("policy", ["pure", "mixed"])
def test_floors_go_with_a_quota_of_nothing(policy: str) -> None:
    """A type that nobody may use changes no plan, whoever could run on it."""
    instance = two_streams(light=1.1).replace(policy=policy)
    fields = instance.to_json_data()
    fields["gpu_types"]["none"] = {"quota_gpus": 0.0}
    fields["classes"]["heavy"]["speedup"]["none"] = {"form": "table", "gpus": [1], "speedup": [1.0]}
    closed = BoaInstance.parse(fields)
    result = solve(closed)
    assert result.objective == pytest.approx(solve(instance).objective, rel=1e-9)
    assert verify(closed, result).ok


def test_instances_without_floors_keep_their_ids() -> None:
    """The field is left out of what is written and hashed where there is none, and read with its unit."""
    assert "least_mean_gpus" in JobClass.LATER
    assert two_streams().content_hash() == "6fb1a20fa0a067974c097605ac5d25f4410128ca7d814547353b50b73152768c"
    assert two_streams(light="1.1gpu").content_hash() == two_streams(light=1.1).content_hash()
