"""Budgeted paths as a mixed-integer program, handed to HiGHS directly.

For each graph, layer j and node k: ``x[j, k]`` is one when the path is at the node, and ``enter[j, k]`` is one when it
comes from another one (from the second layer on; what entering the first layer costs is part of x there). Rows:

``budget``
    Total consumption of all x and enter keeps the budget.
``one``
    One node per layer: the x of a layer add up to one.
``enter``
    ``enter[j, k] >= x[j, k] - x[j - 1, k]``; costs are not negative, so equality with the positive part holds in an
    optimum and ``enter`` need not be integer.

Without the budget row the linear relaxation has integer vertices: for given x, the most that can stay at node k is the
lesser of x[j - 1, k] and x[j, k], and all else flows from any left node to any entered one at a cost that does not
depend on where it comes from. With the budget row the relaxation is therefore the problem of the best *mixture* of
paths, and its solution is taken apart into paths with fractions.

Scales and tolerances: consumption is divided so that the budget is the number of layers, value so that its least
possible total is the number of layers; a typical coefficient is then one, whatever the units are. HiGHS works with
absolute tolerances of 5e-10 on that scale, in integer models with a budget larger by a factor 1 + 5e-10, so that a
choice exactly at the budget is kept and one that exceeds it by a relative 1e-9 is not.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import BudgetedPaths, Choice, PathsOutcome
from optplan.solvers.flows import choice_of_flows
from optplan.solvers.standard_output import standard_output_aside

if TYPE_CHECKING:
    import highspy

#: Absolute tolerance of HiGHS on the scaled model.
_ENGINE_TOLERANCE = 5e-10
#: Relative slack of the budget in integer models; with the tolerance of HiGHS it makes TOLERANCE of budgeted paths.
_BUDGET_SLACK = 5e-10
#: HiGHS drops matrix entries below this; its own default would drop epochs of a billionth of the budget.
_LEAST_ENTRY = 1e-12
#: HiGHS stops a little before the gap that was asked for, so that rounding does not leave it a little after.
_GAP_SHARE = 0.999

#: What each final status of HiGHS means; every other one is a failure.
_ENDINGS = {
    "kOptimal": (Status.OPTIMAL, Termination.COMPLETED),
    "kInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    # Costs are not negative, so the problem is not unbounded.
    "kUnboundedOrInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    "kTimeLimit": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "kIterationLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kSolutionLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kMemoryLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
}


@dataclass(frozen=True)
class _Scales:
    """What values and consumptions are divided by."""

    value: float
    consumption: float


@dataclass(frozen=True)
class _Block:
    """Where one graph's columns lie: first x, then enter (``first_enter`` is None where entering costs nothing)."""

    graph: PathCosts
    first_x: int
    first_enter: int | None

    @property
    def shape(self) -> tuple[int, int]:
        layers, nodes = self.graph.run_value.shape
        return layers, nodes

    @property
    def x(self) -> IntArray:
        """(E, K) Columns of x."""
        layers, nodes = self.shape
        return self.first_x + np.arange(layers * nodes, dtype=np.int64).reshape(layers, nodes)

    @property
    def enter(self) -> IntArray:
        """(E - 1, K) Columns of enter; no rows when it costs nothing."""
        layers, nodes = self.shape
        rows = 0 if self.first_enter is None else layers - 1
        return (self.first_enter or 0) + np.arange(rows * nodes, dtype=np.int64).reshape(rows, nodes)


@dataclass(frozen=True)
class _Model:
    """Minimise cost * x, 0 <= x <= upper, rows between their limits; the matrix row by row."""

    cost: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    entries: FloatArray
    integral: NDArray[np.int32]


