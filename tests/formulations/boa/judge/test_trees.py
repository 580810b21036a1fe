"""The judge of divisions: true ones are accepted, everything else is refuted, against every plan of small instances."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, PathCosts, SolveRequest, Status, TreeCertificate
from optplan.contracts.judgement import RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact import linked_limits
from optplan.formulations.boa.exact.feasibility import divide_types, follow_types, state_linked
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.exact.trees import write_rows, write_tree
from optplan.formulations.boa.judge import listing
from optplan.formulations.boa.judge import rows as rows_judge
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.listing import OpenPaths, find_least_plan, find_undominated
from optplan.formulations.boa.judge.switching import TypedPaths
from optplan.formulations.boa.judge.trees import check_tree
from optplan.instances.library import build_named
from optplan.progress import OutOfTime, Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import path_totals
from optplan.solvers.paths import bounds, closing, dividing, solutions
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.levels.sieve import Sieve
from optplan.solving import solve
from optplan.verification import verify

CASES = Path(__file__).parents[3] / "cases"
SEEDS = st.integers(0, 10_000)


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
    plans = every_plan(BoaInstance.parse(data | {"budget": "1usd/hour"}))
    budget = float(rng.choice(plans[:, 1])) * rng.uniform(0.7, 1.2)
    for gpu_type in types[:-1]:
        gpu_types[gpu_type]["quota_gpus"] = float(rng.uniform(0.1, 2.0))
    return BoaInstance.parse(data | {"budget": f"{budget!r}usd/hour"})


def every_plan(instance: BoaInstance) -> FloatArray:
    """List value and consumptions (N, 1 + L) of every pure plan."""
    per_class = [every_path(costs) for costs in path_costs(instance)]
    total = per_class[0]
    for sums in per_class[1:]:
        total = (total[:, None] + sums[None]).reshape(-1, total.shape[1])
    return total


def every_path(costs: PathCosts) -> FloatArray:
    """List value and consumptions of every path of a class."""
    epochs, nodes = costs.run_value.shape
    sums = []
    for columns in itertools.product(range(nodes), repeat=epochs):
        value, used = path_totals(costs, np.array(columns))
        sums.append([value, *used])
    return np.array(sums)


def best_of(instance: BoaInstance) -> float:
    """Return the least value of a plan within the limits; infinity when there is none."""
    plans = every_plan(instance)
    within = (plans[:, 1:] <= np.array(list(instance.limits.values()))).all(axis=1)
    return float(plans[within, 0].min(initial=np.inf))


def divide(
    instance: BoaInstance, monkeypatch: pytest.MonkeyPatch, *, labels: int, by_types: bool = False
) -> solutions.LinkedSolution | None:
    """Solve by branching, with few or no labels; None when not even mixtures keep the limits."""
    monkeypatch.setattr(closing, "_MOST_LABELS", labels)
    monkeypatch.setattr(dividing, "_NEAR", 10.0)
    monkeypatch.setattr(closing, "_PLAIN", 1)
    monkeypatch.setattr(closing._Closing, "_enumerate_all", lambda _: None)
    follow = (lambda: follow_types(instance)) if by_types else None
    found = closing.solve_pure(state_linked(instance), gap=0.0, follow=follow)
    return None if isinstance(found, bounds.LinkedShortfall) else found


def find_rows(instance: BoaInstance) -> TreeCertificate | None:
    """Return what levels prove; None when they are not needed, or no plan keeps the limits."""
    family = state_linked(instance)
    found = bounds.maximise_bound(family)
    if isinstance(found, bounds.LinkedShortfall) or math.isinf(best_of(instance)):
        return None
    blocks = divide_types(instance)
    assert blocks is not None
    sieve = Sieve(blocks, family.limits, found.bound, found.multipliers, Effort())
    sieve.run(math.inf, 0.0)
    return write_rows(sieve.rows.weights, sieve.bound)


def certified(instance: BoaInstance, found: solutions.LinkedSolution) -> TreeCertificate:
    """Write the certificate of a search that divided."""
    assert found.region is not None
    bound = None if math.isinf(found.bound) else found.bound
    tree = write_tree(instance, state_linked(instance), found.region, bound, trails=found.trails)
    assert tree is not None
    return tree


def is_proven(instance: BoaInstance, tree: TreeCertificate) -> bool:
    """Whether the judge takes a certificate."""
    try:
        check_tree(instance, tree, Stopwatch())
    except RefutedError:
        return False
    return True


@pytest.mark.parametrize("by_types", [False, True])
@pytest.mark.parametrize("labels", [0, 40_000])
@pytest.mark.parametrize("problem", ["whole", "rescaling"])
def test_divisions_prove_the_optimum_and_no_more(
    monkeypatch: pytest.MonkeyPatch, problem: str, labels: int, by_types: bool
) -> None:
    """Over 60 instances each true optimum is accepted, and none that is higher by 1e-6, 1e-3 or a tenth."""
    divided = 0
    for seed in range(60):
        instance = draw_instance(seed, problem)
        found = divide(instance, monkeypatch, labels=labels, by_types=by_types)
        best = best_of(instance)
        if found is None or found.region is None:
            continue
        divided += 1
        tree = certified(instance, found)
        if math.isinf(best):
            assert tree.bound is None
            assert is_proven(instance, tree)
            continue
        assert tree.bound == pytest.approx(best, rel=1e-9)
        assert is_proven(instance, tree)
        for more in (1e-6, 1e-3, 0.1):
            assert not is_proven(instance, tree.replace(bound=best * (1.0 + more)))
        assert not is_proven(instance, tree.replace(bound=None))
    assert divided >= 15


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
            plans = every_plan(instance)
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


def test_the_library_instance_is_proven_by_a_small_tree() -> None:
    """At 50 dollars branching is needed; the whole result is checked and nothing rests on trust."""
    instance = build_named("boa-newtrace-quotas").replace(budget="50usd/hour")
    result = solve(instance)
    assert result.objective == pytest.approx(1101.002, abs=5e-4)
    assert result.bound_proof is BoundProof.TREE
    assert len(result.certificates[-1].model_dump_json()) < 100_000
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
def fixture_tree(monkeypatch: pytest.MonkeyPatch) -> tuple[BoaInstance, TreeCertificate]:
    """Return an instance with a division of several parts."""
    for seed in range(200):
        instance = draw_instance(seed)
        found = divide(instance, monkeypatch, labels=0, by_types=True)
        if found is not None and found.region is not None and found.paths is not None:
            tree = certified(instance, found)
            if len(tree.content["tree"]) >= 7:  # type: ignore[arg-type]
                return instance, tree
    raise AssertionError


@pytest.mark.parametrize(("problem", "names"), [("whole", "abc"), ("rescaling", "abc"), ("rescaling", "ab")])
def test_rows_prove_the_optimum_and_no_more(problem: str, names: str) -> None:
    """Levels find the optimum, which the judge accepts, and none that is higher by 1e-6 or more."""
    seen = 0
    for seed in range(20):
        instance = draw_instance(seed, problem, names)
        rows = find_rows(instance)
        if rows is None or rows.bound is None:
            continue
        seen += 1
        best = best_of(instance)
        assert rows.bound == pytest.approx(best, rel=1e-9)
        assert is_proven(instance, rows)
        for more in (1e-6, 1e-3, 0.1, 10.0):
            assert not is_proven(instance, rows.replace(bound=best * (1.0 + more)))
    assert seen >= 12


@pytest.mark.parametrize("pools", [False, True])
@settings(max_examples=60)
@given(seed=SEEDS)
def test_no_rows_prove_more_than_the_optimum(pools: bool, seed: int) -> None:
    """Whatever the rows, the judge lists what they leave: all prove the optimum of a small instance, none a forged one.

    Rows that are huge, tiny, of one limit only, or repeated are among them. With ``pools`` no class counts as one of
    few paths, so that sets of types are chosen first and classes joined part by part, as in large instances.
    """
    rng = np.random.default_rng(seed)
    instance = draw_instance(seed)
    best = best_of(instance)
    if math.isinf(best):
        return
    rows = rng.uniform(0.0, 2.0, (int(rng.integers(1, 6)), 4)) * 10.0 ** rng.integers(-9, 10, (1, 4))
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[0, 0] = 1.0
    content: dict[str, Any] = {"rows": [row for row in rows.tolist() if any(row)]}
    with pytest.MonkeyPatch.context() as monkeypatch:
        if pools:
            join_in_parts(monkeypatch)
        for factor in (0.5, 1.0, 1.0 + 1e-6, 1.01, 3.0):
            given_rows = TreeCertificate(rule="boa-rows", bound=best * factor, content=content)
            assert is_proven(instance, given_rows) == (factor <= 1.0)


def join_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the judge of rows treat a small instance as a large one: no class at once, parts of at most four totals."""
    for name, few in {"_FEW_FORMED": 0, "_FORMED": (4,), "_PART": 4, "_SPREAD": 1e-3, "_ROWS": 2, "_CELLS": 64}.items():
        monkeypatch.setattr(rows_judge, name, few)


