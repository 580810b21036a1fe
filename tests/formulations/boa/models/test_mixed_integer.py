"""BOA's algebraic model in Pyomo: its sheet, its numbers, and its solve."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.models import mixed_integer as sheet
from optplan.formulations.boa.models.general_engines import solve_highs
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model
from optplan.progress import Event, Stopwatch
from optplan.solvers.paths.search import OutOfEffortError
from optplan.solvers.programs import highs
from tests.conftest import Later

if TYPE_CHECKING:
    import pyomo.environ as pyo
else:
    pyo = Later("pyomo.environ")

#: Eight solves by four threads, then one by one; in a process of its own, which a deadlock would take along.
FOUR_THREADS = """
import json
from concurrent.futures import ThreadPoolExecutor

from optplan.contracts import SolveRequest
from optplan.formulations.boa.models.general_engines import solve_highs
from optplan.instances.generators import random_boa

instances = [random_boa(classes=2, epochs=2, widths=3, seed=seed) for seed in range(8)]
with ThreadPoolExecutor(4) as pool:
    together = [answer.objective for answer in pool.map(solve_highs, instances, [SolveRequest()] * 8)]
print(json.dumps([together, [solve_highs(instance, SolveRequest()).objective for instance in instances]]))
"""


def two_classes(problem: str = "rescaling", policy: str = "pure") -> BoaInstance:
    """Make a class with three epochs and a table that is no hull, and one with one epoch and Amdahl's law."""
    return BoaInstance.parse(
        {
            "name": "two-classes",
            "classes": {
                "bert large": {
                    "arrival_rate_per_hour": 2.0,
                    "epoch_size_gpu_hours": [1.0, 0.5, 2.0],
                    "speedup": {
                        "t4": {
                            "form": "table",
                            "gpus": [1, 2, 4],
                            "speedup": [[1.0, 1.5, 1.4], [1.0, 2.2, 3.0], [1.0, 1.1, 3.5]],
                        }
                    },
                    "rescale_s": 360.0,
                    "weight": 3.0,
                },
                "yolo": {
                    "arrival_rate_per_hour": 0.5,
                    "epoch_size_gpu_hours": [4.0],
                    "speedup": {"t4": {"form": "amdahl", "serial_fraction": 0.1}},
                    "widths": {"only": [1, 3]},
                },
            },
            "gpu_types": {"t4": {}},
            "budget": "14gpu",
            "problem": problem,
            "policy": policy,
        }
    )


def two_types(problem: str = "rescaling", policy: str = "pure") -> BoaInstance:
    """Make two classes on plain T4 and interrupted A100, one of which pays more when it changes from one to the other.

    An A100 is interrupted 0.05 times an hour; that costs 0.5 h of restart, not billed, and 1 h of work. On 2 of them:
    held = 1 / (1 - 0.05 * 2 * 1) = 10 / 9, wall = 10 / 9 * (1 + 0.05 * 2 * 0.5) = 10.5 / 9.
    """
    return BoaInstance.parse(
        {
            "name": "two-types",
            "classes": {
                "bert": {
                    "arrival_rate_per_hour": 2.0,
                    "epoch_size_gpu_hours": [1.0, 3.0],
                    "speedup": {
                        "t4": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6]},
                        "a100": {"form": "table", "gpus": [2], "speedup": [[2.0], [6.0]]},
                    },
                    "rescale_s": 360.0,
                    "rescale_s_on": {"a100": 720.0},
                    "type_change_s": 180.0,
                    "type_change_s_from": {"t4": {"a100": 36.0}},
                },
                "yolo": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [2.0],
                    "speedup": {"t4": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.5]}},
                    "rescale_s": 360.0,
                },
            },
            "gpu_types": {
                "t4": {"price_usd_per_hour": 0.5, "quota_gpus": 6.0},
                "a100": {
                    "price_usd_per_hour": 2.0,
                    "quota_gpus": 3.0,
                    "spot": {
                        "interruptions_per_gpu_hour": 0.05,
                        "restart_s": 1800.0,
                        "lost_work_s": 3600.0,
                        "restart_billed": False,
                    },
                },
            },
            "budget": "9usd/hour",
            "problem": problem,
            "policy": policy,
        }
    )


