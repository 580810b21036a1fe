"""Programs solved by HiGHS, in this process or in one of its own.

HiGHS works with absolute tolerances, so that models state their rows on a scale on which a typical entry is one. It
heeds its time limit, and asks by callbacks whether to go on, but not while it prepares a large model: those are solved
in a process of their own (:mod:`optplan.solvers.engine_process`), which reports incumbents and bounds.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError
from optplan.progress import Stopwatch
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.programs import TUNING
from optplan.solvers.programs.program import Program, ProgramOutcome
from optplan.solvers.quiet_highs import run_engine, start_engine

if TYPE_CHECKING:
    import highspy

#: Name of the engine in answers.
ENGINE = "HiGHS"
#: Absolute tolerance of HiGHS.
ENGINE_TOLERANCE = 5e-10
#: HiGHS drops matrix entries below this; its own default would drop epochs of a billionth of the budget.
_LEAST_ENTRY = 1e-12
#: What makes HiGHS that precise.
_PRECISE: dict[str, float | str] = {
    "small_matrix_value": _LEAST_ENTRY,
    "mip_feasibility_tolerance": ENGINE_TOLERANCE,
    "primal_feasibility_tolerance": ENGINE_TOLERANCE,
    "dual_feasibility_tolerance": ENGINE_TOLERANCE,
}
#: What each final status of HiGHS means; every other one is a failure.
_ENDINGS = {
    "kOptimal": (Status.OPTIMAL, Termination.COMPLETED),
    "kInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    "kUnbounded": (Status.UNKNOWN, Termination.COMPLETED),
    "kUnboundedOrInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    "kTimeLimit": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "kInterrupt": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "kIterationLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kSolutionLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
    "kMemoryLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
}


def solve_program(program: Program, request: SolveRequest, *, presolve: bool = True) -> ProgramOutcome:
    """Solve a program with HiGHS in one thread, so that the same request gives the same answer."""
    request.stopwatch.emit("highs")
    bare = replace(program, columns=(), rows=())
    settings = (bare, request.gap, request.seed, presolve)
    is_large = program.cost.size >= TUNING.many_columns
    return call_bounded(run_highs, settings, request.stopwatch, is_large=is_large, otherwise=nothing_yet())


def run_highs(
    program: Program,
    gap: float,
    seed: int,
    presolve: bool,  # noqa: FBT001 - called by position, also from another process
    stopwatch: Stopwatch,
    report: Report[ProgramOutcome] | None = None,
) -> ProgramOutcome:
    """Solve a program with HiGHS in this process; better incumbents and bounds are reported until time is up."""
    import highspy

    engine = start_engine(
        random_seed=seed % 2**31,
        presolve="choose" if presolve else "off",
        mip_rel_gap=gap * TUNING.gap_share,
        mip_abs_gap=0.0,
        **_PRECISE,
    )
    _pass_model(engine, program)
    _Watch(stopwatch, report).run(engine)
    name = engine.getModelStatus().name
    if name == "kUnboundedOrInfeasible":  # which of the two, the same engine says without its objective
        engine.changeColsCost(
            program.cost.size, np.arange(program.cost.size, dtype=np.int32), np.zeros(program.cost.size)
        )
        _Watch(stopwatch, None).run(engine)
        again = engine.getModelStatus().name
        name = "kUnbounded" if again == "kOptimal" else again
    if name not in _ENDINGS:
        raise EngineError(f"HiGHS ended with status {name}, which has no meaning for this problem")
    status, termination = _ENDINGS[name]
    info, is_integer = engine.getInfo(), bool(program.integral.any())
    values = duals = bound = None
    found = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    # An interrupted linear program leaves values that need not be feasible; an interrupted search leaves an incumbent.
    # Values of an optimum may miss a row by more than the tolerance once the program is scaled back: they are judged.
    if (
        (found or status is Status.OPTIMAL)
        and name != "kUnbounded"
        and status is not Status.INFEASIBLE
        and (is_integer or status is Status.OPTIMAL)
    ):
        values = np.asarray(engine.getSolution().col_value)
        status = Status.FEASIBLE if status is Status.UNKNOWN else status
    if is_integer:
        bound = info.mip_dual_bound
    elif status is Status.OPTIMAL:
        bound = info.objective_function_value
        duals = np.asarray(engine.getSolution().row_dual)
    return replace(
        nothing_yet(),
        status=status,
        termination=termination,
        values=values,
        bound=float(bound) if bound is not None and np.isfinite(bound) and status is not Status.INFEASIBLE else None,
        duals=duals,
        is_unbounded=name == "kUnbounded",
        counters={"nodes": max(0.0, info.mip_node_count), "simplex_iterations": float(info.simplex_iteration_count)},
    )


@cache
def nothing_yet() -> ProgramOutcome:
    """Return what is known when time runs out before HiGHS has the program."""
    return ProgramOutcome(Status.UNKNOWN, Termination.TIME_LIMIT, engine=ENGINE, engine_version=version("highspy"))


class _Watch:
    """What HiGHS calls back: asks whether to go on, and tells of incumbents and bounds."""

    def __init__(self, stopwatch: Stopwatch, report: Report[ProgramOutcome] | None) -> None:
        self.stopwatch, self.report = stopwatch, report
        self._known = nothing_yet()
        self._raised: BaseException | None = None

    def run(self, engine: highspy.Highs) -> None:
        """Run HiGHS; what is raised in the meantime, as by a Ctrl-C, is raised when it has stopped."""
        for event in (engine.cbMipInterrupt, engine.cbSimplexInterrupt, engine.cbIpmInterrupt):
            event.subscribe(self._guard(self._look_at_clock))
        if self.report is not None:
            engine.cbMipImprovingSolution.subscribe(self._guard(self._take_incumbent))
            engine.cbMipLogging.subscribe(self._guard(self._take_bound))
        remaining_s = self.stopwatch.remaining_s
        if remaining_s is not None:
            engine.setOptionValue("time_limit", remaining_s)
        run_engine(engine)
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
        values = np.array(event.data_out.mip_solution)
        self._known = replace(self._known, status=Status.FEASIBLE, values=values)
        self._take_bound(event)

    def _take_bound(self, event: Any) -> None:  # noqa: ANN401 - as above
        bound = float(event.data_out.mip_dual_bound)
        self._known = replace(self._known, bound=bound if np.isfinite(bound) else None)
        assert self.report is not None
        self.report(self._known)


def write_program(program: Program, form: Literal["lp", "mps"]) -> str:
    """Write a program as text that other engines read: CPLEX LP or free MPS."""
    engine = start_engine(**_PRECISE)
    _pass_model(engine, program)
    for number, name in enumerate(_clean(program.columns)):
        engine.passColName(number, name)
    for number, name in enumerate(_clean(program.rows)):
        engine.passRowName(number, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{form}"
        _require_ok(engine.writeModel(str(path)), f"cannot write the model as {form}")
        return path.read_text(encoding="utf-8")


def _clean(names: Iterable[str]) -> list[str]:
    """Make names such as the formats allow; those that then coincide are numbered."""
    cleaned: dict[str, None] = {}
    for number, name in enumerate(names, start=1):
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        cleaned[f"{clean}_{number}" if clean in cleaned else clean] = None
    return list(cleaned)


def _pass_model(engine: highspy.Highs, program: Program) -> None:
    import highspy

    status = engine.passModel(
        program.cost.size,
        program.row_lower.size,
        program.matrix.nnz,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        program.offset,
        program.cost,
        program.lower,
        program.upper,
        program.row_lower,
        program.row_upper,
        program.matrix.indptr.astype(np.int32),
        program.matrix.indices.astype(np.int32),
        program.matrix.data,
        program.integral.astype(np.int32),
    )
    _require_ok(status, "does not take the model")


def _require_ok(status: highspy.HighsStatus, problem: str) -> None:
    if status.name == "kError":
        raise EngineError(f"HiGHS {problem}")