def test_rows_with_a_quota_of_nothing_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that weighs nothing but the quota of a type that no plan can use is left out of the certificate."""
    monkeypatch.setattr(linked_limits, "state_runs", lambda _: None)
    monkeypatch.setattr(closing._Closing, "_enumerate_all", lambda _: None)
    proven = 0
    for seed in range(12):
        instance = draw_instance(seed)
        types = {
            name: kind.replace(quota_gpus=0.0) if name == "b" else kind for name, kind in instance.gpu_types.items()
        }
        barred = instance.replace(gpu_types=types)
        best = best_of(barred)
        result = solve(barred)
        if not result.certificates or not isinstance(result.certificates[-1], TreeCertificate) or math.isinf(best):
            continue
        proven += result.certificates[-1].rule == rows_judge.RULE
        assert result.objective == pytest.approx(best, rel=1e-9)
    assert proven >= 1


def test_what_others_undercut_is_left_out_among_the_same_sets_only() -> None:
    """Of (1, 1), (2, 1), (1, 2) and (3, 0) the first makes two superfluous; with other sets to come it makes none."""
    sums = np.array([[2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [3.0, 0.0]])
    alike = rows_judge._undercut(rows_judge._Totals(sums, np.full((4, 2), [-1, 3])))
    assert alike.sums.tolist() == [[1.0, 1.0], [3.0, 0.0]]
    others = np.array([[-1, 3], [-1, 2], [3, -1], [-1, 3]])
    assert len(rows_judge._undercut(rows_judge._Totals(sums, others)).sums) == 4


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        {},
        "rows",
        [None],
        [[]],
        [[1.0, 0.0]],
        [[1.0, 0.0, 0.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0, 0.0]],
        [[1.0, -1.0, 0.0, 0.0]],
        [[1.0, float("nan"), 0.0, 0.0]],
        [[1.0, float("inf"), 0.0, 0.0]],
        [[True, 0.0, 0.0, 0.0]],
        [["1.0", 0.0, 0.0, 0.0]],
        [[10**400, 0.0, 0.0, 0.0]],
        [[1.0, 0.0, 0.0, 0.0]] * 20_001,
    ],
)
def test_any_rows_are_refuted_and_nothing_else(rows: object) -> None:
    """What is no list of weights is refuted, and so are bounds and limits that rows do not speak of."""
    instance = next(each for each in map(draw_instance, range(200)) if find_rows(each) is not None)
    whole = find_rows(instance)
    assert whole is not None
    assert is_proven(instance, whole)
    assert not is_proven(instance, whole.model_copy(update={"content": {"rows": rows}}))
    for change in ({"limit": "budget"}, {"bound": None}, {"bound": math.inf}, {"bound": -1.0}, {"bound": math.nan}):
        assert not is_proven(instance, whole.model_copy(update=change))


def test_too_few_rows_leave_too_much_to_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the objective alone leaves more paths of the library's instance than the judge forms."""
    monkeypatch.setattr(rows_judge, "_FORMED", (10,))
    monkeypatch.setattr(rows_judge, "_FORMED_AT_LAST", (100,))
    instance = build_named("boa-newtrace-quotas").replace(budget="75usd/hour")
    assert isinstance(instance, BoaInstance)
    content: dict[str, Any] = {"rows": [[1.0, 0.0, 0.0, 0.0]]}
    with pytest.raises(RefutedError, match="beginnings of paths"):
        check_tree(instance, TreeCertificate(rule="boa-rows", bound=764.0, content=content), Stopwatch())


