"""Results: what their fields promise about one another, the gap, and their JSON."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import BoundProof, Infeasibility, Relaxation, Result, Status, Termination
from optplan.contracts.result import closes_gap, relative_gap, status_of
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaSolution

Fields = dict[str, Any]


def test_solution_and_objective_come_together(fields: Fields) -> None:
    """No incumbent means neither of them, never zeros."""
    for missing in ("solution", "objective"):
        with pytest.raises(DataError, match="solution and objective come together: give both or neither"):
            Result[BoaSolution](**fields | {missing: None})


@pytest.mark.parametrize("status", [Status.OPTIMAL, Status.FEASIBLE])
def test_these_statuses_need_a_solution(no_solution: Fields, status: Status) -> None:
    """Optimal and feasible say something about a solution."""
    with pytest.raises(DataError, match=f"status {status} needs a solution"):
        Result[BoaSolution](**no_solution | {"status": status})


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.UNKNOWN])
def test_these_statuses_have_no_solution(fields: Fields, status: Status) -> None:
    """Infeasible and unknown deny that there is one."""
    with pytest.raises(DataError, match=f"status {status} has no solution"):
        Result[BoaSolution](**fields | {"status": status})


def test_a_bound_is_kept_without_a_solution(no_solution: Fields) -> None:
    """The bound is reported even where there is no incumbent; then there is no gap."""
    result = Result[BoaSolution](**no_solution)
    assert result.bound == 14580.0
    assert result.gap is None


def test_infeasible_says_why(no_solution: Fields) -> None:
    """The status and the reason come together."""
    with pytest.raises(DataError, match="status infeasible and the field infeasibility come together"):
        Result[BoaSolution](**no_solution | {"status": Status.INFEASIBLE})
    reason = Infeasibility(reason="too little", relaxations=())
    with pytest.raises(DataError, match="status infeasible and the field infeasibility come together"):
        Result[BoaSolution](**no_solution | {"infeasibility": reason})
    assert Result[BoaSolution](**no_solution | {"status": Status.INFEASIBLE, "infeasibility": reason}).solution is None


def test_optimal_needs_a_gap_within_the_target(fields: Fields) -> None:
    """14580 (1 - 5e-7) is within 1e-6, not within 1e-7; (14580 - 14000) / 14580 = 0.0398 is never optimal."""
    within = fields | {"bound": 14580.0 * (1.0 - 5e-7)}
    assert Result[BoaSolution](**within).gap == pytest.approx(5e-7, rel=1e-6)
    with pytest.raises(DataError, match=r"status optimal needs a gap of at most 1e-07, got [45].*e-07"):
        Result[BoaSolution](**within | {"gap_target": 1e-7})
    with pytest.raises(DataError, match=r"status optimal needs a gap of at most 1e-06, got 0.0397"):
        Result[BoaSolution](**fields | {"bound": 14000.0, "gap_target": 0.04})


def test_rounding_closes_any_gap(fields: Fields) -> None:
    """A bound below the objective by a relative 9e-10 meets it, one by 2e-9 does not; the gap is told as it is."""
    within, beyond = 14580.0 * (1 - 9e-10), 14580.0 * (1 - 2e-9)
    result = Result[BoaSolution](**fields | {"gap_target": 0.0, "bound": within})
    assert result.gap == pytest.approx(9e-10, rel=1e-3)
    with pytest.raises(DataError, match=r"status optimal needs a gap of at most 0, got 2\.0.*e-09"):
        Result[BoaSolution](**fields | {"gap_target": 0.0, "bound": beyond})


@given(st.floats(1.0, 10.0), st.floats(0.0, 1.0), st.integers(-300, 300))
def test_whether_a_gap_is_closed_does_not_depend_on_the_unit(objective: float, share: float, exponent: int) -> None:
    """The tolerance on rounding is relative; powers of two keep every bit."""
    bound, unit = objective * (1.0 - 2e-9 * share), 2.0**exponent
    assert closes_gap(objective * unit, bound * unit, 0.0) == closes_gap(objective, bound, 0.0)


def test_optimal_needs_a_bound(fields: Fields) -> None:
    """A solution alone proves nothing."""
    with pytest.raises(DataError, match="status optimal needs a gap of at most 1e-06, got None"):
        Result[BoaSolution](**fields | {"bound": None, "bound_proof": BoundProof.NONE})


def test_a_bound_names_what_it_rests_on(fields: Fields) -> None:
    """Neither a bound from nowhere, nor a proof of nothing."""
    with pytest.raises(DataError, match="bound is None exactly when bound_proof is none"):
        Result[BoaSolution](**fields | {"bound_proof": BoundProof.NONE})
    with pytest.raises(DataError, match="bound is None exactly when bound_proof is none"):
        Result[BoaSolution](**fields | {"status": Status.FEASIBLE, "bound": None})


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (None, 1.0, None),
        (1.0, None, None),
        (100.0, 99.0, 0.01),
        (-100.0, -101.0, 0.01),  # relative to |objective|
        (100.0, 100.5, 0.0),  # a bound above the objective is a gap of zero here; verify refuses it
        (0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, -1e-30, math.inf),
        (1e-30, 0.0, 1.0),
    ],
)
def test_relative_gap(objective: float | None, bound: float | None, gap: float | None) -> None:
    """It is relative to the objective, never negative, and infinite below an objective of zero."""
    assert relative_gap(objective, bound) == pytest.approx(gap)


@given(st.floats(-1e200, 1e200), st.floats(-1e200, 1e200), st.sampled_from([1e-9, 1.0, 1e9]))
def test_the_gap_does_not_depend_on_the_unit(objective: float, bound: float, unit: float) -> None:
    """Seconds or nanoseconds: the same gap, as long as nothing underflows."""
    if abs(objective) > 1e-200:
        gap = relative_gap(objective, bound)
        assert relative_gap(objective * unit, bound * unit) == pytest.approx(gap, rel=1e-9, abs=1e-9)


def test_json_round_trip(fields: Fields) -> None:
    """Certificates, missing optima and one-sided prices included: what was written is what is read."""
    result = Result[BoaSolution](**fields)
    text = json.dumps(result.to_json_data(), allow_nan=False)
    again = Result[BoaSolution].parse(json.loads(text))
    assert again == result
    assert again.content_hash() == result.content_hash()
    assert [type(c) for c in again.certificates] == [type(c) for c in result.certificates]


def test_json_round_trip_of_an_infeasible_result(no_solution: Fields) -> None:
    """The relaxation and its parts survive, and what was None stays None."""
    relaxation = Relaxation(limit="budget", given=60.0, least_feasible=74.62, unit="gpu", parts={"bert": 74.62})
    reason = Infeasibility(reason="the least budget is 74.62 GPUs", relaxations=(relaxation,))
    changes = {"status": Status.INFEASIBLE, "infeasibility": reason, "bound": None, "bound_proof": BoundProof.NONE}
    result = Result[BoaSolution](**no_solution | changes | {"certificates": (), "shadow_prices": {}})
    again = Result[BoaSolution].parse(json.loads(json.dumps(result.to_json_data())))
    assert again == result
    assert (again.objective, again.bound, again.solution) == (None, None, None)


class NamedResult(Result[BoaSolution]):
    """A result type with a name of its own."""


@pytest.mark.parametrize("kind", [Result, Result[BoaSolution], NamedResult])
def test_results_can_be_pickled_and_copied(kind: type[Result[BoaSolution]], fields: Fields) -> None:
    """What comes back is equal and of the same type, although no module knows ``Result[BoaSolution]`` by that name."""
    result = kind(**fields)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert again == result
        assert type(again) is kind
        assert again.content_hash() == result.content_hash()
        with pytest.raises(DataError, match="solution and objective come together"):
            again.replace(objective=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"multipliers": {"budget": -1.0}},
            r"certificates.0.multipliers.budget: got -1.0; .* greater than or equal to 0",
        ),
        ({"allowance": -1.0}, r"certificates.0.allowance: got -1.0; .* greater than or equal to 0"),
        ({"form": "enumerate"}, r"certificates.0.form: got 'enumerate'; allowed: lagrangian, enumerated, tree; did"),
        ({"bond": 1.0}, r"certificates.0.bond: unknown field 'bond'; did you mean 'bound'"),
    ],
)
def test_impossible_certificates_are_refused_on_reading(fields: Fields, change: Fields, message: str) -> None:
    """A multiplier or an allowance below zero proves nothing."""
    data = Result[BoaSolution](**fields).to_json_data()
    data["certificates"] = [data["certificates"][1] | change]
    with pytest.raises(DataError, match=message):
        Result[BoaSolution].parse(data)


def test_version_1_is_refused(fields: Fields) -> None:
    """Only development versions wrote it, and it had other names for proofs."""
    old = Result[BoaSolution](**fields).to_json_data() | {"version": 1}
    with pytest.raises(DataError, match=r"^version: got 1; "):
        Result[BoaSolution].parse(old)


@pytest.mark.parametrize(
    ("changes", "trust"),
    [
        ({}, False),
        ({"bound_proof": BoundProof.ENGINE, "certificates": ()}, True),
        ({"bound_proof": BoundProof.SEARCHED, "certificates": ()}, True),
        ({"bound_proof": BoundProof.NONE, "bound": None, "certificates": (), "status": Status.FEASIBLE}, False),
    ],
)
def test_what_rests_on_trust(fields: Fields, changes: Fields, trust: bool) -> None:
    """A bound without a certificate; no bound claims nothing."""
    assert Result[BoaSolution](**fields | changes).rests_on_trust is trust


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "status"),
    [
        (None, 1.0, 0.0, Status.UNKNOWN),
        (100.0, None, 0.5, Status.FEASIBLE),
        (100.0, 99.0, 0.01, Status.OPTIMAL),  # 1 / 100
        (100.0, 98.9, 0.01, Status.FEASIBLE),
        (100.0, 100.0 * (1 - 9e-10), 0.0, Status.OPTIMAL),
        (100.0, 100.0 * (1 - 2e-9), 0.0, Status.FEASIBLE),
    ],
)
def test_the_status_goes_by_objective_and_bound(
    objective: float | None, bound: float | None, gap: float, status: Status
) -> None:
    """Optimal within the gap that was asked for; a relative 1e-9 is rounding and closes every gap."""
    assert status_of(objective, bound, gap) is status


@pytest.mark.parametrize(
    ("stopped_by", "termination"),
    [(None, Termination.COMPLETED), ("time", Termination.TIME_LIMIT), ("labels", Termination.WORK_LIMIT)],
)
def test_a_search_ends_as_its_effort_did(stopped_by: str | None, termination: Termination) -> None:
    """Time is one limit; all others are on the work."""
    assert Termination.after(stopped_by) is termination