def fix(model: Any, rows: dict[str, list[list[Any]]], shares: dict[str, list[float]]) -> None:  # noqa: ANN401
    """Set x to shares of jobs that follow rows of widths, or of (type, width), and the rest to the cheapest allowed."""
    for variable in (*model.x.values(), *model.z.values(), *model.u.values(), *model.y.values()):
        variable.set_value(0.0)
    for i, branches in rows.items():
        for row, share in zip(branches, shares[i], strict=True):
            pairs = [each if isinstance(each, tuple) else (model.TYPES.first(), each) for each in row]
            for j, (h, k) in enumerate(pairs, start=1):
                model.x[i, j, h, k].set_value(model.x[i, j, h, k].value + share)
                if (i, j, h, k) in model.KEPT:
                    came = model.u[i, j, h, k] if pairs[j - 2] == (h, k) else model.y[i, j, pairs[j - 2][0], h, k]
                    came.set_value(came.value + share)
    for i, j, h, k in model.CHANGES:
        model.z[i, j, h, k].set_value(max(0.0, model.x[i, j, h, k].value - model.x[i, j - 1, h, k].value))


def test_sets_parameters_and_families_carry_the_papers_names() -> None:
    """Sets, parameters, variables and constraint families are those of the sheet, in its units."""
    model = build_pyomo_model(two_classes())
    assert list(model.CLASSES) == ["bert large", "yolo"]
    assert list(model.EPOCHS["bert large"]) == [1, 2, 3]
    assert list(model.TYPES) == ["t4"]
    assert list(model.WIDTHS["yolo", "t4"]) == [1, 3]
    assert model.X["bert large", 2] == 0.5
    assert model.r["bert large", "t4"] == 0.1
    assert model.s["bert large", 3, "t4", 4] == 3.5
    assert model.s["yolo", 1, "t4", 3] == pytest.approx(1 / (0.1 + 0.9 / 3))
    assert model.b.value == 14.0
    # x: 3 epochs * 3 widths + 1 * 2; z and width_change: epochs 2 and 3 of bert; row_length: 3 + 1 epochs. Of one type
    # there are no quotas and no changes of type.
    sizes = {name: len(getattr(model, name)) for name in ("x", "z", "width_change", "row_length")}
    assert sizes == {"x": 11, "z": 6, "width_change": 6, "row_length": 4}
    assert [len(getattr(model, name)) for name in ("u", "y", "quota", "entered", "kept", "left")] == [0] * 6


def test_types_add_sets_parameters_and_families() -> None:
    """Types have widths, prices, quotas and factors of their own; only bert's second epoch can change type."""
    model = build_pyomo_model(two_types())
    assert list(model.TYPES) == ["t4", "a100"]
    assert [list(model.WIDTHS["yolo", h]) for h in model.TYPES] == [[1, 2], []]
    assert [model.c[h] for h in model.TYPES] == [0.5, 2.0]
    assert (model.b.value, model.q["t4"], model.q["a100"]) == (9.0, 6.0, 3.0)
    assert (model.wall["a100", 2], model.held["a100", 2]) == pytest.approx((10.5 / 9, 10 / 9))
    assert (model.r["bert", "t4"], model.r["bert", "a100"]) == pytest.approx((0.1, 0.2))
    extra = [model.d["bert", g, h] for g in model.TYPES for h in model.TYPES]
    assert extra == pytest.approx([0.0, 0.01, 0.05, 0.0])
    # x: bert 2 epochs * (2 + 1), yolo 2; u, entered, kept: bert's second epoch; y and left: by the type left.
    names = ("x", "z", "u", "y", "entered", "kept", "left", "quota", "row_length")
    assert [len(getattr(model, name)) for name in names] == [8, 0, 3, 6, 3, 3, 2, 2, 3]


def test_the_sheet_names_every_family_of_the_evaluator() -> None:
    """What the evaluator can complain about is explained in the sheet."""
    instance = two_classes()
    solution = BoaSolution(branches={"bert large": (Branch(widths=np.ones(3)),), "yolo": (Branch(widths=np.ones(1)),)})
    families = {check.family for check in evaluate(instance, solution).checks}
    families |= {"every-class", "fraction-sum", "one-path", "row-length", "allowed-width", "gpu-type", "budget"}
    for family in families | {"quota.<type>"}:
        assert f"``{family}``" in (sheet.__doc__ or "")


def test_one_row_by_hand() -> None:
    """Bert on 2, 4, 4 and yolo on 1: two pauses of 0.1 h, at 2 and at 4 GPUs, and no others.

    Bert: 1/1.5 + 0.5/3 + 2/3.5 = 1.404762 h running, 0.2 h pausing; GPU-hours 2/1.5 + 4*0.5/3 + 4*2/3.5 + 0.2 + 0.4.
    Mean with weights 3 * 2 and 1 * 0.5: (6 * 1.604762 + 0.5 * 4) / 6.5 h. GPUs: 2 * 4.885714 + 0.5 * 4.
    """
    model = build_pyomo_model(two_classes())
    fix(model, {"bert large": [[2, 4, 4]], "yolo": [[1]]}, {"bert large": [1.0], "yolo": [1.0]})
    assert pyo.value(model.mean_jct_s) == pytest.approx(3600 * (6 * 1.604762 + 2) / 6.5, rel=1e-6)
    assert pyo.value(model.gpus["t4"]) == pytest.approx(2 * 4.885714 + 2, rel=1e-6)


