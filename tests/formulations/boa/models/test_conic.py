"""BOA with real widths in CVXPY: closed forms, extremes, and mixed plans as second opinion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, has_real_widths
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.models.conic import run_conic, solve_conic
from optplan.formulations.boa.models.pieces import collect_pieces
from optplan.progress import Stopwatch
from optplan.solving import solve
from tests.conftest import Later

if TYPE_CHECKING:
    import cvxpy as cp
else:
    cp = Later("cvxpy")

REQUEST = SolveRequest()

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")


def one_class(speedup: dict[str, object], budget: float, *, max_width: int = 64, sizes: int = 1) -> BoaInstance:
    """Make one class with one arrival an hour and epochs of one GPU-hour."""
    return BoaInstance.parse(
        {
            "classes": {
                "a": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [1.0] * sizes,
                    "speedup": {"gpu": speedup},
                    "widths": {"max": max_width},
                }
            },
            "gpu_types": {"gpu": {}},
            "budget": f"{budget!r}gpu",
            "problem": "continuous",
            "policy": "mixed",
        }
    )


def widths_of(answer: Answer[BoaSolution], name: str = "a") -> list[float]:
    """Return the one row of widths of a class."""
    assert answer.solution is not None
    (branch,) = answer.solution.branches[name]
    return [float(width) for width in branch.widths]


def test_a_power_law_by_hand() -> None:
    """With s = k^0.5 a job uses k^0.5 GPUs: 3 GPUs let it have 9, and it takes 1/3 h; d(1/b)/db is -1/9."""
    answer = solve_conic(one_class({"form": "power", "exponent": 0.5}, 3.0), REQUEST)
    assert answer.status is Status.OPTIMAL
    assert widths_of(answer) == pytest.approx([9.0], rel=1e-5)
    assert answer.objective == pytest.approx(1200.0, rel=1e-7)
    assert answer.shadow_prices["budget"].more == pytest.approx(400.0, rel=1e-4)


def test_amdahls_law_by_hand() -> None:
    """With f = 0.5 a job on k GPUs uses 0.5 + 0.5 k of them: 2 GPUs let it have 3; it takes 0.5 + 0.5 / 3 = 2/3 h."""
    answer = solve_conic(one_class({"form": "amdahl", "serial_fraction": 0.5}, 2.0), REQUEST)
    assert widths_of(answer) == pytest.approx([3.0], rel=1e-6)
    assert answer.objective == pytest.approx(2400.0, rel=1e-7)
    # dz/du = -(0.5 / 9) / 0.5 = -1/9 h per GPU.
    assert answer.shadow_prices["budget"].more == pytest.approx(400.0, rel=1e-4)


def test_a_table_by_hand() -> None:
    """Vertices (k/s, 1/s): (1, 1), (1.25, 0.625), (2, 0.5). A budget of 1.625 lies halfway between the last two."""
    table: dict[str, object] = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    answer = solve_conic(one_class(table, 1.625), REQUEST)
    assert answer.objective == pytest.approx(0.5625 * 3600, rel=1e-7)
    assert widths_of(answer) == pytest.approx([1.625 / 0.5625], rel=1e-6)
    assert answer.shadow_prices["budget"].more == pytest.approx(0.125 / 0.75 * 3600, rel=1e-4)


def test_a_width_off_the_hull_is_passed_over() -> None:
    """3 GPUs that are hardly faster than 2 are worth less than a mixture of 2 and 4: the answer is as without them."""
    ragged: dict[str, object] = {"form": "table", "gpus": [1, 2, 3, 4], "speedup": [1.0, 1.6, 1.61, 2.0]}
    answer = solve_conic(one_class(ragged, 1.625), REQUEST)
    assert answer.objective == pytest.approx(0.5625 * 3600, rel=1e-7)


def test_weights_count_times_and_not_gpus() -> None:
    """Two equal classes, one with weight 4: minimise 4/u1 + 1/u2 with u1 + u2 = 6, so u1 = 4 and u2 = 2."""
    instance = one_class({"form": "power", "exponent": 0.5}, 6.0)
    job_class = instance.classes["a"]
    instance = instance.replace(classes={"a": job_class.replace(weight=4.0), "b": job_class})
    answer = solve_conic(instance, REQUEST)
    assert widths_of(answer, "a") == pytest.approx([16.0], rel=1e-4)
    assert widths_of(answer, "b") == pytest.approx([4.0], rel=1e-4)
    assert answer.objective == pytest.approx((4 / 4 + 1 / 2) / 5 * 3600, rel=1e-7)


@pytest.mark.parametrize(
    ("speedup", "widths"),
    [
        ({"form": "amdahl", "serial_fraction": [0.0, 1.0]}, [8.0, 1.0]),
        ({"form": "power", "exponent": [1.0, 0.0]}, [8.0, 1.0]),
        ({"form": "table", "gpus": [1, 2, 8], "speedup": [[1.0, 2.0, 8.0], [1.0, 0.9, 0.8]]}, [8.0, 1.0]),
        ({"form": "table", "gpus": [8], "speedup": [2.0]}, [8.0, 8.0]),
    ],
)
def test_where_nothing_is_to_be_decided_nothing_is_asked(speedup: dict[str, object], widths: list[float]) -> None:
    """What scales perfectly gets all GPUs, what does not scale gets the fewest, and no engine is needed."""
    answer = solve_conic(one_class(speedup, 9.0, max_width=8, sizes=2), REQUEST)
    assert widths_of(answer) == widths
    assert answer.status is Status.OPTIMAL
    assert answer.counters == {"iterations": 0.0}


@pytest.mark.parametrize(
    "speedup",
    [
        {"form": "amdahl", "serial_fraction": [0.0, 1.0, 1e-7, 1 - 1e-7]},
        {"form": "power", "exponent": [0.0, 1.0, 1e-5, 1 - 1e-6]},
        {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.0 + 1e-7, 1.0 + 1.5e-7]},
    ],
)
@pytest.mark.parametrize("more", [0.0, 1e-3, 0.5, 10.0])
def test_extremes_are_solved(speedup: dict[str, object], more: float) -> None:
    """Fractions and exponents at and next to 0 and 1, flat tables, and budgets from the least to more than enough."""
    instance = one_class(speedup, 1000.0, sizes=4)
    instance = instance.replace(budget=f"{least_budget(instance)[0] * (1 + more)!r}gpu")
    answer = solve_conic(instance, REQUEST)
    assert answer.solution is not None
    assert [check for check in evaluate(instance, answer.solution).checks if not check.holds] == []
    # At the least budget itself the price of the first thing to gain, 1e7 of the objective, is lost in rounding.
    form = speedup["form"]
    assert answer.status is (Status.OPTIMAL if more or form == "table" else Status.FEASIBLE)


def test_at_the_least_budget_the_price_of_more_is_the_first_slope() -> None:
    """At 1 GPU nothing less is possible; the table's first segment gains 0.375 h for 0.25 GPUs."""
    table: dict[str, object] = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    answer = solve_conic(one_class(table, 1.0), REQUEST)
    assert widths_of(answer) == [1.0]
    assert answer.bound == pytest.approx(3600.0)
    assert answer.shadow_prices["budget"].less is None
    assert answer.shadow_prices["budget"].more == pytest.approx(0.375 / 0.25 * 3600)


