"""What printing a result shows."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import Infeasibility, Relaxation, Result, Solution, Status, Termination
from optplan.contracts.result import BoundProof

COMMON: dict[str, Any] = {
    "formulation": "boa",
    "instance_name": "<mine>",
    "instance_hash": "0" * 64,
    "solver": "highs",
    "engine": "HiGHS",
    "engine_version": "1.12",
    "optplan_version": "0.1.0",
    "termination": Termination.COMPLETED,
    "objective_unit": "s",
    "gap_target": 1e-6,
    "solve_seconds": 0.5,
}
SOLVED = Result[Solution](
    **COMMON,
    status=Status.FEASIBLE,
    solution=Solution(),
    objective=1250.0,
    bound=1000.0,
    bound_proof=BoundProof.ENGINE,
    warnings=("rounded",),
)
INFEASIBLE = Result[Solution](
    **COMMON,
    status=Status.INFEASIBLE,
    infeasibility=Infeasibility(
        reason="the load is 6 GPUs",
        relaxations=(Relaxation(limit="budget", given=5.0, least_feasible=6.0, enough=6.0, unit="GPUs"),),
        multipliers={"budget": 1.0},
    ),
    verify_seconds=0.25,
)


def test_a_printed_result_says_how_good_it_is_and_what_that_rests_on() -> None:
    """The gap is 250 / 1250."""
    assert str(SOLVED).splitlines() == [
        "<mine>: feasible, 1,250 s",
        "bound   1,000 s",
        "gap     0.2",
        "proof   on trust: no certificate",
        "solver  highs (HiGHS 1.12)",
        "time    0.5 s, not verified",
        "note    rounded",
    ]
    assert repr(SOLVED) == "<Result <mine>: feasible, 1,250 s>"


def test_without_a_plan_it_says_why_and_what_would_help() -> None:
    """The reason first, then every limit that can mend it."""
    assert str(INFEASIBLE).splitlines()[:3] == [
        "<mine>: infeasible, because the load is 6 GPUs",
        "budget  given 5, least that works 6 GPUs",
        "proof   certificate",
    ]
    stopped = Result[Solution](**COMMON | {"termination": "time-limit"}, status=Status.UNKNOWN)
    assert str(stopped).startswith("<mine>: nothing found (stopped: time-limit)\n")


@pytest.mark.parametrize("result", [SOLVED, INFEASIBLE])
def test_a_notebook_shows_the_same(result: Result[Solution]) -> None:
    """As a table; names from files are escaped."""
    shown = result._repr_html_()
    assert shown.startswith("<p><strong>&lt;mine&gt;: ")
    assert shown.count("<tr>") == len(str(result).splitlines()) - 1
    assert "<mine>" not in shown
