"""The judge of lists: true ones are accepted, everything else is refuted, against every plan of small instances."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import JsonValue

from optplan.contracts import BoundProof, SolveRequest, Status, TreeCertificate
from optplan.contracts.judgement import RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.judge.trees import check_tree
from optplan.instances.library import build_named
from optplan.progress import OutOfTime, Stopwatch
from optplan.solving import solve
from optplan.verification import verify

from .every_plan import draw_budget_use, useful_plans

CASES = Path(__file__).parents[3] / "cases"


def draw_instance(seed: int, problem: str = "rescaling", names: str = "abc") -> BoaInstance:
    """Return a small instance with three types, or others, quotas of all but the last, and limits that bind."""
    rng = np.random.default_rng(seed)
    types = list(names)
    classes: dict[str, Any] = {}
    for number in range(int(rng.integers(1, 4))):
        epochs = int(rng.integers(1, 4))
        classes[f"class{number}"] = {
            "arrival_rate_per_hour": float(rng.uniform(0.5, 2.0)),
            "epoch_size_gpu_hours": rng.uniform(0.2, 2.0, epochs).tolist(),
            "speedup": {
                t: {"form": "table", "gpus": [1, 2], "speedup": (f * np.array([1.0, rng.uniform(1.2, 2.2)])).tolist()}
                for t, f in zip(types, rng.uniform(0.5, 4.0, len(types)), strict=True)
            },
            "rescale_s": float(rng.uniform(0, 600)),
            "type_change_s": float(rng.uniform(0, 600)) * float(rng.integers(0, 2)),
        }
    gpu_types = {t: {"price_usd_per_hour": float(rng.uniform(0.5, 4.0))} for t in types}
    data = {"formulation": "boa", "classes": classes, "gpu_types": gpu_types, "problem": problem}
    budget = draw_budget_use(BoaInstance.parse(data | {"budget": "1usd/hour"}), rng) * rng.uniform(0.7, 1.2)
    for gpu_type in types[:-1]:
        gpu_types[gpu_type]["quota_gpus"] = float(rng.uniform(0.1, 2.0))
    return BoaInstance.parse(data | {"budget": f"{budget!r}usd/hour"})


def best_of(instance: BoaInstance) -> float:
    """Return the least value of a plan within the limits; infinity when there is none."""
    plans = useful_plans(instance)
    within = (plans[:, 1:] <= np.array(list(instance.limits.values()))).all(axis=1)
    return float(plans[within, 0].min(initial=np.inf))


def is_proven(instance: BoaInstance, tree: TreeCertificate) -> bool:
    """Whether the judge takes a certificate."""
    try:
        check_tree(instance, tree, Stopwatch())
    except RefutedError:
        return False
    return True


def test_infeasibility_found_by_a_search_is_proven() -> None:
    """Where mixtures keep the limits and no pure plan does, result, relaxations and all are checked; over many."""
    seen = 0
    for seed in range(150):
        instance = draw_instance(seed, "whole")
        if np.isfinite(best_of(instance)):
            continue
        result = solve(instance, solver="linked-paths")
        assert result.status is Status.INFEASIBLE
        assert verify(instance, result).ok
        assert result.infeasibility is not None
        seen += result.infeasibility.certificate is not None
        for relaxation in result.infeasibility.relaxations:
            names = list(instance.limits)
            column = names.index(relaxation.limit)
            plans = useful_plans(instance)
            others = np.array([instance.limits[name] for name in names if name != relaxation.limit])
            kept = (np.delete(plans[:, 1:], column, axis=1) <= others * (1 + 1e-9)).all(axis=1)
            if result.infeasibility.certificate is not None:
                assert relaxation.least_feasible == pytest.approx(plans[kept, 1 + column].min(), rel=1e-9)
    assert seen >= 3


@pytest.mark.parametrize("solver", ["linked-paths", "highs", "cp-sat", "enumeration"])
def test_proven_is_infeasible_whatever_solver_proved_it(solver: str) -> None:
    """One job that fits neither the budget on one type (4 > 2) nor the quota on the other (1 > 0.9) is no unknown."""
    instance = BoaInstance.parse(yaml.safe_load((CASES / "proven-but-unknown.yaml").read_text()))
    result = solve(instance, solver=solver)
    assert result.status is Status.INFEASIBLE
    assert result.infeasibility is not None
    least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
    assert least == {"budget": pytest.approx(4.0), "quota.b": pytest.approx(1.0)}
    assert "a budget of at least 4 usd/hour (given: 2); a quota of b of at least 1 GPUs" in result.infeasibility.reason
    assert verify(instance, result).ok


def test_choices_within_quotas_are_proven_by_a_small_tree() -> None:
    """Gavel's 26 classes of one epoch within two quotas: CP-SAT finds the same optimum; the judge takes the tree."""
    gavel = build_named("boa-gavel")
    assert isinstance(gavel, BoaInstance)
    quotas = {"v100": 5.0, "p100": 20.0}
    gpu_types = {name: each.replace(quota_gpus=quotas.get(name)) for name, each in gavel.gpu_types.items()}
    instance = gavel.replace(gpu_types=gpu_types, budget="90usd/hour")
    result = solve(instance, gap=0.0)
    assert result.bound_proof is BoundProof.TREE
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(136750.53021559084, rel=1e-9)
    tree = next(each for each in result.certificates if isinstance(each, TreeCertificate))
    assert is_proven(instance, tree)
    assert not is_proven(instance, tree.replace(bound=1.001 * 136750.53021559084))


