"""What printing a result shows."""

from __future__ import annotations

from html import escape
from typing import Any

import pytest

from optplan.contracts import Infeasibility, Relaxation, Result, Solution, Status, Termination
from optplan.contracts.result import BoundProof
from optplan.errors import UsageError

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
        "<mine>: feasible, 1,250 s. How much better it could be rests on trust: HiGHS 1.12 says so, without a",
        "certificate.",
        "No plan can be better than 1,000 s, so the best possible is at most 20 % lower. The bound is the word of a",
        "general engine and cannot be checked cheaply.",
        "",
        "status  within 20 % of the bound (stopped: completed)",
        "bound   1,000 s (gap 20 %; engine)",
        "solver  highs (engine HiGHS 1.12, seed 0)",
        "time    500 ms, not verified",
        "note: rounded",
    ]
    assert repr(SOLVED) == "<Result <mine>: feasible, 1,250 s>"


def test_without_a_plan_it_says_why_and_what_would_help() -> None:
    """The reason first, then every limit that can mend it."""
    assert str(INFEASIBLE).splitlines()[0] == "<mine>: infeasible, because the load is 6 GPUs."
    assert "would help  a budget of 6 GPUs" in str(INFEASIBLE)
    stopped = Result[Solution](**COMMON | {"termination": "time-limit"}, status=Status.UNKNOWN)
    assert str(stopped).startswith("<mine>: nothing found (stopped: time-limit).\n")


@pytest.mark.parametrize("result", [SOLVED, INFEASIBLE])
def test_a_notebook_shows_the_same(result: Result[Solution]) -> None:
    """Names from files are escaped; there is no picture, as the instance is not known."""
    assert result._repr_html_() == f'<pre style="white-space: pre-wrap">{escape(str(result))}</pre>'
    assert "<mine>" not in result._repr_html_()
    with pytest.raises(UsageError, match=r"it does not know its instance, .* optplan.draw_plan\(instance, result\)"):
        result.plot()
