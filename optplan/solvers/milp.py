"""Budgeted paths as a mixed-integer program, handed to HiGHS directly.

The program is that of :mod:`optplan.solvers.path_program`.

Scales and tolerances: each consumption is divided so that its budget is the number of layers, value so that its least
possible total is the number of layers; a typical coefficient is then one, whatever the units are. HiGHS works with
absolute tolerances of 5e-10 on that scale, in integer models with budgets larger by a factor 1 + 5e-10, so that a
choice exactly at a budget is kept and one that exceeds it by a relative 1e-9 is not. So it is in linear models with
several limits, where nobody knows beforehand which budgets are the least ones; mixtures then are made for the budgets
as they are, where that is possible.

HiGHS heeds its time limit, and asks by callbacks whether to go on, but not while it prepares a large model: those are
solved in a process of their own (:mod:`optplan.solvers.engine_process`), which reports incumbents and bounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError
from optplan.progress import Stopwatch
from optplan.solvers.budgeted_paths import OUT_OF_TIME, BudgetedPaths, Choice, PathsOutcome
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.flows import choice_of_flows
from optplan.solvers.path_program import Block, Program, Scales, build_program, lay_out, name_program, scales_of
from optplan.solvers.standard_output import standard_output_aside

if TYPE_CHECKING:
    import highspy

#: Name of the engine in answers.
_ENGINE = "HiGHS"
#: Absolute tolerance of HiGHS on the scaled model.
_ENGINE_TOLERANCE = 5e-10
#: Relative slack of the budgets, but for one budget in a linear model; with the tolerance of HiGHS it makes TOLERANCE
#: of budgeted paths.
_BUDGET_SLACK = 5e-10
#: HiGHS drops matrix entries below this; its own default would drop epochs of a billionth of the budget.
_LEAST_ENTRY = 1e-12
#: Columns from which on a model is solved in a process of its own.
_MANY_COLUMNS = 8_000
#: HiGHS stops a little before the gap that was asked for, so that rounding does not leave it a little after.
_GAP_SHARE = 0.999

#: What each final status of HiGHS means; every other one is a failure.
_ENDINGS = {
    "kOptimal": (Status.OPTIMAL, Termination.COMPLETED),
    "kInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    # Costs are not negative, so the problem is not unbounded.
    "kUnboundedOrInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    "kTimeLimit": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "kInterrupt": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "kIterationLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kSolutionLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kMemoryLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
}


def solve_milp(problem: BudgetedPaths, request: SolveRequest, *, relaxed: bool = False) -> PathsOutcome:
    """Solve budgeted paths with HiGHS.

    Parameters
    ----------
    request
        Gap, seed and time limit. HiGHS runs in one thread, so the same request gives the same answer.
    relaxed
        Whether mixtures are asked for (a linear program) instead of one path per graph.

    Returns
    -------
    PathsOutcome
        The bound is kept when there is no incumbent, and None while HiGHS has none. For mixtures ``multipliers`` are
        the dual values of the limits' rows.

    Raises
    ------
    EngineError
        When HiGHS fails, or its incumbent does not keep the budgets.
    """
    request.stopwatch.emit("highs")
    settings = (problem, request.gap, request.seed, relaxed)
    is_large = sum(block.size for block in lay_out(problem)) >= _MANY_COLUMNS
    return call_bounded(run_highs, settings, request.stopwatch, is_large=is_large, otherwise=_nothing_yet())


def run_highs(
    problem: BudgetedPaths,
    gap: float,
    seed: int,
    relaxed: bool,  # noqa: FBT001 - called by position, also from another process
    stopwatch: Stopwatch,
    report: Report[PathsOutcome] | None = None,
) -> PathsOutcome:
    """Solve budgeted paths with HiGHS in this process.

    Parameters
    ----------
    problem, gap, seed, relaxed
        As in :func:`solve_milp`.
    stopwatch
        HiGHS is asked to stop when it has expired.
    report
        Called with better incumbents and bounds as HiGHS finds them; None where nobody listens.
    """
    scales = scales_of(problem)
    blocks = lay_out(problem)
    engine = _start_engine(gap, seed)
    is_exact = relaxed and problem.budgets.size == 1
    budgets = problem.budgets * (1.0 if is_exact else 1.0 + _BUDGET_SLACK)
    _pass_model(engine, build_program(blocks, budgets, scales, relaxed=relaxed))
    if any(block.has_changes for block in blocks):
        # Presolve finds next to nothing in these rows, takes minutes on large models and does not look at the clock.
        engine.setOptionValue("presolve", "off")
    watch = _Watch(problem, blocks, scales, stopwatch, report)
    watch.run(engine)
    name = engine.getModelStatus().name
    if name not in _ENDINGS:
        raise EngineError(f"HiGHS ended with status {name}, which has no meaning for this problem")
    status, termination = _ENDINGS[name]
    choice = _read_choice(engine, problem, blocks, relaxed=relaxed) if status is not Status.INFEASIBLE else None
    if status is Status.UNKNOWN and choice is not None:
        status = Status.FEASIBLE
    info = engine.getInfo()
    bound, multipliers = info.mip_dual_bound * scales.value, None
    if relaxed:
        bound = -np.inf
        if status is Status.OPTIMAL:
            duals = -np.asarray(engine.getSolution().row_dual[: problem.budgets.size])
            multipliers = np.maximum(0.0, duals) * scales.value / scales.consumption
            # The optimum is that of the budgets with slack; multipliers say what it is without.
            bound = info.objective_function_value * scales.value + multipliers @ (budgets - problem.budgets)
    return PathsOutcome(
        status=status,
        termination=termination,
        choice=choice,
        bound=float(bound) if np.isfinite(bound) and status is not Status.INFEASIBLE else None,
        multipliers=multipliers,
        counters={"nodes": max(0.0, info.mip_node_count), "simplex_iterations": float(info.simplex_iteration_count)},
        engine=_ENGINE,
        engine_version=_nothing_yet().engine_version,
    )


@cache
def _nothing_yet() -> PathsOutcome:
    return replace(OUT_OF_TIME, engine=_ENGINE, engine_version=version("highspy"))


class _Watch:
    """What HiGHS calls back: asks whether to go on, and tells of incumbents and bounds."""

    def __init__(
        self,
        problem: BudgetedPaths,
        blocks: Sequence[Block],
        scales: Scales,
        stopwatch: Stopwatch,
        report: Report[PathsOutcome] | None,
    ) -> None:
        self.problem, self.blocks, self.scales = problem, blocks, scales
        self.stopwatch, self.report = stopwatch, report
        self._known = _nothing_yet()
        self._raised: BaseException | None = None

    def run(self, engine: highspy.Highs) -> None:
        """Run HiGHS; what is raised in the meantime, as by a Ctrl-C, is raised when it has stopped."""
        import highspy

        for event in (engine.cbMipInterrupt, engine.cbSimplexInterrupt, engine.cbIpmInterrupt):
            event.subscribe(self._guard(self._look_at_clock))
        if self.report is not None:
            engine.cbMipImprovingSolution.subscribe(self._guard(self._take_incumbent))
            engine.cbMipLogging.subscribe(self._guard(self._take_bound))
        remaining_s = self.stopwatch.remaining_s
        if remaining_s is not None:
            engine.setOptionValue("time_limit", remaining_s)
        with standard_output_aside():
            failed = engine.run() == highspy.HighsStatus.kError
            if failed and engine.getModelStatus() == highspy.HighsModelStatus.kNotset:
                # HiGHS has one pool of threads per process; where somebody else has sized it, that size has to do.
                engine.setOptionValue("threads", 0)
                engine.run()
        if self._raised is not None:
            raise self._raised

    def _guard(self, heed: Callable[[Any], None]) -> Callable[[Any], None]:
        def guarded(event: Any) -> None:  # noqa: ANN401 - HiGHS's own type, which it does not describe
            try:
                if self._raised is None:
                    heed(event)
            except BaseException as error:  # noqa: BLE001 - HiGHS has no place for exceptions; it is raised afterwards
                self._raised = error
            if self._raised is not None:
                event.interrupt()

        return guarded

    def _look_at_clock(self, event: Any) -> None:  # noqa: ANN401 - as above
        if self.stopwatch.expired:
            event.interrupt()

    def _take_incumbent(self, event: Any) -> None:  # noqa: ANN401 - as above
        columns = np.asarray(event.data_out.mip_solution)
        choice = choice_of_flows(self.problem, [block.read(columns) for block in self.blocks], mixed=False)
        self._known = replace(self._known, status=Status.FEASIBLE, choice=choice)
        self._take_bound(event)

    def _take_bound(self, event: Any) -> None:  # noqa: ANN401 - as above
        bound = float(event.data_out.mip_dual_bound) * self.scales.value
        self._known = replace(self._known, bound=bound if np.isfinite(bound) else None)
        assert self.report is not None
        self.report(self._known)


def write_model(problem: BudgetedPaths, *, form: Literal["lp", "mps"] = "lp", relaxed: bool = False) -> str:
    """Write the model, in its own units, as text that other engines read.

    Parameters
    ----------
    form
        Format of the text: CPLEX LP or free MPS.
    relaxed
        As in :func:`solve_milp`.

    Returns
    -------
    str
        Columns are named ``x.<graph>.<layer>.<node>`` and ``enter.<graph>.<layer>.<node>``, rows by the limits,
        ``one.<graph>.<layer>`` and ``enter.<graph>.<layer>.<node>``; where groups matter see
        :mod:`optplan.solvers.path_program`. Layers count from 1, and characters of names that the formats do not allow
        become underscores.

    Raises
    ------
    EngineError
        When HiGHS cannot write it.
    """
    blocks = lay_out(problem)
    engine = _make_engine()
    own_units = Scales(1.0, np.ones(problem.budgets.size))
    _pass_model(engine, build_program(blocks, problem.budgets, own_units, relaxed=relaxed))
    columns, rows = name_program(blocks)
    for number, name in enumerate(columns):
        engine.passColName(number, name)
    for number, name in enumerate(rows):
        engine.passRowName(number, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{form}"
        _require_ok(engine.writeModel(str(path)), f"cannot write the model as {form}")
        return path.read_text(encoding="utf-8")


def _pass_model(engine: highspy.Highs, model: Program) -> None:
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


def _make_engine() -> highspy.Highs:
    import highspy

    with standard_output_aside():
        engine = highspy.Highs()
    engine.setOptionValue("output_flag", False)
    engine.setOptionValue("small_matrix_value", _LEAST_ENTRY)
    return engine


def _start_engine(gap: float, seed: int) -> highspy.Highs:
    engine = _make_engine()
    options: dict[str, float | int | str | bool] = {
        "threads": 1,
        "parallel": "off",
        "random_seed": seed % 2**31,
        "mip_rel_gap": gap * _GAP_SHARE,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": _ENGINE_TOLERANCE,
        "primal_feasibility_tolerance": _ENGINE_TOLERANCE,
        "dual_feasibility_tolerance": _ENGINE_TOLERANCE,
    }
    for name, value in options.items():
        _require_ok(engine.setOptionValue(name, value), f"does not know the option {name}={value!r}")
    return engine


def _require_ok(status: highspy.HighsStatus, problem: str) -> None:
    if status.name == "kError":
        raise EngineError(f"HiGHS {problem}")


def _read_choice(
    engine: highspy.Highs, problem: BudgetedPaths, blocks: Sequence[Block], *, relaxed: bool
) -> Choice | None:
    import highspy

    if engine.getInfo().primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    columns = np.asarray(engine.getSolution().col_value)
    return choice_of_flows(problem, [block.read(columns) for block in blocks], mixed=relaxed)