def test_without_certificates_the_bound_rests_on_the_search() -> None:
    """Asked for none, the solver says that its bound was searched."""
    instance = build_named("boa-newtrace-quotas").replace(budget="35usd/hour")
    assert isinstance(instance, BoaInstance)
    answer = solve_linked_paths(instance, SolveRequest(certify=False))
    assert answer.bound_proof is BoundProof.SEARCHED
    assert [each.form for each in answer.certificates] == ["lagrangian"]


@pytest.fixture(name="tree")
def fixture_tree() -> tuple[BoaInstance, TreeCertificate]:
    """Return an instance with what closes all plans but those that are listed: half of the optimum's multipliers."""
    for seed in range(200):
        instance = draw_instance(seed)
        best = best_of(instance)
        if math.isfinite(best):
            weights: JsonValue = [1.0, *np.zeros(len(instance.limits)).tolist()]
            content: dict[str, JsonValue] = {"tree": [{"weights": weights, "listed": True}]}
            return instance, TreeCertificate(rule="boa-branches", bound=best, content=content)
    raise AssertionError


@pytest.mark.parametrize("problem", ["whole", "rescaling"])
def test_lists_prove_the_optimum_and_no_more(problem: str) -> None:
    """Over 60 instances a list of what any weights leave proves the optimum, and none that is higher."""
    proven = infeasible = 0
    for seed in range(60):
        instance, rng = draw_instance(seed, problem), np.random.default_rng(seed)
        best, weights = best_of(instance), [1.0, *rng.uniform(0.0, 100.0, 3).tolist()]
        part: dict[str, Any] = {"weights": weights, "listed": True}
        tree = (
            TreeCertificate(rule="boa-branches", bound=best, content={"tree": [part]}) if math.isfinite(best) else None
        )
        none = TreeCertificate(
            rule="boa-branches", bound=None, content={"tree": [part | {"weights": [0.0, *weights[1:]]}]}
        )
        assert is_proven(instance, none) == (tree is None)
        infeasible += tree is None
        if tree is None:
            continue
        proven += 1
        assert is_proven(instance, tree)
        for more in (1e-6, 1e-3, 0.1):
            assert not is_proven(instance, tree.replace(bound=best * (1.0 + more)))
        assert not is_proven(instance, tree.replace(bound=None))
    assert proven >= 15
    assert infeasible >= 3


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"tree": []},
        {"tree": None},
        {"tree": "weights"},
        {"tree": [{}]},
        {"tree": [[]]},
        {"tree": [{"weights": []}]},
        {"tree": [{"weights": [1.0, 0.0]}]},
        {"tree": [{"weights": [1.0, -1.0, 0.0, 0.0]}]},
        {"tree": [{"weights": [0.0, 0.0, 0.0, 0.0], "listed": True}]},
        {"tree": [{"weights": [1e308, 1e308, 1e308, 1e308]}]},
        {"tree": [{"weights": [1e-300, 1e300, 1e300, 1e300]}]},
        {"tree": [{"weights": [float("nan"), 0.0, 0.0, 0.0]}]},
        {"tree": [{"weights": [True, 0.0, 0.0, 0.0]}]},
        {"tree": [{"weights": [10**400, 0.0, 0.0, 0.0]}]},
        {"tree": [{"class": "class0", "epoch": 1, "options": [[0, 1]]}]},
        {"tree": [{"weights": [1.0, 0.0, 0.0, 0.0]}] * 3},
    ],
)
def test_any_content_is_refuted_and_nothing_else(
    content: dict[str, Any], tree: tuple[BoaInstance, TreeCertificate]
) -> None:
    """Whatever stands in a certificate, the judge answers; it never breaks."""
    instance, whole = tree
    assert not is_proven(instance, whole.model_copy(update={"content": content}))


def test_other_rules_limits_and_bounds_are_refuted(tree: tuple[BoaInstance, TreeCertificate]) -> None:
    """Rule, limit and bound are read, too."""
    instance, whole = tree
    for change in ({"rule": "srift-fleets"}, {"limit": "budget"}, {"limit": "quota.z"}, {"bound": math.nan}):
        assert not is_proven(instance, whole.model_copy(update=change))
    for bound in (math.inf, 1e308, 0.0, -1.0):
        assert not is_proven(instance, whole.model_copy(update={"bound": bound}))


def test_weights_out_of_all_proportion_prove_nothing() -> None:
    """At a budget of exactly the least consumption a weight of 1e18 would prove anything by its rounding."""
    instance = build_named("boa-newtrace-quotas").replace(budget="35usd/hour")
    assert isinstance(instance, BoaInstance)
    content: dict[str, Any] = {"tree": [{"weights": [1.0, 1e18, 0.0, 0.0]}]}
    assert not is_proven(instance, TreeCertificate(rule="boa-branches", bound=1e12, content=content))


def test_time_ends_the_check(tree: tuple[BoaInstance, TreeCertificate]) -> None:
    """A stopwatch that has run out ends it."""
    with pytest.raises(OutOfTime):
        check_tree(*tree, Stopwatch(0.0))