def test_one_row_with_types_by_hand() -> None:
    """Bert on 2 T4, then 2 A100, and yolo on 1 T4: starts of 0.1 h and a change of 0.2 + 0.01 h.

    Bert: 1/1.6 + 0.1 = 0.725 h on T4; 3/6 + 0.21 = 0.71 h on A100, which takes 0.71 * 10.5/9 h and holds for
    0.71 * 10/9 h. Yolo: 2 + 0.1 h. T4: 2 * 2 * 0.725 + 2.1 GPUs; A100: 2 * 2 * 0.71 * 10/9 GPUs.
    """
    model = build_pyomo_model(two_types())
    fix(model, {"bert": [[("t4", 2), ("a100", 2)]], "yolo": [[("t4", 1)]]}, {"bert": [1.0], "yolo": [1.0]})
    t4, a100 = 2 * 2 * 0.725 + 2.1, 2 * 2 * 0.71 * 10 / 9
    assert pyo.value(model.mean_jct_s) == pytest.approx(3600 * (2 * (0.725 + 0.71 * 10.5 / 9) + 2.1) / 3)
    assert [pyo.value(model.gpus[h]) for h in model.TYPES] == pytest.approx([t4, a100])
    assert pyo.value(model.budget.body) == pytest.approx(0.5 * t4 + 2 * a100)
    assert pyo.value(model.quota["a100"].body) == pytest.approx(a100)
    for family in ("entered", "kept", "left", "row_length"):
        for row in getattr(model, family).values():
            assert row.lslack() >= -1e-12
            assert row.uslack() >= -1e-12


@given(data=st.data())
def test_objective_and_limits_with_types_are_the_evaluators(data: st.DataObject) -> None:
    """For any types and widths Pyomo's expressions are what the evaluator computes."""
    instance = two_types(data.draw(st.sampled_from(["whole", "rescaling"])), "mixed")
    model = build_pyomo_model(instance)
    pairs = {i: [(h, k) for h in model.TYPES for k in model.WIDTHS[i, h]] for i in model.CLASSES}
    rows = {
        i: [[data.draw(st.sampled_from(pairs[i])) for _ in model.EPOCHS[i]] for _ in range(2)] for i in model.CLASSES
    }
    # Only bert's jobs, who say where they come from, are on two rows; yolo's might trade places.
    rows["yolo"] = rows["yolo"][:1]
    shares = {"bert": [0.25, 0.75], "yolo": [1.0]}
    fix(model, rows, shares)
    solution = BoaSolution(
        branches={
            i: tuple(
                Branch(fraction=f, widths=np.array([k for _, k in row]), gpu_types=tuple(h for h, _ in row))
                for f, row in zip(shares[i], rows[i], strict=True)
            )
            for i in rows
        }
    )
    evaluation = evaluate(instance, solution)
    assert pyo.value(model.mean_jct_s) == pytest.approx(evaluation.objective, rel=1e-12)
    rows_of = {"budget": model.budget, "quota.t4": model.quota["t4"], "quota.a100": model.quota["a100"]}
    for limit, used in evaluation.consumption.items():
        assert pyo.value(rows_of[limit].body) == pytest.approx(used, rel=1e-12, abs=1e-12)


def test_the_quota_of_a_type_that_no_class_can_use_is_no_row() -> None:
    """Without bert nobody runs on A100: its quota is kept anyway, its multiplier is zero."""
    instance = two_types(policy="mixed")
    instance = instance.replace(classes={"yolo": instance.classes["yolo"]}, budget="2usd/hour")
    assert list(build_pyomo_model(instance).quota) == ["t4"]
    answer = solve_highs(instance, SolveRequest())
    assert answer.status is Status.OPTIMAL
    (certificate,) = answer.certificates
    assert certificate.multipliers["quota.a100"] == 0.0