def solve_milp(problem: BudgetedPaths, request: SolveRequest, *, relaxed: bool = False) -> PathsOutcome:
    """Solve budgeted paths with HiGHS.

    Parameters
    ----------
    problem
        Graphs and budget.
    request
        Gap, seed and time limit. HiGHS runs in one thread, so the same request gives the same answer.
    relaxed
        Whether mixtures are asked for (a linear program) instead of one path per graph.

    Returns
    -------
    PathsOutcome
        The bound is kept when there is no incumbent, and None while HiGHS has none. For mixtures ``multiplier`` is the
        dual value of the budget row.

    Raises
    ------
    EngineError
        When HiGHS fails, or its incumbent does not keep the budget.
    """
    scales = _scales_of(problem)
    blocks = _lay_out(problem)
    engine = _start_engine(request)
    budget = problem.budget * (1.0 if relaxed else 1.0 + _BUDGET_SLACK)
    _pass_model(engine, _build(blocks, budget, scales, relaxed=relaxed))
    if any(block.first_enter is not None for block in blocks):
        # Presolve finds next to nothing in these rows, takes minutes on large models and does not look at the clock.
        engine.setOptionValue("presolve", "off")
    request.stopwatch.emit("highs")
    _run(engine, request)
    name = engine.getModelStatus().name
    if name not in _ENDINGS:
        message = f"HiGHS ended with status {name}, which has no meaning for this problem"
        raise EngineError(message)
    status, termination = _ENDINGS[name]
    choice = _read_choice(engine, problem, blocks, relaxed=relaxed) if status is not Status.INFEASIBLE else None
    if status is Status.UNKNOWN and choice is not None:
        status = Status.FEASIBLE
    info = engine.getInfo()
    bound, multiplier = info.mip_dual_bound, None
    if relaxed:
        bound = info.objective_function_value if status is Status.OPTIMAL else -np.inf
        if status is Status.OPTIMAL:
            multiplier = max(0.0, -engine.getSolution().row_dual[0]) * scales.value / scales.consumption
    return PathsOutcome(
        status=status,
        termination=termination,
        choice=choice,
        bound=float(bound * scales.value) if np.isfinite(bound) and status is not Status.INFEASIBLE else None,
        multiplier=multiplier,
        counters={"nodes": max(0.0, info.mip_node_count), "simplex_iterations": float(info.simplex_iteration_count)},
        engine="HiGHS",
        engine_version=str(engine.version()),
    )


