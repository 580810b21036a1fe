"""The judge: every single thing that is changed in a valid result is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.errors import DataError

from .tampering import CASES, Case, Data, changed, failed, leaves, reread


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