@st.composite
def instances(draw: st.DrawFn) -> BoaInstance:
    """Draw up to three classes with any form of speedup, and a budget above the least one."""
    classes = {}
    for name in draw(st.sampled_from(["a", "ab", "abc"])):
        epochs = draw(st.integers(1, 4))

        def listed(choices: list[float], count: int) -> list[float]:
            return draw(st.lists(st.sampled_from(choices), min_size=count, max_size=count))

        form = draw(st.sampled_from(["table", "amdahl", "power"]))
        speedup: dict[str, object] = {"form": form}
        if form == "table":
            speeds = [[1.0, *listed([0.7, 1.2, 1.9, 2.5, 4.5], 3)] for _ in range(epochs)]
            speedup |= {"gpus": [1, 2, 4, 8], "speedup": speeds}
        else:
            parameter = "serial_fraction" if form == "amdahl" else "exponent"
            speedup |= {parameter: listed([0.0, 0.05, 0.3, 0.9, 1.0], epochs)}
        classes[name] = {
            "arrival_rate_per_hour": draw(st.sampled_from([0.2, 1.0, 5.0])),
            "epoch_size_gpu_hours": listed([0.1, 1.0, 3.0], epochs),
            "speedup": {"gpu": speedup},
            "weight": draw(st.sampled_from([1.0, 10.0])),
            "widths": {"max": 8},
        }
    fields = {"classes": classes, "gpu_types": {"gpu": {}}, "problem": "continuous", "policy": "mixed"}
    instance = BoaInstance.parse(fields)
    more = draw(st.sampled_from([1.01, 1.1, 1.4, 2.0, 5.0]))
    return instance.replace(budget=f"{least_budget(instance)[0] * more!r}gpu")