@pytest.mark.parametrize("divided", [True, False])
def test_what_the_judge_does_not_list_is_divided_or_on_trust(monkeypatch: pytest.MonkeyPatch, divided: bool) -> None:
    """Rows that leave too much give way to a division; where that leaves too much, too, the bound is on trust."""
    monkeypatch.setattr(linked_limits, "state_runs", lambda _: None)
    monkeypatch.setattr(rows_judge, "_FEW_FORMED", 0)
    monkeypatch.setattr(rows_judge, "_FORMED", (0,))
    monkeypatch.setattr(rows_judge, "_FORMED_AT_LAST", (0,))
    monkeypatch.setattr(closing._Closing, "_enumerate_all", lambda _: None)
    monkeypatch.setattr(dividing, "_NEAR", 10.0)
    if not divided:
        monkeypatch.setattr(listing, "_MOST", 0)
    kinds = []
    for seed in range(12):
        instance = draw_instance(seed)
        result = solve(instance)
        refused = find_rows(instance)
        if result.status is not Status.OPTIMAL or result.bound_proof is BoundProof.LAGRANGIAN or refused is None:
            continue
        assert verify(instance, result.replace(certificates=(refused,), bound_proof=BoundProof.TREE)).unlisted
        assert result.objective == pytest.approx(best_of(instance), rel=1e-9)
        assert all(getattr(each, "rule", "") != rows_judge.RULE for each in result.certificates)
        kinds.append(result.bound_proof)
    assert (BoundProof.TREE if divided else BoundProof.SEARCHED) in kinds


