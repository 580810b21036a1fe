"""The best choice among measured speeds: by hand, against every choice looked at here, and where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from optplan.contracts import BoundProof, Status
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.solving import build_plan, pareto, solve
from optplan.verification import verify

MakeInstance = Callable[..., ThroughputsInstance]


@pytest.mark.parametrize(
    ("fields", "choice", "objective"),
    [
        # 3.6e6 samples at 600 a second take 6000 s, which cost 5 usd; 1 small takes 10 h, which cost 5 usd as well:
        # of equal costs the quicker one.
        ({}, ("large", 1, "tp8"), 5.0),
        ({"objective": "time"}, ("large", 2, "tp8 pp2"), 3600.0),
        ({"deadline_s": 5999}, ("large", 2, "tp8 pp2"), 6.0),  # 2 * 3 usd for an hour
        ({"objective": "time", "budget": "5.5usd"}, ("large", 1, "tp8"), 6000.0),
        # 4 small: 3.6e6 / 350 s at 2 usd/h = 5.714 usd; 2: 18947 s at 1 usd/h = 5.263 usd
        ({"types": {"large": {"available": 0}}, "deadline_s": 18_000}, ("small", 4, ""), 3.6e6 / 350 * 2 / 3600),
        # 3 small at (190 + 350) / 2 = 270 a second: 13333 s at 1.5 usd/h
        (
            {"types": {"large": {"available": 0}}, "deadline_s": 18_000, "interpolate": True},
            ("small", 3, ""),
            3.6e6 / 270 * 1.5 / 3600,
        ),
        # The launch of 600 s is paid: 6600 s at 3 usd/h = 5.5 usd, so that one small, 36600 s at 0.5 = 5.083, is best.
        ({"launch_s": 600, "launch_billed": True}, ("small", 1, ""), 36_600 * 0.5 / 3600),
        ({"launch_s": 600, "objective": "time"}, ("large", 2, "tp8 pp2"), 4200.0),
    ],
)
def test_hand_sized_choices(
    make_instance: MakeInstance, fields: dict[str, Any], choice: tuple[str, int, str], objective: float
) -> None:
    """What is least within the limits, proven; the arithmetic stands beside each."""
    offered = {"small": {"price_usd_per_hour": 0.5}, "large": {"price_usd_per_hour": 3.0, "gpus": 8}}
    types = {name: vm | fields.get("types", {}).get(name, {}) for name, vm in offered.items()}
    instance = make_instance(**fields | {"types": types})
    result = solve(instance)
    assert result.solution is not None
    assert tuple(result.solution.to_json_data().values()) == choice
    assert result.objective == pytest.approx(objective, rel=1e-12)
    assert (result.status, result.bound_proof) == (Status.OPTIMAL, BoundProof.TREE)
    assert verify(instance, result).ok


@pytest.mark.parametrize(
    ("fields", "reason", "relaxations", "hopeless"),
    [
        (
            {"deadline_s": 3000},
            "the fastest choice, 2 large (tp8 pp2), takes 3,600 s; the deadline is 3,000 s",
            {"deadline": 3600.0},
            [],
        ),
        (
            {"deadline_s": 5000, "budget": "5.5usd"},
            "the fastest choice within 5.5 usd, 1 large (tp8), takes 6,000 s; the deadline is 5,000 s; the cheapest "
            "choice within 5,000 s, 2 large (tp8 pp2), costs 6 usd; the budget is 5.5 usd",
            {"deadline": 6000.0, "budget": 6.0},
            [],
        ),
        (  # 1 large: 6000 / 3000 = 2 and 5 / 2; 2 large: 3600 / 3000 and 6 / 2
            {"deadline_s": 3000, "budget": "2usd"},
            "no deadline alone would do: no choice keeps the budget; no budget alone would do: no choice keeps the "
            "deadline; 3,000 s and 2 usd would both have to grow by a factor of 2.5",
            {},
            ["deadline", "budget"],
        ),
        (
            {
                "deadline_s": 3000,
                "types": {name: {"price_usd_per_hour": 1, "available": 0} for name in ("small", "large")},
            },
            "fewer VMs are available than were measured (at least 1 small, 1 large (dp8), 1 large (tp8), 2 large (tp8 "
            "pp2))",
            {},
            ["deadline"],
        ),
    ],
)
def test_no_choice_says_what_would_do(
    make_instance: MakeInstance, fields: dict[str, Any], reason: str, relaxations: dict[str, float], hopeless: list[str]
) -> None:
    """The reason, and the least of each limit, proven without the solver; what is relaxed so far then works."""
    instance = make_instance(**fields)
    result = solve(instance)
    found = result.infeasibility
    assert found is not None
    assert found.reason == reason
    assert {one.limit: one.least_feasible for one in found.relaxations} == pytest.approx(relaxations)
    assert [one.limit for one in found.hopeless] == hopeless
    assert verify(instance, result).ok
    for limit, amount in relaxations.items():
        relaxed = instance.replace(**{"deadline_s": amount} if limit == "deadline" else {"budget": f"{amount!r}usd"})
        assert solve(relaxed).status is Status.OPTIMAL


def _draw(rng: np.random.Generator) -> ThroughputsInstance:
    rows = [
        {"type": name, "vms": int(vms), "configuration": configuration, "samples_per_s": float(rng.integers(1, 9))}
        for name in ("a", "b")
        for configuration in ("", "pp2")
        for vms in rng.choice(7, size=rng.integers(1, 4), replace=False) + 1
    ]
    types = {
        name: {
            "price_usd_per_hour": float(rng.integers(1, 5)),
            "available": int(rng.integers(0, 8)) if rng.random() < 0.5 else None,
        }
        for name in ("a", "b")
    }
    limits: dict[str, Any] = {}
    if rng.random() < 0.7:
        limits["deadline_s"] = 3600 * float(rng.uniform(0.2, 2))
    if rng.random() < 0.7:
        limits["budget"] = f"{rng.uniform(0.5, 9):.6g}usd"
    return ThroughputsInstance(
        samples=7200,
        types=types,
        measurements=rows,
        objective=str(rng.choice(["cost", "time"])),
        interpolate=bool(rng.random() < 0.5),
        launch_s=float(rng.integers(0, 2) * 100),
        launch_billed=bool(rng.random() < 0.5),
        **limits,
    )


def _look_at_all(instance: ThroughputsInstance) -> Iterator[tuple[float, float]]:
    """Yield seconds and US dollars of every choice that can be had, computed here by hand."""
    for (name, _), table in instance.tables.items():
        counts = list(table)
        for vms in range(counts[0], counts[-1] + 1) if instance.interpolate else counts:
            below, above = max(n for n in counts if n <= vms), min(n for n in counts if n >= vms)
            share = (vms - below) / (above - below) if above > below else 0.0
            seconds = instance.samples / (table[below] * (1 - share) + table[above] * share)
            paid = seconds + (instance.launch_s if instance.launch_billed else 0.0)
            available = instance.types[name].available
            if available is None or vms <= available:
                yield seconds + instance.launch_s, paid * vms * instance.types[name].price_usd_per_hour / 3600


def test_random_instances_agree_with_every_choice_looked_at() -> None:
    """On a thousand small ones: the optimum, the least of each limit, and the frontier; each answer verified."""
    rng = np.random.default_rng(16)
    infeasible = 0
    for _ in range(1000):
        instance = _draw(rng)
        all_of_them = list(_look_at_all(instance))
        most = instance.limits.get("deadline", np.inf), instance.limits.get("budget", np.inf)
        kept = [each for each in all_of_them if each[0] <= most[0] * (1 + 1e-9) and each[1] <= most[1] * (1 + 1e-9)]
        side = 0 if instance.objective == "time" else 1
        result = solve(instance)
        if kept:
            assert result.objective == pytest.approx(min(each[side] for each in kept), rel=1e-12)
            assert result.objective == result.bound
        else:
            infeasible += 1
            assert result.infeasibility is not None
            for one in result.infeasibility.relaxations:
                own = 0 if one.limit == "deadline" else 1
                near = [each[own] for each in all_of_them if each[1 - own] <= most[1 - own] * (1 + 1e-9)]
                assert one.least_feasible == pytest.approx(min(near), rel=1e-12)
        assert verify(instance, result).ok
        points = {(point.measures["time_s"], point.measures["cost_usd"]) for point in pareto(instance).points}
        unbeaten = {
            each
            for each in all_of_them
            if not any(o[0] <= each[0] * (1 + 1e-9) and o[1] < each[1] * (1 - 1e-9) for o in all_of_them)
            and not any(o[1] <= each[1] * (1 + 1e-9) and o[0] < each[0] * (1 - 1e-9) for o in all_of_them)
        }
        # Choices that are equal in both are one point.
        assert sorted({round(t, 6) for t, _ in points}) == sorted({round(t, 6) for t, _ in unbeaten})
    assert 100 < infeasible < 900


def test_a_plan_has_everything_to_run_it(make_instance: MakeInstance) -> None:
    """Two VMs of 8 GPUs for an hour of training behind a launch, counted in iterations of 1,000 samples."""
    instance = make_instance(objective="time", launch_s=60, launch_billed=True, global_batch=1000)
    plan = build_plan(instance, solve(instance))
    (segment,) = plan.segments
    assert (segment.nodes, segment.workers, segment.label) == (2, 16, "2 large, tp8 pp2")
    assert segment.exit.to_json_data() == {"when": "iterations", "iterations": 3600}
    assert segment.expected.iteration_s == pytest.approx(1.0)
    assert plan.totals() == pytest.approx(
        {"time_s": 3660.0, "gpu_hours": 16 * 61 / 60, "busy_gpu_hours": 16.0, "cost_usd": 6.1}
    )