@settings(max_examples=50)
@given(instance=instances())
def test_the_convex_program_proves_its_optimum(instance: BoaInstance) -> None:
    """The judge finds as much from the multipliers; on tables mixed plans of paths have the same optimum."""
    answer = solve_conic(instance, REQUEST)
    assert answer.solution is not None
    evaluation = evaluate(instance, answer.solution)
    assert [check for check in evaluation.checks if not check.holds] == []
    assert answer.objective == pytest.approx(evaluation.objective, rel=1e-10)
    pairs = ((name, each) for name, one in instance.classes.items() for each in one.speedup)
    if not any(has_real_widths(instance, *pair) for pair in pairs):
        assert answer.objective == pytest.approx(solve_layered_paths(instance, REQUEST).objective, rel=1e-7)
    assert answer.status is Status.OPTIMAL
    assert answer.bound_proof is BoundProof.LAGRANGIAN
    (certificate,) = answer.certificates
    assert certificate.bound == pytest.approx(dual_bound(instance, certificate.multipliers), rel=1e-10)
    assert answer.bound is not None
    assert evaluation.objective * (1 - 1e-7) <= answer.bound <= evaluation.objective * (1 + 1e-10)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_size_and_rate_do_not_matter(factor: float) -> None:
    """Jobs a million times as long that come a million times as seldom get the same widths."""
    first = one_class({"form": "power", "exponent": [0.5, 0.8]}, 5.0, sizes=2)
    job_class = first.classes["a"].replace(arrival_rate_per_hour=1 / factor, epoch_size_gpu_hours=factor * np.ones(2))
    answer, scaled = (solve_conic(each, REQUEST) for each in (first, first.replace(classes={"a": job_class})))
    assert answer.objective is not None
    assert scaled.objective == pytest.approx(factor * answer.objective, rel=1e-8)
    # Around the optimum the objective is flat, so widths are known to fewer digits.
    assert widths_of(scaled) == pytest.approx(widths_of(answer), rel=1e-3)


def test_out_of_time_the_bound_stands() -> None:
    """Stopped at once, the answer says so; what it returns keeps the budget, and its bound holds."""
    instance = one_class({"form": "power", "exponent": [0.5, 0.8]}, 5.0, sizes=2)
    best = solve_conic(instance, REQUEST).objective
    answer = solve_conic(instance, SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert answer.termination is Termination.TIME_LIMIT
    assert answer.bound is not None
    assert best is not None
    assert answer.bound <= best
    if answer.solution is not None:
        assert all(check.holds for check in evaluate(instance, answer.solution).checks)
    assert answer.shadow_prices == {}


def test_a_point_that_divides_no_jobs_is_none() -> None:
    """Stopped in its first step, the engine returns zeros, of which no job has a width."""
    pieces = collect_pieces(one_class({"form": "power", "exponent": [0.5, 0.8]}, 5.0, sizes=2))
    found = run_conic(pieces, pieces.limits, Stopwatch(limit_s=1e-9, clock=lambda: 0.0))
    assert found.outcome.termination is not Termination.COMPLETED
    assert found.division is None


def test_infeasible_is_an_answer() -> None:
    """Below the least budget the reason is given and no engine asked."""
    answer = solve_conic(one_class({"form": "power", "exponent": 0.5}, 0.5), REQUEST)
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    assert "the problem with real widths has a plan is 1 GPUs (a 1); the budget is 0.5" in answer.infeasibility.reason


def test_an_unknown_status_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that the table does not know is not guessed at."""
    monkeypatch.setattr("optplan.solvers.programs.convex._ENDINGS", {})
    with pytest.raises(EngineError, match="Clarabel, called by CVXPY, ended with 'optimal', which has no meaning"):
        solve_conic(one_class({"form": "power", "exponent": 0.5}, 3.0), REQUEST)


def test_a_failure_of_the_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CVXPY raises becomes an error of optplan that says who failed."""

    def fail(_problem: cp.Problem, **_options: object) -> None:
        raise cp.error.SolverError("numerical trouble")

    monkeypatch.setattr(cp.Problem, "solve", fail)
    with pytest.raises(EngineError, match="Clarabel, called by CVXPY, failed: numerical trouble"):
        solve_conic(one_class({"form": "power", "exponent": 0.5}, 3.0), REQUEST)


def test_whole_widths_are_refused() -> None:
    """The program has real widths only."""
    instance = one_class({"form": "power", "exponent": 0.5}, 3.0).replace(problem="whole")
    with pytest.raises(UnsupportedError, match="'conic' does not solve the 'whole' problem; it solves continuous"):
        solve(instance, solver="conic")


def test_a_budget_is_needed() -> None:
    """Without one the call is wrong, and the message says how to give one."""
    with pytest.raises(UsageError, match="has no budget; give one"):
        solve_conic(one_class({"form": "power", "exponent": 0.5}, 3.0).replace(budget=None), REQUEST)