@settings(max_examples=40)
@given(seed=SEEDS)
def test_paths_by_types_are_all_paths(seed: int) -> None:
    """Least sums by set of types, and lists under rows, are those found by looking at every path."""
    rng = np.random.default_rng(seed)
    instance = draw_instance(seed)
    for name, costs in zip(instance.classes, path_costs(instance), strict=True):
        kind = instance.options(name).group
        paths = np.array(list(itertools.product(range(kind.size), repeat=len(costs.run_value))))
        used = np.bitwise_or.reduce(1 << kind[paths], axis=1)
        sums, weights = every_path(costs), rng.uniform(0.1, 2.0, (3, 4)) * [1.0, 200.0, 200.0, 200.0]
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        typed = TypedPaths(steps, np.concatenate([costs.enter_value[None], costs.enter_consumption]), costs.group, kind)
        least = typed.find_least(weights, Stopwatch())
        for kinds in range(1, typed.num_sets + 1):
            own = sums[used == kinds]
            expected = (own @ weights.T).min(axis=0, initial=np.inf)
            assert least[:, kinds - 1] == pytest.approx(expected, rel=1e-12)
            if not len(own):
                continue
            room = expected * rng.uniform(1.0 + 1e-9, 1.3, 3)
            listed, _ = typed.list_sums(kinds, weights, room, 1_000_000, Stopwatch())
            assert listed is not None
            below = own[(own @ weights.T <= room).all(axis=1)]
            assert all((listed <= each * (1.0 + 1e-12) + 1e-12).all(axis=1).any() for each in below)
            assert all(np.isclose(own, each, rtol=1e-12).all(axis=1).any() for each in listed)


