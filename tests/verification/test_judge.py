"""The judge: valid results pass, and every single thing that is wrong with one is found."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, LagrangianCertificate, Result, Solution, Status, Termination
from optplan.contracts.result import OPTIMAL_GAP, closes_gap
from optplan.errors import DataError, UnsupportedError, UsageError, VerificationError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.units import Amount, BudgetUnit
from optplan.verification import evaluate, verify

Data = dict[str, Any]
Case = tuple[BoaInstance, Result[Solution]]

#: Solver and problem: between them every kind of proof, of plan and of status.
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "engine": ("boa-two-classes", "highs", {}),
    "searched": ("boa-two-classes", "enumeration", {}),
    "enumerated": ("boa-two-classes", "layered-paths", {}),
    "lagrangian": ("boa-two-epochs", "layered-paths", {"policy": Policy.MIXED}),
    "continuous": (
        "boa-one-table",
        "layered-paths",
        {"problem": Problem.CONTINUOUS, "budget": Amount(1.1, BudgetUnit.GPU)},
    ),
    "heuristic": ("boa-two-classes", "published-algorithm1", {}),
    "infeasible": ("boa-two-classes", "layered-paths", {"budget": Amount(1.0, BudgetUnit.GPU)}),
    "money": ("boa-two-classes", "layered-paths", {"budget": Amount(1000.0, BudgetUnit.USD_PER_MONTH)}),
    "quotas": ("typed", "linked-paths", {}),
    "quotas-mixed": ("typed", "linked-paths", {"policy": Policy.MIXED}),
    "quotas-engine": ("typed", "highs", {}),
    "quotas-infeasible": (
        "scarce",
        "linked-paths",
        {"budget": Amount(3.9, BudgetUnit.USD_PER_HOUR), "policy": Policy.MIXED},
    ),
    "quotas-infeasible-pure": ("scarce", "linked-paths", {"budget": Amount(3.9, BudgetUnit.USD_PER_HOUR)}),
}

#: Those of which something is taken on trust.
UNCHECKED = ("engine", "searched", "quotas-engine")

#: Two types with prices, one of them with a quota; spot and a cost of leaving a type for the other.
TYPED: Data = {
    "formulation": "boa",
    "gpu_types": {
        "t4": {
            "price_usd_per_hour": 0.5,
            "spot": {"interruptions_per_gpu_hour": 0.05, "restart_s": 120.0, "lost_work_s": 300.0},
        },
        "a100": {"price_usd_per_hour": 3.0, "quota_gpus": 1.5},
    },
    "classes": {
        "bert": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [2.0, 1.0, 2.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [[3.0, 5.0], [4.0, 7.0], [3.0, 5.0]]},
            },
            "rescale_s": 60.0,
            "rescale_s_on": {"a100": 90.0},
            "type_change_s": 120.0,
            "type_change_s_from": {"a100": {"t4": 20.0}},
        },
        "yolo": {
            "arrival_rate_per_hour": 2.0,
            "epoch_size_gpu_hours": [1.0],
            "speedup": {
                "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.9, 3.2]},
                "a100": {"form": "table", "gpus": [1, 2], "speedup": [4.0, 6.0]},
            },
            "rescale_s": 30.0,
        },
    },
    "budget": "6usd/hour",
}


#: The same with so few GPUs of both types that a lower budget cannot be kept.
SCARCE = TYPED | {
    "gpu_types": {
        name: gpu_type | {"quota_gpus": quota}
        for (name, gpu_type), quota in zip(TYPED["gpu_types"].items(), (5.5, 0.5), strict=True)
    }
}
OWN = {"typed": TYPED, "scarce": SCARCE}


def named(name: str, **changes: object) -> BoaInstance:
    """Return a BOA instance of the library, or one of two types, with some fields changed."""
    instance = BoaInstance.parse(OWN[name]) if name in OWN else build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """Return an instance and its result for each of the cases."""
    made: dict[str, Case] = {}
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
    verification = verify(instance, tampered)
    usual = verify(instance, result).on_trust
    trusted = {claim.split(":")[0].split(" ")[0] for claim in verification.on_trust if claim not in usual}
    return {check.family for check in verification.failures} | trusted


@pytest.mark.parametrize("key", list(CASES))
def test_valid_results_pass(cases: dict[str, Case], key: str) -> None:
    """As returned, and after a journey through JSON; nothing is required of what holds."""
    instance, result = cases[key]
    for each in (result, reread(result, result.to_json_data())):
        verification = verify(instance, each)
        assert verification.failures == ()
        verification.require()
        assert verification.nothing_wrong
        assert verification.ok is (key not in UNCHECKED)
        assert verification.seconds > 0.0


def test_what_cannot_be_checked_is_named(cases: dict[str, Case]) -> None:
    """An engine's word and a search's end are listed; certificates are not."""
    engine, searched = (verify(*cases[key]).on_trust for key in ("engine", "searched"))
    assert engine == ("bound: rests on a general engine's word, which has no certificate",)
    assert searched == ("bound: rests on a search, which has no certificate",)
    for key in ("enumerated", "lagrangian", "continuous", "heuristic"):
        assert verify(*cases[key]).on_trust == verify(*cases[key]).never_checked == ()
    words = "infeasibility: the words of the reason; its figures are checked"
    assert verify(*cases["infeasible"]).on_trust == ()
    assert verify(*cases["infeasible"]).never_checked == (words,)
    helps = [f"infeasibility: that {limit} of so much as is called enough is" for limit in ("budget", "quota.t4")]
    assert verify(*cases["quotas-infeasible"]).never_checked == (*helps, words)
    # Of pure plans the plans that are enough are there.
    assert verify(*cases["quotas-infeasible-pure"]).never_checked == (words,)


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


@pytest.mark.parametrize("nothing", [None, "result.json"])
def test_something_else_is_neither_result_nor_instance(cases: dict[str, Case], nothing: Any) -> None:  # noqa: ANN401
    """A wrong call, with what is needed."""
    instance, result = next(iter(cases.values()))
    with pytest.raises(UsageError, match=rf"^result: got {nothing!r}; a Result is needed, such as read_result\('res"):
        verify(instance, nothing)
    with pytest.raises(UsageError, match=rf"^instance: got {nothing!r}; an Instance is needed, such as read_instance"):
        verify(nothing, result)


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
    instance, result = cases["enumerated"]
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


def still_true(path: tuple[str | int, ...], factor: float, *, one_limit: bool) -> bool:
    """Whether a number may change like this and leave the claim true."""
    if path[-1] == "allowance":
        return 1 < factor < 2  # looking further proves as much, within reason
    if "content" in path:
        return True  # a tree that is read otherwise proves its claim all the same, or is refused
    if path == ("infeasibility", "multipliers", "budget") and one_limit:
        return factor > 0  # any multiple of a proof is one
    if path[:2] == ("infeasibility", "hopeless") and factor > 0:
        return abs(factor - 1) < 0.1  # what is infeasible by a margin is so by other weights, too
    # Where the dual function is smooth, its value hardly changes beside its maximum.
    return "multipliers" in path and abs(factor - 1) < 1e-4


CLAIMS = ("objective", "bound", "certificates", "solution", "measures", "infeasibility")


@pytest.mark.parametrize("factor", [1.01, 0.99, 1.00001, 0.99999, -1.0, 0.0, 1e300])
@pytest.mark.parametrize("key", list(CASES))
def test_every_number_that_is_changed_is_noticed(cases: dict[str, Case], key: str, factor: float) -> None:
    """Objective, bound, certificates, widths, fractions, measures, relaxations: one by one, by little and by much."""
    data, one_limit = cases[key][1].to_json_data(), len(cases[key][0].limit_names) == 1
    unnoticed = []
    for path, value in leaves(data):
        if path[0] in CLAIMS and not still_true(path, factor, one_limit=one_limit):
            other = value * factor if value else 0.01
            if other != value and not failed(cases[key], changed(data, path, other)):
                unnoticed.append((path, value, other))
    assert unnoticed == []


@pytest.mark.parametrize("key", ["engine", "enumerated", "lagrangian", "heuristic"])
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
    data["solution"]["branches"].popitem()


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


def call_enumerated(data: Data) -> None:
    """Call the proof something that it is not."""
    data["bound_proof"] = "enumerated"


def add_measure(data: Data) -> None:
    """Claim a figure that the evaluator does not know."""
    data["measures"]["dollars"] = 0.0


def change_unit(data: Data) -> None:
    """Call the seconds hours."""
    data["objective_unit"] = "h"


def drop_relaxations(data: Data) -> None:
    """Name no limit that would help."""
    data["infeasibility"]["relaxations"] = []


def double_relaxation(data: Data) -> None:
    """Name a limit twice."""
    data["infeasibility"]["relaxations"].append(data["infeasibility"]["relaxations"][0])


def add_relaxation(data: Data) -> None:
    """Say that a limit helps without which there is no plan either."""
    weights = dict.fromkeys(data["infeasibility"]["multipliers"], 0.0) | {"quota.a100": 1.0}
    data["infeasibility"]["relaxations"].append(
        {"limit": "quota.a100", "given": 0.5, "least_feasible": 0.0, "unit": "gpu", "multipliers": weights}
    )


def weaken_relaxation(data: Data) -> None:
    """Prove no more than what a plan needs of T4 alone, quotas and budget aside: nothing."""
    relaxation = data["infeasibility"]["relaxations"][1]
    relaxation["multipliers"] = dict.fromkeys(relaxation["multipliers"], 0.0) | {"quota.t4": 1.0}
    relaxation["least_feasible"] = 0.0


def rename_relaxed(data: Data) -> None:
    """Call the limit that helps something that it is not."""
    data["infeasibility"]["relaxations"][0]["limit"] = "deadline"


def change_relaxed_unit(data: Data) -> None:
    """Call GPUs dollars."""
    data["infeasibility"]["relaxations"][0]["unit"] = "usd/day"


def drop_weight(data: Data) -> None:
    """Weigh no limit at all."""
    data["infeasibility"]["multipliers"] = {}


def drop_relaxation_weight(data: Data) -> None:
    """Relax a limit without saying what proves it."""
    del data["infeasibility"]["relaxations"][0]["multipliers"]


def rewrite_reason(data: Data) -> None:
    """Say other figures than the relaxation does."""
    data["infeasibility"]["reason"] = "the least budget is 7 GPUs; the budget is 1"


def talk_away(data: Data) -> None:
    """Say nothing that could be wrong."""
    data["infeasibility"]["reason"] = "it does not fit"


def change_price_unit(data: Data) -> None:
    """Sell a GPU's worth as a dollar's."""
    data["shadow_prices"]["budget"]["unit"] = "h of mean JCT per GPU"


@pytest.mark.parametrize(
    ("key", "tamper", "family"),
    [
        ("enumerated", drop_class, "every-class"),
        ("lagrangian", drop_class, "every-class"),
        ("continuous", drop_class, "every-class"),
        ("engine", add_class, "every-class"),
        ("enumerated", drop_epoch, "row-length"),
        ("heuristic", drop_epoch, "row-length"),
        ("enumerated", add_branch, "one-path"),
        ("lagrangian", add_branch, "fraction-sum"),
        ("enumerated", drop_certificates, "bound"),
        ("lagrangian", drop_certificates, "bound"),
        ("enumerated", drop_best_certificate, "bound"),
        ("enumerated", rename_limit, "certificate"),
        ("lagrangian", drop_limit, "certificate"),
        ("enumerated", deny_optimum, "certificate"),
        ("lagrangian", call_enumerated, "bound"),
        ("engine", add_measure, "measure"),
        ("heuristic", change_unit, "objective"),
        ("quotas", drop_class, "every-class"),
        ("quotas", rename_limit, "certificate"),
        ("quotas-mixed", drop_limit, "certificate"),
        ("infeasible", drop_relaxations, "infeasibility"),
        ("money", double_relaxation, "infeasibility"),
        ("infeasible", rename_relaxed, "infeasibility"),
        ("money", change_relaxed_unit, "infeasibility"),
        ("quotas-infeasible", add_relaxation, "infeasibility"),
        ("quotas-infeasible", weaken_relaxation, "infeasibility"),
        ("quotas-infeasible", change_relaxed_unit, "infeasibility"),
        ("infeasible", drop_weight, "infeasibility"),
        ("quotas-infeasible", drop_weight, "infeasibility"),
        ("quotas-infeasible", drop_relaxation_weight, "infeasibility"),
        ("infeasible", rewrite_reason, "infeasibility"),
        ("quotas-infeasible", rewrite_reason, "infeasibility"),
        ("money", talk_away, "infeasibility"),
        ("enumerated", change_price_unit, "shadow-price"),
        ("quotas", change_price_unit, "shadow-price"),
    ],
)
def test_what_is_missing_or_added_is_noticed(
    cases: dict[str, Case], key: str, tamper: Callable[[Data], None], family: str
) -> None:
    """Under the name of the family that it breaks, and never as an error of the judge itself."""
    data = cases[key][1].to_json_data()
    tamper(data)
    assert family in failed(cases[key], data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("gap_target",), -1e-9, r"^gap_target: got -1e-09; input should be greater than or equal to 0"),
        (("gap_target",), 1.0, r"^gap_target: got 1\.0; input should be less than 1"),
        (("seed",), -1, r"^seed: got -1; input should be greater than or equal to 0"),
        (("solve_seconds",), -0.5, r"^solve_seconds: got -0\.5; input should be greater than or equal to 0"),
        (("verify_seconds",), -0.5, r"^verify_seconds: got -0\.5; input should be greater than or equal to 0"),
        (("counters", "passes"), -1.0, r"^counters\.passes: got -1\.0; input should be greater than or equal to 0"),
    ],
)
def test_impossible_figures_are_refused_on_reading(
    cases: dict[str, Case], path: tuple[str, ...], value: float, message: str
) -> None:
    """What no solve can have is not even a result."""
    result = cases["enumerated"][1]
    with pytest.raises(DataError, match=message):
        reread(result, changed(result.to_json_data(), path, value))


def test_limits_left_out_of_the_relaxations_are_named(cases: dict[str, Case]) -> None:
    """With several limits nobody can check cheaply that one of them alone cannot help, and the judge says so."""
    instance, result = cases["quotas-infeasible"]
    data = result.to_json_data()
    data["infeasibility"]["relaxations"] = []
    verification = verify(instance, reread(result, data))
    assert not verification.ok
    assert verification.on_trust[:2] == tuple(
        f"infeasibility: that {limit} alone cannot mend it" for limit in ("budget", "quota.t4")
    )


@pytest.mark.parametrize("claimed", [0.9, 1.01, None])
def test_an_optimum_is_looked_for_no_further_than_needed(cases: dict[str, Case], claimed: float | None) -> None:
    """A thousandfold allowance is no thousandfold work, and hides no wrong optimum."""
    instance, result = cases["enumerated"]
    data = result.to_json_data()
    certificate = data["certificates"][-1]
    certificate["allowance"] = 900.0 * certificate["optimum"]
    assert failed((instance, result), data) == set()
    certificate["optimum"] = None if claimed is None else claimed * certificate["optimum"]
    assert "certificate" in failed((instance, result), data)


def test_measures_without_a_solution_are_noticed(cases: dict[str, Case]) -> None:
    """There is nothing that they could be figures of."""
    data = cases["infeasible"][1].to_json_data()
    assert failed(cases["infeasible"], data | {"measures": {"mean_jct_s": 1.0}}) == {"measure"}


def test_a_feasible_instance_is_not_called_infeasible(cases: dict[str, Case]) -> None:
    """The least consumption of any plan is recomputed, and held against the limit."""
    instance, result = cases["infeasible"]
    enough = instance.replace(budget=Amount(10.0, BudgetUnit.GPU))
    wrong = result.replace(instance_hash=enough.content_hash())
    assert {check.index for check in verify(enough, wrong).failures} >= {"", "budget given"}


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
    assert verify(instance, inside).nothing_wrong
    assert verify(instance, inside).on_trust == ("shadow price of budget: that no multiplier beyond it is as good",)
    gone = result.replace(shadow_prices={})
    assert {check.family for check in verify(instance, gone).failures} == {"shadow-price"}
    unknown = result.replace(shadow_prices={"deadline": price})
    assert {check.family for check in verify(instance, unknown).failures} == {"shadow-price"}


def test_whoever_verifies_says_within_which_gap_a_plan_is_optimal(cases: dict[str, Case]) -> None:
    """From (14,580 s, 4.05 GPUs) to a bound 1 % lower: feasible, within 2 % optimal, whatever the result asked for."""
    instance = named("boa-two-epochs", budget=Amount(4.05, BudgetUnit.GPU))
    result = solve(instance, check=False)
    bound = dual_bound(instance, {"budget": 0.0})
    certificate = LagrangianCertificate(multipliers={"budget": 0.0}, bound=bound)
    claims = {"bound": bound, "certificates": (certificate,), "shadow_prices": {}, "gap_target": 0.99}
    wide = result.replace(status=Status.FEASIBLE, bound_proof=BoundProof.LAGRANGIAN, **claims)
    gap = 1.0 - bound / 14580.0
    for asked, status in ((1e-6, Status.FEASIBLE), (0.99 * gap, Status.FEASIBLE), (1.01 * gap, Status.OPTIMAL)):
        found = verify(instance, wide, gap=asked)
        assert (found.ok, found.proven, found.status) == (True, True, status)
        assert found.gap == pytest.approx(gap)
    for key, status in (("infeasible", Status.INFEASIBLE), ("heuristic", Status.FEASIBLE), ("engine", Status.OPTIMAL)):
        found = verify(*cases[key])
        assert (found.status, found.proven) == (status, key != "engine")
    with pytest.raises(UsageError, match=r"^gap: got 1\.0; a relative gap from 0 to below 1 is needed"):
        verify(instance, wide, gap=1.0)


def test_changes_are_made_again_where_that_is_asked_for(cases: dict[str, Case]) -> None:
    """A result of other rates is refused for the instance as given; with as_given=False the answer names them."""
    instance, _ = cases["enumerated"]
    busier = apply_changes(instance, [parse_change("classes.*.arrival_rate*=0.5")])
    result = solve(busier).replace(changes=("classes.*.arrival_rate*=0.5",))
    with pytest.raises(
        UsageError, match=r"made for 'boa-two-classes' with changes \(classes\.\*\.arrival_rate\*=0\.5\)"
    ):
        verify(instance, result)
    found = verify(instance, result, as_given=False)
    assert (found.ok, found.changes) == (True, ("classes.*.arrival_rate*=0.5",))
    assert verify(busier, result, as_given=False).changes == ()
    with pytest.raises(UsageError, match=r"^result: got 'r.json'; a Result is needed"):
        verify(instance, "r.json", as_given=False)  # type: ignore[arg-type]


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
        closed = closes_gap(result.objective, bound, OPTIMAL_GAP)
        claims: dict[str, object] = {
            "status": Status.OPTIMAL if closed else Status.FEASIBLE,
            "bound": bound,
            "certificates": (certificate,),
            "shadow_prices": {},
            "termination": Termination.TIME_LIMIT,
        }
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
        "status": Status.FEASIBLE,
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


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(list(Policy)))
def test_results_of_random_instances_pass(seed: int, policy: Policy) -> None:
    """Bounds, certificates and shadow prices of the exact solver hold up against the judge."""
    instance = random_boa(classes=2, epochs=5, widths=6, seed=seed, policy=policy)
    result = solve(instance, gap=0.0 if policy is Policy.PURE else 1e-9, check=False)
    assert verify(instance, result).failures == ()


def test_decisions_of_another_instance_are_evaluated() -> None:
    """Their objective there and which limits break, without a claim that anything is best."""
    instance = build_named("boa-two-classes")
    result = solve(instance)
    assert result.solution is not None
    assert evaluate(instance, result.solution).objective == pytest.approx(result.objective, rel=1e-12)
    tighter = evaluate(instance.replace(budget="1gpu"), result.solution)
    assert tighter.objective == pytest.approx(result.objective, rel=1e-12)
    assert any(not check.holds and check.family == "budget" for check in tighter.checks)


def test_decisions_of_another_problem_are_refused() -> None:
    """By the names of both kinds."""
    other = solve(build_named("throughputs-resnet50-gavel")).solution
    assert other is not None
    with pytest.raises(UnsupportedError, match=r"^boa: decisions are a BoaSolution, not a ThroughputsSolution$"):
        evaluate(build_named("boa-two-classes"), other)
