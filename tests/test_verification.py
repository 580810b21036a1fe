"""The judge: valid results pass, and every single thing that is wrong with one is found."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, LagrangianCertificate, PathCosts, Result, Solution, Status
from optplan.errors import DataError, UsageError, VerificationError
from optplan.formulations.boa.data import BoaInstance, Policy, Problem
from optplan.formulations.boa.evaluation import dual_bound
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.units import Amount, BudgetUnit
from optplan.verification import least_within, verify

Data = dict[str, Any]
Case = tuple[BoaInstance, Result[Solution]]

#: Solver and problem: between them every kind of proof, of plan and of status.
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "engine": ("boa-two-classes", "highs", {}),
    "exhaustion": ("boa-two-classes", "enumeration", {}),
    "exhaustive": ("boa-two-classes", "layered-paths", {}),
    "lagrangian": ("boa-two-epochs", "layered-paths", {"policy": Policy.MIXED}),
    "continuous": ("boa-two-epochs", "sorted-slopes", {"problem": Problem.CONTINUOUS}),
    "heuristic": ("boa-two-classes", "published-algorithm1", {}),
    "infeasible": ("boa-two-classes", "layered-paths", {"budget": Amount(1.0, BudgetUnit.GPU)}),
    "money": ("boa-two-classes", "layered-paths", {"budget": Amount(1000.0, BudgetUnit.USD_PER_MONTH)}),
}


def named(name: str, **changes: object) -> BoaInstance:
    """Return a BOA instance of the library with some fields changed."""
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """Return an instance and its result for each of the cases."""
    made = {}
    for key, (name, solver, changes) in CASES.items():
        instance = named(name, **changes)
        made[key] = (instance, solve(instance, solver=solver, check=False))
    return made


def reread(result: Result[Solution], data: Data) -> Result[Solution]:
    """Read a result back from data that may have been tampered with."""
    return type(result).parse(data)


def changed(data: Data, path: tuple[str | int, ...], value: object) -> Data:
    """Return a copy of the data with another value at a path."""
    copied = copy.deepcopy(data)
    inner: Any = copied
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return copied


def failed(case: Case, data: Data) -> set[str]:
    """Return the families of the checks that fail for tampered data; ``refused`` when it cannot even be read."""
    instance, result = case
    try:
        tampered = reread(result, data)
    except DataError:
        return {"refused"}
    return {check.family for check in verify(instance, tampered).failures}


@pytest.mark.parametrize("key", list(CASES))
def test_valid_results_pass(cases: dict[str, Case], key: str) -> None:
    """As returned, and after a journey through JSON; nothing is required of what holds."""
    instance, result = cases[key]
    for each in (result, reread(result, result.to_json_data())):
        verification = verify(instance, each)
        assert verification.failures == ()
        verification.require()
        assert verification.ok
        assert verification.seconds > 0.0


def test_what_cannot_be_checked_is_named(cases: dict[str, Case]) -> None:
    """An engine's word and a search's end are listed; certificates are not."""
    engine, exhaustion = (verify(*cases[key]).unproven for key in ("engine", "exhaustion"))
    assert engine == ("bound: rests on engine, which cannot be re-derived cheaply",)
    assert exhaustion == ("bound: rests on exhaustion, which cannot be re-derived cheaply",)
    for key in ("exhaustive", "lagrangian", "continuous"):
        assert not any(claim.startswith("bound") for claim in verify(*cases[key]).unproven)
    for key in ("heuristic", "infeasible"):
        assert verify(*cases[key]).unproven == ()


def test_a_result_of_another_instance_is_a_wrong_call(cases: dict[str, Case]) -> None:
    """Not a failed check: nothing can be said. A changed name or budget makes another instance."""
    instance, result = cases["engine"]
    for other in (
        named("boa-two-epochs"),
        instance.replace(name="b"),
        instance.replace(budget=Amount(9.0, BudgetUnit.GPU)),
    ):
        with pytest.raises(
            UsageError, match=r"the result was made for boa instance 'boa-two-classes' with hash [0-9a-f]{12}, this"
        ):
            verify(other, result)
    with pytest.raises(UsageError, match=r"the result was made for seer instance .* give the instance it was made"):
        verify(instance, result.replace(formulation="seer"))


def test_require_names_everything(cases: dict[str, Case]) -> None:
    """Family, index, both sides and tolerance."""
    instance, result = cases["engine"]
    tampered = reread(result, changed(result.to_json_data(), ("objective",), 1000.0))
    with pytest.raises(
        VerificationError, match=r"^objective: the result's figure .* \(left 1000\.0, right 2816\.\d+, tol"
    ):
        verify(instance, tampered).require()


def test_failures_come_first(cases: dict[str, Case]) -> None:
    """Whatever the order in which things were checked."""
    instance, result = cases["exhaustive"]
    tampered = reread(result, changed(result.to_json_data(), ("certificates", 0, "bound"), 2000.0))
    holds = [check.holds for check in verify(instance, tampered).checks]
    assert holds == sorted(holds)
    assert not holds[0]


def leaves(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Yield every number in plain data with its path."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    elif isinstance(data, int | float):
        yield path, float(data)


def still_true(path: tuple[str | int, ...], factor: float) -> bool:
    """Whether a number may change like this and leave the claim true."""
    if path[-1] == "allowance":
        return factor > 1  # looking further proves as much
    # Where the dual function is smooth, its value hardly changes beside its maximum.
    return "multipliers" in path and abs(factor - 1) < 1e-4


CLAIMS = ("objective", "bound", "certificates", "solution", "measures", "infeasibility")


@pytest.mark.parametrize("factor", [1.01, 0.99, 1.00001, 0.99999, -1.0, 0.0, 1e300])
@pytest.mark.parametrize("key", list(CASES))
def test_every_number_that_is_changed_is_noticed(cases: dict[str, Case], key: str, factor: float) -> None:
    """Objective, bound, certificates, widths, fractions, measures, relaxations: one by one, by little and by much."""
    data = cases[key][1].to_json_data()
    unnoticed = []
    for path, value in leaves(data):
        if path[0] in CLAIMS and not still_true(path, factor):
            other = value * factor if value else 0.01
            if other != value and not failed(cases[key], changed(data, path, other)):
                unnoticed.append((path, value, other))
    assert unnoticed == []


@pytest.mark.parametrize("key", ["engine", "exhaustive", "lagrangian", "heuristic"])
def test_every_other_width_is_noticed(cases: dict[str, Case], key: str) -> None:
    """Each epoch at each other allowed width: at least the GPU use no longer fits."""
    instance, result = cases[key]
    data = result.to_json_data()
    for name, branches in data["solution"]["branches"].items():
        for number, branch in enumerate(branches):
            for epoch, width in enumerate(branch["widths"]):
                for other in set(instance.allowed_widths(name).tolist()) - {width}:
                    path = ("solution", "branches", name, number, "widths", epoch)
                    assert "measure" in failed(cases[key], changed(data, path, float(other)))


def drop_class(data: Data) -> None:
    """Leave a class out."""
    data["solution"]["branches"].pop("job" if "job" in data["solution"]["branches"] else "vision")


def add_class(data: Data) -> None:
    """Add a class that the instance has not."""
    branches = data["solution"]["branches"]
    branches["new"] = next(iter(branches.values()))


def drop_epoch(data: Data) -> None:
    """Leave an epoch out."""
    next(iter(data["solution"]["branches"].values()))[0]["widths"].pop()


def add_branch(data: Data) -> None:
    """Have the first branch twice."""
    branches = next(iter(data["solution"]["branches"].values()))
    branches.append(branches[0])


def drop_certificates(data: Data) -> None:
    """Leave the proof out."""
    data["certificates"] = []


def drop_best_certificate(data: Data) -> None:
    """Leave the last certificate out, on which the bound rests."""
    data["certificates"].pop()


def rename_limit(data: Data) -> None:
    """Price a limit that there is not."""
    data["certificates"][0]["multipliers"] = {"deadline": 1.0}


def drop_limit(data: Data) -> None:
    """Price no limit at all."""
    data["certificates"][0]["multipliers"] = {}


def deny_optimum(data: Data) -> None:
    """Say that no plan lies within a wider allowance."""
    del data["certificates"][-1]["optimum"]
    data["certificates"][-1]["allowance"] *= 1.01


def call_exhaustive(data: Data) -> None:
    """Call the proof something that it is not."""
    data["bound_proof"] = "exhaustive"


def add_measure(data: Data) -> None:
    """Claim a figure that the evaluator does not know."""
    data["measures"]["dollars"] = 0.0


def change_unit(data: Data) -> None:
    """Call the seconds hours."""
    data["objective_unit"] = "h"


@pytest.mark.parametrize(
    ("key", "tamper", "family"),
    [
        ("exhaustive", drop_class, "every-class"),
        ("lagrangian", drop_class, "every-class"),
        ("continuous", drop_class, "every-class"),
        ("engine", add_class, "every-class"),
        ("exhaustive", drop_epoch, "row-length"),
        ("heuristic", drop_epoch, "row-length"),
        ("exhaustive", add_branch, "one-path"),
        ("lagrangian", add_branch, "fraction-sum"),
        ("exhaustive", drop_certificates, "bound"),
        ("lagrangian", drop_certificates, "bound"),
        ("exhaustive", drop_best_certificate, "bound"),
        ("exhaustive", rename_limit, "certificate"),
        ("lagrangian", drop_limit, "certificate"),
        ("exhaustive", deny_optimum, "certificate"),
        ("lagrangian", call_exhaustive, "bound"),
        ("engine", add_measure, "measure"),
        ("heuristic", change_unit, "objective"),
    ],
)
def test_what_is_missing_or_added_is_noticed(
    cases: dict[str, Case], key: str, tamper: Callable[[Data], None], family: str
) -> None:
    """Under the name of the family that it breaks, and never as an error of the judge itself."""
    data = cases[key][1].to_json_data()
    tamper(data)
    assert family in failed(cases[key], data)


def test_measures_without_a_solution_are_noticed(cases: dict[str, Case]) -> None:
    """There is nothing that they could be figures of."""
    data = cases["infeasible"][1].to_json_data()
    assert failed(cases["infeasible"], data | {"measures": {"mean_jct_s": 1.0}}) == {"measure"}


def test_a_feasible_instance_is_not_called_infeasible(cases: dict[str, Case]) -> None:
    """The least consumption of any plan is recomputed, and held against the limit."""
    instance, result = cases["infeasible"]
    enough = instance.replace(budget=Amount(10.0, BudgetUnit.GPU))
    wrong = result.replace(instance_hash=enough.content_hash())
    assert {check.index for check in verify(enough, wrong).failures} >= {"", "budget"}


@pytest.mark.parametrize("other", [600.0, 5400.0])
def test_shadow_prices_are_multipliers(other: float) -> None:
    """One table at its kink (1.25 GPUs, 2250 s): from (1, 3600 s) the slope is 5400, to (2, 1800 s) it is 600."""
    instance = named("boa-one-table")
    result = solve(instance)
    price = result.shadow_prices["budget"]
    assert price.less == pytest.approx(5400.0)
    assert price.more == pytest.approx(600.0)
    for less, more in [(6000.0, 600.0), (5400.0, 500.0), (600.0, 5400.0), (-1.0, -1.0)]:
        wrong = result.replace(shadow_prices={"budget": price.replace(less=less, more=more)})
        assert {check.family for check in verify(instance, wrong).failures} == {"shadow-price"}
    inside = result.replace(shadow_prices={"budget": price.replace(less=other, more=other)})
    assert verify(instance, inside).ok
    assert "that none lie beyond them" in verify(instance, inside).unproven[0]
    unknown = result.replace(shadow_prices={"deadline": price})
    assert {check.family for check in verify(instance, unknown).failures} == {"shadow-price"}


@given(factor=st.floats(0.0, 3.0), raised=st.sampled_from([1e-6, 1e-3, 0.1]))
@settings(max_examples=40)
def test_a_lagrangian_bound_that_is_too_high_is_refused(factor: float, raised: float) -> None:
    """Whatever the multiplier: what it proves is recomputed, and a bound above that is no bound."""
    instance = named("boa-two-epochs", policy=Policy.MIXED)
    result = solve(instance, check=False)
    mu = factor * result.certificates[0].multipliers["budget"]
    proven = dual_bound(instance, {"budget": mu})
    for bound, fits in ((proven, True), (proven + raised * 12264.6, False)):
        certificate = LagrangianCertificate(multipliers={"budget": mu}, bound=bound)
        claims = {"status": Status.FEASIBLE, "bound": bound, "certificates": (certificate,), "shadow_prices": {}}
        assert verify(instance, result.replace(**claims)).ok is fits


def test_a_multiplier_out_of_proportion_buys_no_tolerance() -> None:
    """At the least budget every large multiplier is a best one; 1e20 must not hide a wrong bound in its rounding."""
    instance = named("boa-two-epochs", budget=Amount(4.05, BudgetUnit.GPU))
    result = solve(instance, check=False)
    assert verify(instance, result).ok
    assert result.objective == pytest.approx(14580.0)
    certificate = LagrangianCertificate(multipliers={"budget": 1e20}, bound=14570.0)
    claims = {
        "bound": 14570.0,
        "bound_proof": BoundProof.LAGRANGIAN,
        "certificates": (certificate,),
        "gap_target": 0.01,
    }
    assert not verify(instance, result.replace(**claims, shadow_prices={})).ok


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("policy", list(Policy))
def test_the_judge_is_as_strict_at_every_scale(scale: float, policy: Policy) -> None:
    """Sizes and pauses of nanoseconds or of billions of hours: valid results pass, a millionth more is noticed."""
    instance = random_boa(classes=3, epochs=4, widths=6, seed=5, policy=policy)
    classes = {
        name: c.replace(
            epoch_size_gpu_hours=c.epoch_size_gpu_hours * scale,
            rescale_s=c.rescale_s * scale,
            arrival_rate_per_hour=c.arrival_rate_per_hour / scale,
        )
        for name, c in instance.classes.items()
    }
    instance = instance.replace(classes=classes)
    result = solve(instance, gap=1e-4)
    assert verify(instance, result).ok
    data = result.to_json_data()
    for path in [("objective",), ("bound",), ("certificates", 0, "bound"), ("measures", "gpus")]:
        value = dict(leaves(data))[path]
        for factor in (1 + 1e-6, 1 - 1e-6):
            assert failed((instance, result), changed(data, path, value * factor)), (path, factor)


def paths_through(graph: PathCosts) -> list[tuple[float, float]]:
    """List value and consumption of every path, step by step."""
    totals = []
    for path in itertools.product(range(graph.nodes.size), repeat=len(graph.run_value)):
        value = consumption = 0.0
        for layer, node in enumerate(path):
            value += graph.run_value[layer, node]
            consumption += graph.run_consumption[layer, node]
            if layer == 0 or node != path[layer - 1]:
                value += graph.enter_value[layer, node]
                consumption += graph.enter_consumption[layer, node]
        totals.append((value, consumption))
    return totals


@st.composite
def graphs(draw: st.DrawFn) -> PathCosts:
    """Draw a graph of small whole costs: full of ties and zeros, and exact in floating point."""
    layers, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    costs = st.lists(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes), min_size=layers, max_size=layers)
    four = [np.array(draw(costs), dtype=float) for _ in range(4)]
    return PathCosts("drawn", np.arange(nodes), *four)


@settings(max_examples=300)
@given(
    drawn=st.lists(graphs(), min_size=1, max_size=3),
    mu=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    allowance=st.integers(0, 12).map(lambda n: n + 0.25),
    budget=st.integers(0, 20),
)
def test_least_within_agrees_with_all_combinations(
    drawn: list[PathCosts], mu: float, allowance: float, budget: int
) -> None:
    """The least value within the budget of all combinations whose reduced cost is within the allowance, or infinity."""
    per_graph = [paths_through(graph) for graph in drawn]
    least = sum(min(v + mu * c for v, c in totals) for totals in per_graph)
    best = float("inf")
    for combination in itertools.product(*per_graph):
        value, consumption = sum(v for v, _ in combination), sum(c for _, c in combination)
        if value + mu * consumption <= least + allowance and consumption <= budget:
            best = min(best, value)
    assert least_within(drawn, mu, allowance, float(budget)) == best


def test_least_within_takes_a_choice_exactly_at_the_budget() -> None:
    """0.1 + 0.2 is a little more than 0.3 in floating point, and keeps a budget of 0.3."""
    graph = PathCosts(
        "a", np.array([1, 2]), *(np.array([row]) for row in ([5.0, 1.0], [0.0, 0.1], [0.0, 0.0], [0.0, 0.0]))
    )
    other = PathCosts("b", np.array([1]), *(np.array([[cost]]) for cost in (1.0, 0.2, 0.0, 0.0)))
    assert least_within([graph, other], 0.0, 10.0, 0.3) == 2.0
    assert least_within([graph, other], 0.0, 10.0, 0.29) == 6.0
    assert least_within([graph, other], 0.0, 10.0, 0.1) == float("inf")


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(list(Policy)))
def test_results_of_random_instances_pass(seed: int, policy: Policy) -> None:
    """Bounds, certificates and shadow prices of the exact solver hold up against the judge."""
    instance = random_boa(classes=2, epochs=5, widths=6, seed=seed, policy=policy)
    result = solve(instance, gap=0.0 if policy is Policy.PURE else 1e-9, check=False)
    assert verify(instance, result).failures == ()