def test_what_is_left_out_of_a_tree_is_noticed(tree: tuple[BoaInstance, TreeCertificate]) -> None:
    """No part can be dropped, doubled or put in another's place."""
    instance, whole = tree
    parts: list[Any] = whole.content["tree"]  # type: ignore[assignment]
    for number in range(len(parts)):
        for changed in (parts[:number] + parts[number + 1 :], [*parts[:number], parts[number], *parts[number:]]):
            assert not is_proven(instance, whole.replace(content={"tree": changed}))


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
        {"tree": [{"class": "class0", "epoch": 10**30, "options": []}]},
        {"tree": [{"class": "class0", "epoch": 1.0, "options": []}]},
        {"tree": [{"class": "class0", "epoch": 1, "options": [[0, 10**30]]}]},
        {"tree": [{"class": "class0", "epoch": 1, "options": [[1, 0]]}]},
        {"tree": [{"class": "class0", "epoch": 1, "options": {"0": 1}}]},
        {"tree": [{"class": ["class0"], "epoch": 1, "options": []}]},
        {"tree": [{"class": "class0", "types": ["z"]}]},
        {"tree": [{"class": "class0", "types": "a"}]},
        {"tree": [{"class": "class0", "types": [["a"]]}]},
        {"tree": [{"class": "class0", "types": []}]},
        {"tree": [{"class": "class9", "types": ["a"]}]},
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


@settings(max_examples=60)
@given(seed=SEEDS)
def test_listing_finds_the_best_plan(seed: int) -> None:
    """Whatever the weights and closed options, listing finds the least value of the plans that are open."""
    rng = np.random.default_rng(seed)
    instance = draw_instance(seed)
    graphs, closed, weights = path_costs(instance), [], np.array([1.0, *rng.uniform(0.0, 2000.0, 3)])
    per_class = []
    for costs in graphs:
        mask = rng.random(costs.run_value.shape) < 0.2
        closed.append(mask)
        nodes = range(costs.run_value.shape[1])
        paths = np.array(list(itertools.product(nodes, repeat=len(mask))))
        is_open = ~mask[np.arange(len(mask)), paths].any(axis=1)
        per_class.append(every_path(costs)[is_open])
    total = np.zeros((1, 4))
    for sums in per_class:
        total = (total[:, None] + sums[None]).reshape(-1, 4)
    limits = np.array(list(instance.limits.values())) * rng.uniform(0.7, 2.0)
    # A little above some plan's value: sums in another order may differ in the last bit.
    most = float(rng.choice(total[:, 0])) * (1.0 + 1e-12) if len(total) else 1.0
    expected = total[(total[:, 1:] <= limits).all(axis=1) & (total[:, 0] <= most), 0].min(initial=np.inf)
    opened = [OpenPaths.of_costs(costs, weights, mask) for costs, mask in zip(graphs, closed, strict=True)]
    found = find_least_plan(opened, most, limits, Stopwatch())
    assert found == pytest.approx(expected, rel=1e-12) or (found > most and expected == np.inf)


@given(seed=SEEDS)
def test_undominated_is_what_nothing_undercuts(seed: int) -> None:
    """Small whole numbers have many ties: of equals one stays, and of those that another undercuts none."""
    rng = np.random.default_rng(seed)
    sums = rng.integers(0, 4, (int(rng.integers(1, 40)), 3)).astype(float)
    place = rng.integers(0, 3, len(sums))
    kept = find_undominated(place, sums).tolist()
    for i in range(len(sums)):
        better = [j for j in kept if j != i and place[j] == place[i] and (sums[j] <= sums[i]).all()]
        assert (i in kept) == (not better)
