"""Branch and price by runs, and its judge: against every plan of small instances, and against forged divisions."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import JsonValue

from optplan.contracts import BoundProof, Status, TreeCertificate
from optplan.contracts.judgement import RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import state_linked, state_runs
from optplan.formulations.boa.exact.linked_limits import write_runs
from optplan.formulations.boa.judge.trees import check_tree
from optplan.instances.library import build_named
from optplan.progress import OutOfTime, Stopwatch
from optplan.solvers.paths import TUNING, branch_price, closing, linked_dual
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.run_problem import RunProblem
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solving import solve
from optplan.verification import verify

from .every_plan import draw_budget_use, useful_plans


def draw_instance(seed: int) -> BoaInstance:
    """Return up to three classes on two or three types, with quotas, due dates, floors and pauses that may bind."""
    rng = np.random.default_rng(seed)
    types = ["a", "b", "c"][: int(rng.integers(2, 4))]
    classes: dict[str, Any] = {}
    for number in range(int(rng.integers(1, 4))):
        epochs = int(rng.integers(1, 4))
        sizes = rng.uniform(0.2, 2.0, epochs)
        rate = float(rng.uniform(0.5, 2.0))
        classes[f"class{number}"] = {
            "arrival_rate_per_hour": rate,
            "epoch_size_gpu_hours": sizes.tolist(),
            "speedup": {
                t: {"form": "table", "gpus": [1, 2], "speedup": [[f, f * g] for g in rng.uniform(1.2, 2.2, epochs)]}
                for t, f in zip(types, rng.uniform(0.5, 4.0, len(types)), strict=True)
            },
            "rescale_s": float(rng.choice([0.0, 60.0, 900.0])),
            "type_change_s": float(rng.choice([0.0, 0.0, 600.0])),
        }
        if rng.random() < 0.3:
            classes[f"class{number}"]["most_mean_jct_s"] = 3600.0 * float(sizes.sum() * rng.uniform(0.4, 2.0))
        if rng.random() < 0.2:
            classes[f"class{number}"]["least_mean_gpus"] = float(rate * sizes.sum() * rng.uniform(0.05, 0.4))
    gpu_types: dict[str, dict[str, float]] = {t: {"price_usd_per_hour": float(rng.uniform(0.5, 4.0))} for t in types}
    for gpu_type in types:
        if rng.random() < 0.7:
            gpu_types[gpu_type]["quota_gpus"] = float(rng.uniform(0.2, 3.0))
    data = {"formulation": "boa", "classes": classes, "gpu_types": gpu_types, "policy": "pure"}
    data["problem"] = str(rng.choice(["whole", "rescaling"]))
    used = draw_budget_use(BoaInstance.parse(data | {"budget": "1usd/hour"}), rng)
    return BoaInstance.parse(data | {"budget": f"{used * rng.uniform(0.9, 1.4)!r}usd/hour"})


def at_fifty_dollars() -> BoaInstance:
    """Return five classes of up to 100 epochs on three types, two of them with quotas that bind."""
    instance = build_named("boa-newtrace-quotas")
    assert isinstance(instance, BoaInstance)
    return instance.replace(budget="50usd/hour")


def best_of(instance: BoaInstance) -> float:
    """Return the least value of a plan within the limits; infinity when there is none."""
    plans = useful_plans(instance)
    within = (plans[:, 1:] <= np.array(list(instance.limits.values())) * (1 + 1e-9)).all(axis=1)
    return float(plans[within, 0].min(initial=np.inf))


def search(instance: BoaInstance, parts: int = 10_000) -> BranchAndPrice | None:
    """Return a search by branch and price alone; None where not even mixtures keep the limits."""
    found = linked_dual.maximise_bound(state_linked(instance))
    limits = np.array(list(instance.limits.values()))
    problem = state_runs(instance, cost_steps(instance), limits)
    if isinstance(found, linked_dual.LinkedShortfall) or len(instance.limit_names) == 1:
        return None
    assert problem is not None
    searched = BranchAndPrice(problem, found.bound, 1e-6, Effort())
    with contextlib.suppress(OutOfEffortError):
        searched.run(parts)
    return searched


def is_proven(instance: BoaInstance, tree: TreeCertificate) -> bool:
    """Whether the judge takes a certificate."""
    try:
        check_tree(instance, tree, Stopwatch())
    except RefutedError:
        return False
    return True


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_divisions_prove_the_optimum_and_no_more(first: int) -> None:
    """Over 400 instances the optimum is the best of all plans; its proof is taken, and none that is higher."""
    optimal = infeasible = divided = 0
    for seed in range(first, first + 100):
        instance = draw_instance(seed)
        searched, best = search(instance), best_of(instance)
        if searched is None:
            continue
        if math.isinf(best):
            tree = write_runs(searched.root, None)
            assert tree is not None
            assert searched.plan is None, seed
            assert is_proven(instance, tree), seed
            assert not is_proven(instance, tree.replace(bound=1.0, content=tree.content | {"tree": []}))
            infeasible += 1
            continue
        assert searched.value == pytest.approx(best, rel=1e-7), seed
        assert searched.bound == pytest.approx(best, rel=1e-6), seed
        tree = write_runs(searched.root, searched.bound)
        assert tree is not None
        assert is_proven(instance, tree), seed
        for more in (3e-6, 1e-3, 0.1):
            assert not is_proven(instance, tree.replace(bound=best * (1.0 + more))), seed
        assert not is_proven(instance, tree.replace(bound=None)), seed
        optimal += 1
        divided += len(tree.content["tree"]) > 4  # type: ignore[arg-type]
    assert optimal >= 30
    assert divided >= 5


def test_forged_divisions_prove_nothing_that_is_not_true() -> None:
    """A thousand changes of numbers of trees, and of weights: whatever is taken, no plan is better than it says."""
    rng = random.Random(0)
    tried = 0
    for seed in itertools.count():
        instance = draw_instance(seed)
        searched, best = search(instance), best_of(instance)
        if searched is None or math.isinf(best):
            continue
        tree = write_runs(searched.root, best * 1.001)
        assert tree is not None
        numbers: Any = tree.content["tree"]
        rows: Any = tree.content["weights"]
        if len(numbers) < 6:
            continue
        for _ in range(50):
            forged, weights = list(numbers), [list(row) for row in rows]
            at = rng.randrange(len(forged))
            kind = rng.randrange(4)
            if kind == 0:
                forged[at] = max(0, forged[at] + rng.choice([-2, -1, 1, 2]))
            elif kind == 1:
                del forged[at : at + rng.randint(1, 3)]
            elif kind == 2:
                forged[at:at] = [1, rng.randrange(len(weights))]
            else:
                row = rng.choice(weights)
                row[rng.randrange(len(row))] *= rng.choice([0.0, 0.5, 2.0, 1e6])
            content = {"weights": weights, "tree": forged}
            assert not is_proven(instance, tree.replace(content=content)), (seed, content)
            tried += 1
        if tried >= 1_000:
            return


def test_divisions_by_runs_prove_the_optimum_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only numbers of runs are divided, and single options in the end, the best of all plans is proven, too.

    Of 70 instances, and of hundreds of forged trees: other numbers of runs, and other charges, prove nothing more.
    """
    monkeypatch.setattr(RunProblem, "list_splits", lambda *_: [])
    monkeypatch.setattr(branch_price, "TUNING", replace(TUNING, parts_by_masks=0))
    rng = random.Random(1)
    divided = charged = tried = 0
    for seed in range(1_000, 1_070):
        instance = draw_instance(seed)
        searched, best = search(instance), best_of(instance)
        if searched is None:
            continue
        tree = write_runs(searched.root, None if math.isinf(best) else searched.bound)
        assert tree is not None
        assert is_proven(instance, tree), seed
        if math.isinf(best):
            continue
        assert searched.bound == pytest.approx(best, rel=1e-6), seed
        size = 1 + len(instance.limits)
        rows: Any = tree.content["weights"]
        numbers: Any = tree.content["tree"]
        at = list(find_divisions_by_runs(numbers))
        divided += bool(at)
        charged += any(len(row) > size for row in rows)
        for _ in range(30 if at else 0):
            forged, weights = list(numbers), [list(row) for row in rows]
            place = rng.choice(at)
            forged[place + 3] = max(0, forged[place + 3] + rng.choice([-1, 1, 5]))
            for row in weights:
                if len(row) > size and rng.random() < 0.5:
                    row[size + 2] *= rng.choice([-1.0, 0.0, 0.5, 2.0, 1e6])
                if rng.random() < 0.2:
                    row += [0, 0, rng.choice([-1.0, 1.0]) * best]
            content = {"weights": weights, "tree": forged}
            assert not is_proven(instance, tree.replace(bound=best * 1.001, content=content)), (seed, content)
            tried += 1
    assert divided >= 10
    assert charged >= 5
    assert tried >= 300