@settings(max_examples=30)
@given(data=st.data())
def test_objective_and_budget_are_the_evaluators(data: st.DataObject) -> None:
    """For any widths, pure or mixed, Pyomo's two expressions are what the evaluator computes.

    Of two rows mixed, the model may let part of the jobs trade places and so pause less, never more.
    """
    problem = data.draw(st.sampled_from(["whole", "rescaling"]))
    instance = two_classes(problem, "mixed")
    share = data.draw(st.sampled_from([1.0, 0.25]))
    rows = {
        i: [[float(data.draw(st.sampled_from(instance.allowed_widths(i).tolist()))) for _ in range(c.num_epochs)]]
        for i, c in instance.classes.items()
    }
    shares = {i: [1.0] for i in rows}
    if share < 1.0:
        rows["yolo"].append([1.0])
        shares["yolo"] = [share, 1.0 - share]
    model = build_pyomo_model(instance)
    fix(model, rows, shares)
    solution = BoaSolution(
        branches={
            i: tuple(Branch(fraction=f, widths=np.array(row)) for f, row in zip(shares[i], rows[i], strict=True))
            for i in rows
        }
    )
    evaluation = evaluate(instance, solution)
    assert pyo.value(model.mean_jct_s) == pytest.approx(evaluation.objective, rel=1e-12)
    assert pyo.value(model.gpus["t4"]) == pytest.approx(evaluation.consumption["budget"], rel=1e-12)


def test_without_rescaling_there_are_no_changes() -> None:
    """In the problem whole there is no z, and the rescale time counts for nothing."""
    model = build_pyomo_model(two_classes("whole"))
    assert len(model.z) == 0
    fix(model, {"bert large": [[2, 4, 4]], "yolo": [[1]]}, {"bert large": [1.0], "yolo": [1.0]})
    assert pyo.value(model.mean_jct_s) == pytest.approx(3600 * (6 * 1.404762 + 2) / 6.5, rel=1e-6)


def test_the_policy_is_the_domain_of_x() -> None:
    """Pure plans are binary, mixed ones lie between zero and one."""
    assert all(x.is_binary() for x in build_pyomo_model(two_classes()).x.values())
    mixed = build_pyomo_model(two_classes(policy="mixed"))
    assert all(x.is_continuous() and x.bounds == (0, 1) for x in mixed.x.values())


def test_solve_reports_engine_and_progress() -> None:
    """The answer names HiGHS, its version, and a listener hears of the solve."""
    events: list[Event] = []
    answer = solve_highs(two_classes(), SolveRequest(stopwatch=Stopwatch(listener=events.append)))
    assert answer.status is Status.OPTIMAL
    assert answer.engine == "HiGHS"
    assert answer.engine_version.count(".") == 2
    assert [event.stage for event in events] == ["highs"]


def test_threads_can_solve_at_the_same_time() -> None:
    """Four solves at once answer as one by one: models and engines are each thread's own."""
    run = subprocess.run([sys.executable, "-c", FOUR_THREADS], capture_output=True, text=True, check=True, timeout=60)
    together, one_by_one = json.loads(run.stdout)
    assert together == one_by_one


def test_an_unknown_ending_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A termination condition that the table does not know is not guessed at."""
    monkeypatch.setattr(highs, "_ENDINGS", {})
    with pytest.raises(EngineError, match="kOptimal"):
        solve_highs(two_classes(), SolveRequest())


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_the_continuous_problem_is_stated_elsewhere() -> None:
    """Real widths are refused, and the message says which solver has them."""
    with pytest.raises(UnsupportedError, match="the problem 'continuous' is stated in CVXPY: engine='cvxpy'"):
        build_pyomo_model(two_classes("continuous"))


def test_a_budget_is_needed() -> None:
    """A model without a budget cannot be stated."""
    with pytest.raises(UsageError, match="has no budget; give one"):
        build_pyomo_model(two_classes().replace(budget=None))


class _Ticks(Stopwatch):
    """A clock that advances by one second whenever somebody looks at it."""

    looks = 0

    @property
    def elapsed_s(self) -> float:
        """How often somebody has looked before."""
        self.looks += 1
        return float(self.looks - 1)


@pytest.mark.parametrize("seconds", range(8))
def test_time_may_run_out_at_every_part_of_the_model(seconds: int) -> None:
    """The clock is looked at seven times while the model is built, and once before HiGHS gets it."""
    building = _Ticks(limit_s=float(seconds))
    if seconds < 7:
        with pytest.raises(OutOfEffortError, match=r"^stopped by the time limit$"):
            build_pyomo_model(two_classes(), stopwatch=building)
    else:
        assert len(build_pyomo_model(two_classes(), stopwatch=building).CELLS)
    answer = solve_highs(two_classes(), SolveRequest(stopwatch=_Ticks(limit_s=float(seconds))))
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert (answer.solution, answer.objective) == (None, None)
    (certificate,) = answer.certificates
    assert (answer.bound_proof, certificate.multipliers) == (BoundProof.LAGRANGIAN, {"budget": 0.0})
    best = solve_highs(two_classes(), SolveRequest()).objective
    assert answer.bound is not None
    assert best is not None
    assert 0 < answer.bound <= best