def write_model(problem: BudgetedPaths, *, form: Literal["lp", "mps"] = "lp", relaxed: bool = False) -> str:
    """Write the model, in its own units, as text that other engines read.

    Parameters
    ----------
    problem
        Graphs and budget.
    form
        Format of the text: CPLEX LP or free MPS.
    relaxed
        As in :func:`solve_milp`.

    Returns
    -------
    str
        Columns are named ``x.<graph>.<layer>.<node>`` and ``enter.<graph>.<layer>.<node>``, rows ``budget``,
        ``one.<graph>.<layer>`` and ``enter.<graph>.<layer>.<node>``; layers count from 1, and characters of a graph's
        name that the formats do not allow become underscores.

    Raises
    ------
    EngineError
        When HiGHS cannot write it.
    """
    blocks = _lay_out(problem)
    engine = _make_engine()
    _pass_model(engine, _build(blocks, problem.budget, _Scales(1.0, 1.0), relaxed=relaxed))
    columns, rows = _write_names(blocks)
    for number, name in enumerate(columns):
        engine.passColName(number, name)
    for number, name in enumerate(rows):
        engine.passRowName(number, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{form}"
        _require_ok(engine.writeModel(str(path)), f"cannot write the model as {form}")
        return path.read_text(encoding="utf-8")


def _scales_of(problem: BudgetedPaths) -> _Scales:
    least = problem.least_value
    layers = problem.num_layers
    return _Scales(value=(least or 1.0) / layers, consumption=problem.budget / layers)


def _lay_out(problem: BudgetedPaths) -> list[_Block]:
    blocks, column = [], 0
    for graph in problem.graphs:
        layers, nodes = graph.run_value.shape
        costly = bool((graph.enter_value[1:] > 0).any() or (graph.enter_consumption[1:] > 0).any())
        first_x, column = column, column + layers * nodes
        blocks.append(_Block(graph, first_x, column if costly else None))
        column += (layers - 1) * nodes if costly else 0
    return blocks


def _build(blocks: Sequence[_Block], budget: float, scales: _Scales, *, relaxed: bool) -> _Model:
    """Make the model row by row; the budget is row 0."""
    value = np.concatenate([_costs(b, b.graph.run_value, b.graph.enter_value) for b in blocks]) / scales.value
    consumption = np.concatenate([_costs(b, b.graph.run_consumption, b.graph.enter_consumption) for b in blocks])
    consumption, budget = consumption / scales.consumption, budget / scales.consumption
    is_x = np.concatenate([np.repeat([True, False], [b.x.size, b.enter.size]) for b in blocks])
    used = np.flatnonzero(consumption)
    rows = [(used[None, :], consumption[None, used])]
    for block in blocks:
        rows.append((block.x, np.ones(block.shape)))
        # enter[j, k] - x[j, k] + x[j - 1, k]; no rows where entering costs nothing.
        later, earlier = block.x[1:][: len(block.enter)], block.x[:-1][: len(block.enter)]
        triples = np.stack([block.enter, later, earlier], axis=-1).reshape(-1, 3)
        rows.append((triples, np.broadcast_to([1.0, -1.0, 1.0], triples.shape)))
    lengths = np.concatenate([np.full(len(columns), columns.shape[1]) for columns, _ in rows])
    is_one = np.concatenate([np.repeat([True, False], [len(b.x), b.enter.size]) for b in blocks])
    # A node that needs more than the whole budget is on no single path; mixtures may have a little of it.
    too_much = is_x & (consumption > budget) & (not relaxed)
    return _Model(
        cost=value,
        upper=np.where(too_much, 0.0, 1.0),
        row_lower=np.concatenate([[-np.inf], np.where(is_one, 1.0, 0.0)]),
        row_upper=np.concatenate([[budget], np.where(is_one, 1.0, np.inf)]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        columns=np.concatenate([columns.ravel() for columns, _ in rows]).astype(np.int32),
        entries=np.concatenate([entries.ravel() for _, entries in rows]),
        integral=(is_x & (not relaxed)).astype(np.int32),
    )


def _pass_model(engine: highspy.Highs, model: _Model) -> None:
    import highspy

    status = engine.passModel(
        model.cost.size,
        model.row_lower.size,
        model.entries.size,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        model.cost,
        np.zeros(model.cost.size),
        model.upper,
        model.row_lower,
        model.row_upper,
        model.starts,
        model.columns,
        model.entries,
        model.integral,
    )
    _require_ok(status, "does not take the model")


def _costs(block: _Block, run: FloatArray, enter: FloatArray) -> FloatArray:
    """List the costs of a graph's columns: x (entering the first layer included), then enter."""
    at_nodes = run.copy()
    at_nodes[0] += enter[0]
    entering = enter[1:] if block.first_enter is not None else enter[:0]
    return np.concatenate([at_nodes.ravel(), entering.ravel()])


def _make_engine() -> highspy.Highs:
    import highspy

    engine = highspy.Highs()
    engine.setOptionValue("output_flag", False)
    engine.setOptionValue("small_matrix_value", _LEAST_ENTRY)
    return engine


def _start_engine(request: SolveRequest) -> highspy.Highs:
    engine = _make_engine()
    options: dict[str, float | int | str | bool] = {
        "threads": 1,
        "parallel": "off",
        "random_seed": request.seed % 2**31,
        "mip_rel_gap": request.gap * _GAP_SHARE,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": _ENGINE_TOLERANCE,
        "primal_feasibility_tolerance": _ENGINE_TOLERANCE,
        "dual_feasibility_tolerance": _ENGINE_TOLERANCE,
    }
    for name, value in options.items():
        _require_ok(engine.setOptionValue(name, value), f"does not know the option {name}={value!r}")
    return engine


def _run(engine: highspy.Highs, request: SolveRequest) -> None:
    import highspy

    remaining_s = request.stopwatch.remaining_s
    if remaining_s is not None:
        engine.setOptionValue("time_limit", remaining_s)
    with standard_output_aside():
        failed = engine.run() == highspy.HighsStatus.kError
        if failed and engine.getModelStatus() == highspy.HighsModelStatus.kNotset:
            # HiGHS has one pool of threads per process; where somebody else has sized it, that size has to do.
            engine.setOptionValue("threads", 0)
            engine.run()


def _require_ok(status: highspy.HighsStatus, problem: str) -> None:
    if status.name == "kError":
        message = f"HiGHS {problem}"
        raise EngineError(message)


def _read_choice(
    engine: highspy.Highs, problem: BudgetedPaths, blocks: Sequence[_Block], *, relaxed: bool
) -> Choice | None:
    import highspy

    if engine.getInfo().primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    columns = np.asarray(engine.getSolution().col_value)
    return choice_of_flows(problem, [columns[block.x] for block in blocks], mixed=relaxed)


def _write_names(blocks: Sequence[_Block]) -> tuple[list[str], list[str]]:
    """Name columns and rows in the model's order."""
    columns, rows, taken = [], ["budget"], set[str]()
    for number, block in enumerate(blocks, start=1):
        name = re.sub(r"[^A-Za-z0-9_.]", "_", block.graph.name)
        name = f"{name}_{number}" if name in taken else name
        taken.add(name)
        layers = range(1, len(block.x) + 1)
        cells = [f"{name}.{layer}.{node}" for layer in layers for node in block.graph.nodes]
        entered = [f"enter.{cell}" for cell in cells[len(block.graph.nodes) :]] if len(block.enter) else []
        columns += [f"x.{cell}" for cell in cells] + entered
        rows += [f"one.{name}.{layer}" for layer in layers] + entered
    return columns, rows