def find_divisions_by_runs(numbers: list[int]) -> Iterator[int]:
    """Find where a tree's divisions by numbers of runs begin."""
    at = 0
    while at < len(numbers):
        if numbers[at] == 3:
            yield at
        at += {0: 2, 1: 2, 2: 5, 3: 4}[numbers[at]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "lists of"),
        ({"weights": [[1.0]], "tree": [0, 0]}, "lists of"),
        ({"weights": [[0.0, 0.0, 0.0, 0.0]], "tree": [0, 0]}, "not all of them 0"),
        ({"weights": [[1.0, -1.0, 0.0, 0.0]], "tree": [0, 0]}, "finite numbers from 0 on"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [0, -1]}, "whole numbers from 0 on"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [True]}, "whole numbers from 0 on"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": []}, "ends before all parts"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [0, 1]}, "entries of the tree"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [4, 0]}, "entries of the tree"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [2, 9, 0, 0, 1, 0, 0]}, "one of 5 classes"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [2, 0, 999, 0, 1, 0, 0]}, "epochs"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [2, 0, 0, 2, 2, 0, 0]}, "some of"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [2, 0, 0, 0, 999]}, "some of"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [3, 9, 0, 1, 0, 0]}, "one of 5 classes"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [3, 0, 99, 1, 0, 0]}, "one of 3 types"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0, 0, 0]], "tree": [0, 0]}, "threes, each of class, type and charge"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0, 0, 99, 1.0]], "tree": [0, 0]}, "one of 5 classes, and"),
        (
            {"weights": [[1.0, 1.0, 1.0, 1.0, 9, 0, 1.0]], "tree": [1, 0, 0, 0]},
            "one of 5 classes, and",
        ),
        ({"weights": [[1.0, 1.0, 1.0, 1.0, 0.5, 0, 1.0]], "tree": [0, 0]}, "by numbers from 0 on"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0, 0, 0, "1"]], "tree": [0, 0]}, "charges are finite numbers"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0, 0, 0, 1e9]], "tree": [0, 0]}, "leaves room"),  # of how many runs?
        ({"weights": [[0.0, 0.0, 0.0, 1.0, 0, 0, -1e9]], "tree": [0, 0]}, "leaves room"),
        ({"weights": [[1.0, 0.0, 0.0, 0.0, 0, 0, 1e9]], "tree": [3, 0, 0, 1, 0, 0, 0, 0]}, "leaves room"),
        ({"weights": [[1.0, 0.0, 0.0, 0.0, 0, 0, -1e9]], "tree": [3, 0, 0, 1, 0, 0, 0, 0]}, "leaves room"),
        ({"weights": [[1.0, 1.0, 1.0, 1.0]], "tree": [0, 0]}, "leaves room"),
        ({"weights": [[0.0, 1.0, 1.0, 1.0]], "tree": [0, 0]}, "leaves room"),
    ],
)
def test_what_is_no_division_is_refuted(content: dict[str, Any], message: str) -> None:
    """Whatever stands in a certificate, the judge says what is wrong with it."""
    instance = at_fifty_dollars()
    with pytest.raises(RefutedError, match=message):
        check_tree(instance, TreeCertificate(rule="boa-runs", bound=1e6, content=content), Stopwatch())


@pytest.mark.parametrize("bound", [-1.0, 0.0])
def test_the_bound_is_a_number_above_zero(bound: float) -> None:
    """No other number is a bound, and mixed plans have none, nor limits that there are not."""
    instance = at_fifty_dollars()
    tree = TreeCertificate(rule="boa-runs", bound=bound, content={"weights": [], "tree": []})
    with pytest.raises(RefutedError, match="finite number above zero"):
        check_tree(instance, tree, Stopwatch())
    with pytest.raises(RefutedError, match=r"'quota\.z' is not one of several limits \(budget, "):
        check_tree(instance, tree.replace(bound=1.0, limit="quota.z"), Stopwatch())
    with pytest.raises(RefutedError, match="bounds of pure plans"):
        check_tree(instance.replace(policy="mixed"), tree, Stopwatch())


def test_the_judge_ends_in_time() -> None:
    """A tree that is deeper than the time lasts is left, and one that is deeper than any is refused."""
    instance = at_fifty_dollars()
    rows: Any = [[1.0, 0.0, 0.0, 0.0]]
    chain: Any = [2, 0, 0, 0, 1] * 10_001
    tree = TreeCertificate(rule="boa-runs", bound=1.0, content={"weights": rows, "tree": chain})
    with pytest.raises(OutOfTime):
        check_tree(instance, tree, Stopwatch(0.0))
    with pytest.raises(RefutedError, match="lie within one another"):
        check_tree(instance, tree, Stopwatch())


def test_a_search_that_is_cut_short_proves_what_it_says() -> None:
    """After 30 parts the bound is below the optimum, and the parts that are open prove it."""
    instance = at_fifty_dollars()
    searched = search(instance, parts=30)
    assert searched is not None
    assert searched.bound < 1101.001 < searched.value * (1 + 1e-9)
    tree = write_runs(searched.root, searched.bound)
    assert tree is not None
    assert is_proven(instance, tree)
    assert not is_proven(instance, tree.replace(bound=searched.bound * 1.001))


def test_a_library_instance_is_proven_by_a_small_division() -> None:
    """At 50 dollars the optimum is 1101.002 s; the whole result is checked and nothing rests on trust."""
    instance = at_fifty_dollars()
    result = solve(instance)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(1101.002, abs=5e-4)
    assert result.bound_proof is BoundProof.TREE
    assert result.certificates[-1].rule == "boa-runs"  # type: ignore[union-attr]
    assert len(result.certificates[-1].model_dump_json()) < 100_000
    assert verify(instance, result).ok


def test_no_run_fits_into_a_quota_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven without a type that none can use is proven with it: the judge closes its options itself."""
    monkeypatch.setattr(closing._Closing, "enumerate_all", lambda _: None)
    seen = 0
    for seed in range(60):
        instance = draw_instance(seed)
        gpu_types = instance.gpu_types | {"b": instance.gpu_types["b"].replace(quota_gpus=0.0)}
        result = solve(instance.replace(gpu_types=gpu_types))
        assert verify(instance.replace(gpu_types=gpu_types), result).ok, seed
        seen += result.bound_proof is BoundProof.TREE
    assert seen >= 5


@pytest.mark.parametrize("tree", [[0, 0], [1, 0, 0, 0]])
def test_a_quota_of_nothing_alone_proves_nothing(tree: list[int]) -> None:
    """Plans that take nothing of it keep it: no part is closed by weights of it alone, and no option."""
    instance = build_named("boa-newtrace-quotas")
    assert isinstance(instance, BoaInstance)
    kinds = dict(instance.gpu_types) | {"a100": instance.gpu_types["a100"].replace(quota_gpus=0.0)}
    closed = instance.replace(gpu_types=kinds, policy="pure")
    weights: JsonValue = [float(limit == "quota.a100") for limit in ("", *closed.limits)]
    best = solve(closed).objective
    assert best is not None
    for bound in (2.0 * best, None):
        content: dict[str, JsonValue] = {"weights": [weights], "tree": list(tree)}
        assert not is_proven(closed, TreeCertificate(rule="boa-runs", bound=bound, content=content))


def test_what_a_limit_has_to_be_is_proven_and_no_more() -> None:
    """Of 150 instances those without a pure plan say the least that one needs of each limit, and no more is taken."""
    seen = 0
    for seed in range(150):
        instance = draw_instance(seed)
        result = solve(instance) if math.isinf(best_of(instance)) and len(instance.limit_names) > 1 else None
        if result is None or result.infeasibility is None:
            continue
        assert verify(instance, result).ok, seed
        plans, names = useful_plans(instance)[:, 1:], list(instance.limits)
        amounts = np.array(list(instance.limits.values()))
        for change in result.infeasibility.relaxations:
            tree = change.certificate
            if not isinstance(tree, TreeCertificate):
                continue
            own = names.index(change.limit)
            kept = (np.delete(plans, own, axis=1) <= np.delete(amounts, own) * (1 + 1e-9)).all(axis=1)
            least = float(plans[kept, own].min())
            assert tree.bound == pytest.approx(least, rel=1e-8), seed
            assert is_proven(instance, tree), seed
            for more in (3e-6, 1e-3, 0.1):
                assert not is_proven(instance, tree.replace(bound=least * (1.0 + more))), seed
            assert not is_proven(instance, tree.replace(limit="")), seed
            seen += 1
    assert seen >= 10
