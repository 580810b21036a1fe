"""Models that users hold: stated, changed, solved by a general engine, and judged as far as the judge knows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from optplan.contracts import (
    Answer,
    BoundProof,
    Check,
    Infeasibility,
    Instance,
    Result,
    Sense,
    Solution,
    SolveRequest,
    Status,
    Termination,
)
from optplan.contracts.result import remember_result, status_of
from optplan.errors import EngineError, UsageError, show_value
from optplan.formulations import formulation_of
from optplan.progress import Stopwatch, interruptible
from optplan.solving.asking import AUTO, require_settings
from optplan.solving.results import Trajectory, assemble_result
from optplan.verification import verify

if TYPE_CHECKING:
    from optplan.solvers.programs.convex import CvxpyModel
    from optplan.solvers.programs.program import ProgramOutcome
    from optplan.solvers.programs.statement import PyomoModel

#: Fleets, or plans, that are cut off one by one because they do not keep in truth what a relaxation lets pass.
_MOST_CUTS = 1_000
#: Up to how far, relatively, a bound of an engine may lie beyond the objective by the engine's tolerances.
_ENGINE_TOLERANCE = 1e-6


class Model:
    """A declarative model of an instance; made by :func:`model`.

    Attributes
    ----------
    instance
        The problem.
    engine
        ``pyomo`` or ``cvxpy``.
    native
        The Pyomo or CVXPY model, with the names of the formulation's sheet. Whatever may be done with such a model may
        be done with this one: variables and constraints added, constraints deactivated, variables fixed, another
        objective set.
    leaves_out
        What the instance has and the model has not, so that the model is a relaxation; empty where it is exact.
    index, expressions
        Of CVXPY, which knows arrays only: by variable or expression, what each entry is about; and by name what is
        added up of variables. Pyomo's model has both itself. CVXPY's problems cannot be changed: set ``native`` to
        another one, of the same variables, with what is to be added.
    """

    def __init__(self, instance: Instance, engine: str, held: PyomoModel | CvxpyModel) -> None:
        self.instance = instance
        self.engine = engine
        self.native: Any = held.native
        self.leaves_out = held.leaves_out
        self.index = held.index
        self.expressions = held.expressions
        self._held = held

    def __repr__(self) -> str:
        """Say of what it is a model."""
        exact = f"a relaxation: it leaves out {self.leaves_out}" if self.leaves_out else "exact"
        return f"<Model of {self.instance.name} in {self.engine}, {exact}>"

    def write(self, form: Literal["lp", "mps"]) -> str:
        """Write the model as it is now, as CPLEX LP or free MPS; one that is not linear, or CVXPY's, is refused."""
        # Columns and rows have the names of the sheet, as x_bert_1_v100_4_: characters that the formats do not allow
        # become underscores. A model whose objective is a most is written as the least of its opposite.
        return self._held.write(form)

    def solve(
        self, engine: str = "", *, gap: float = 1e-6, time_limit_s: float | None = None, seed: int = 0
    ) -> Result[Solution]:
        """Solve the model as it is now, and have the judge look at the decisions.

        Of a relaxation the decisions that the judge refuses are cut off, one by one, until some pass.

        Parameters
        ----------
        engine
            ``highs``, the default for Pyomo, or the name of any solver that Pyomo, or CVXPY, knows and finds. Those
            that Pyomo calls may take more than linear models.
        gap
            Relative gap at which the engine may stop.
        time_limit_s
            Seconds after which the best there is by then is returned.
        seed
            For what is random in the engine.

        Returns
        -------
        Result
            The objective is the instance's, by the judge; the bound is the engine's word, and in ``own_constraints``
            are the names of what was added. Without a solution where the values stand for none, because variables or
            constraints were relaxed: then the warnings say so, and the bound holds. With an objective of one's own
            there is no bound. Infeasible is an answer and says why.

        Raises
        ------
        UsageError
            When the model is unbounded, or has lost variables of the sheet.
        UnsupportedError
            When the engine is not there, or does not take the model.
        EngineError
            When the engine fails.
        """
        require_settings(AUTO, gap, time_limit_s, seed, None)
        chosen = engine or self._held.default_engine
        self._held.native = self.native  # CVXPY's problems cannot be changed, but replaced
        trajectory = Trajectory(None)
        request = SolveRequest(gap=gap, seed=seed, stopwatch=Stopwatch(time_limit_s, trajectory.listen))
        start = time.perf_counter()
        session = _Session(self, chosen, request)
        answer = session.answer()
        seconds, name = time.perf_counter() - start, f"model:{chosen}"
        made = assemble_result(session.formulation, self.instance, name, request, answer, seconds, trajectory)
        with interruptible():
            return _judge(self.instance, made.replace(own_constraints=session.changes.added))


class _Session:
    """One solve of a model as it is."""

    def __init__(self, model: Model, engine: str, request: SolveRequest) -> None:
        self.model, self.engine, self.request = model, engine, request
        self.instance, self.held = model.instance, model._held
        self.formulation = formulation_of(model.instance)
        self.changes = self.held.compare()
        self.notes: list[str] = []
        self._cuts = 0

    def answer(self) -> Answer[Solution]:
        """Run the engine until decisions pass, and say what is known in the end."""
        if self.changes.missing:
            names = ", ".join(self.changes.missing)
            raise UsageError(f"the model has lost {names}, from which decisions are read; give your own another name")
        self._say_what_changed()
        try:
            while True:
                found = self.held.run(self.engine, self.request)
                if found.is_unbounded:
                    what = "your own objective" if self.changes.has_own_objective else "the objective"
                    fix = "give bounds to your own variables that it is made of"
                    raise UsageError(f"the model is unbounded: {what} has no end; {fix}")
                if found.status is Status.INFEASIBLE:
                    return self._explain_infeasible(found)
                solution = self.held.read() if found.values is not None else None
                if solution is None:
                    return self._without_solution(found)
                failed = self._judge(solution)
                if not failed:
                    return self._with_solution(found, solution)
                if not self.model.leaves_out or self._cuts >= _MOST_CUTS or self.request.stopwatch.expired:
                    self.notes.append(f"the decisions found do not hold: {failed[0].family}: {failed[0].message}")
                    return self._without_solution(replace(found, values=None))
                self.held.cut_off()
                self._cuts += 1
        finally:
            self.held.forget_cuts()

    def _say_what_changed(self) -> None:
        changes = self.changes
        if self.model.leaves_out:
            self.notes.append(f"the model is a relaxation: it leaves out {self.model.leaves_out}")
        if changes.added:
            names = ", ".join(changes.added)
            self.notes.append(f"its user's own {names}: bound and status are about the plans that keep them")
        if changes.left_out:
            self.notes.append(f"left out or relaxed by its user: {', '.join(changes.left_out)}")
        if changes.has_own_objective:
            self.notes.append("the objective was its user's own, so that the problem's has no bound")

    def _judge(self, solution: Solution) -> list[Check]:
        return [each for each in self.formulation.evaluate(self.instance, solution).checks if not each.holds]

    def _bound(self, found: ProgramOutcome) -> float | None:
        return None if found.bound is None or self.changes.has_own_objective else found.bound

    def _base(self, found: ProgramOutcome) -> dict[str, Any]:
        counters = dict(found.counters) | ({"cut_off": float(self._cuts)} if self._cuts else {})
        return {
            "termination": found.termination,
            "counters": counters,
            "engine": found.engine,
            "engine_version": found.engine_version,
            "warnings": tuple(self.notes),
        }

    def _with_solution(self, found: ProgramOutcome, solution: Solution) -> Answer[Solution]:
        objective, bound = self.formulation.evaluate(self.instance, solution).objective, self._bound(found)
        if bound is not None:
            better = min if self.instance.sense is Sense.MINIMISE else max
            near = abs(bound - objective) <= _ENGINE_TOLERANCE * abs(objective)
            # What the engine's tolerances put beyond the objective, or just before it, is the objective.
            bound = objective if near and found.status is Status.OPTIMAL else better(bound, objective)
        return Answer(
            status=status_of(objective, bound, self.request.gap, self.instance.sense),
            solution=solution,
            objective=objective,
            bound=bound,
            bound_proof=BoundProof.NONE if bound is None else BoundProof.ENGINE,
            **self._base(found),
        )

    def _without_solution(self, found: ProgramOutcome) -> Answer[Solution]:
        if found.values is not None:
            self.notes.append("the values are no plan: what is relaxed is not whole; the bound holds all the same")
        bound = self._bound(found)
        proof = BoundProof.NONE if bound is None else BoundProof.ENGINE
        return Answer(status=Status.UNKNOWN, bound=bound, bound_proof=proof, **self._base(found))

    def _explain_infeasible(self, found: ProgramOutcome) -> Answer[Solution]:
        """Say whether the problem itself has no plan, or none that keeps one's own constraints, and what would help."""
        own = ", ".join(self.changes.added)
        if found.culprit:
            reason = found.culprit
        elif self._cuts and not own:
            reason = f"all {self._cuts:,} decisions that the relaxation lets pass were judged, and none holds"
        elif not own or self.held.has_none_without_own(self.request):
            return self._say_infeasible(self._ask_solver(), found)
        else:
            reason = f"no plan of the problem keeps its user's own {own}"
            violations = self.held.find_violations(self.request)
            if violations:
                amounts = ", ".join(f"{name} by {amount:,.6g}" for name, amount in violations.items())
                reason += f"; the least change that would help: {amounts}"
        return self._say_infeasible(Infeasibility(reason=reason, relaxations=()), found)

    def _say_infeasible(self, infeasibility: Infeasibility, found: ProgramOutcome) -> Answer[Solution]:
        return Answer(status=Status.INFEASIBLE, infeasibility=infeasibility, **self._base(found))

    def _ask_solver(self) -> Infeasibility:
        """Have our own solver say why the problem has no plan: what it proves holds with further constraints, too."""
        from optplan.solving import solve

        known = solve(self.instance, ranges=False, time_limit_s=self.request.stopwatch.remaining_s)
        if known.solution is not None:
            message = f"{self.engine} finds no plan within the limits, although {known.solver} does"
            raise EngineError(message)
        by_word = Infeasibility(reason="no plan keeps the limits, as the engine says", relaxations=())
        return known.infeasibility or by_word


def model(instance: Instance, engine: Literal["pyomo", "cvxpy"] = "pyomo") -> Model:
    """State an instance as a declarative model, for its user to change and to solve.

    Parameters
    ----------
    instance
        The problem.
    engine
        ``pyomo``, or ``cvxpy`` where the problem is convex: real widths, or mixed plans.

    Returns
    -------
    Model
        ``native`` is the Pyomo or CVXPY model, with the names of the formulation's sheet, ``leaves_out`` says where it
        is a relaxation. Srift's always is.

    Raises
    ------
    UnsupportedError
        When the problem, or something in the instance, has no such model.
    InfeasibleError
        When there is nothing to choose from, whatever the limits.
    """
    formulation = formulation_of(instance)
    if engine == "pyomo":
        from optplan.solvers.programs.statement import PyomoModel

        return Model(instance, engine, PyomoModel(formulation.state_model(instance)))
    if engine != "cvxpy":
        raise UsageError(f"engine: got {show_value(engine)}; pyomo and cvxpy are known")
    from optplan.solvers.programs.convex import CvxpyModel, state_linear

    if formulation.declares("state_convex_model") and (own := formulation.state_convex_model(instance)) is not None:
        return Model(instance, engine, CvxpyModel(own))
    return Model(instance, engine, CvxpyModel(state_linear(formulation.state_model(instance))))


def result_of(instance: Instance, solution: Solution | Mapping[str, Any]) -> Result[Solution]:
    """Make a result of decisions from anywhere, judged.

    Parameters
    ----------
    instance
        The problem.
    solution
        The decisions, as the formulation's record or as its fields.

    Returns
    -------
    Result
        Feasible, with the judge's figures and without a bound: :func:`build_plan`, :func:`verify` and the rest take it.

    Raises
    ------
    UsageError
        When the decisions break a rule or a limit; with the first one.
    DataError
        When they are no decisions of the formulation.
    """
    formulation = formulation_of(instance)
    kind = formulation.solution_type
    decisions = solution if isinstance(solution, Solution) else kind.parse(dict(solution), path="solution")
    if not isinstance(decisions, kind):
        raise UsageError(f"solution: got {show_value(solution)}; a {kind.__name__} is needed")
    for check in formulation.evaluate(instance, decisions).checks:
        if not check.holds:
            where = f"{check.family} {check.index}".strip()
            raise UsageError(f"the decisions do not hold: {where}: {check.message} ({check.left:g}, {check.right:g})")
    answer = Answer(Status.FEASIBLE, Termination.COMPLETED, solution=decisions)
    trajectory, request = Trajectory(None), SolveRequest()
    return _judge(instance, assemble_result(formulation, instance, "decisions:given", request, answer, 0.0, trajectory))


def _judge(instance: Instance, made: Result[Solution]) -> Result[Solution]:
    """Return a result that was verified, and knows its instance."""
    verification = verify(instance, made)
    verification.require()
    made = made.replace(verify_seconds=verification.seconds, on_trust=verification.on_trust)
    return remember_result(made, instance)


def graph(instance: Instance) -> Any:  # noqa: ANN401 - networkx ships no types
    """Draw the layered graph of an instance whose plans are paths: BOA's and RubberBand's.

    Returns
    -------
    networkx.DiGraph
        From ``(NAME, "start")`` to ``(NAME, "end")`` for each class or bracket, with a node for each choice of each
        epoch or stage. Arcs have ``value``, what a step adds to the objective, and what it takes of each limit under
        the limit's name, so that a path is a plan of that class or bracket; which plans keep the limits together is not
        part of the graph.

    Raises
    ------
    UnsupportedError
        When the formulation has no such graph, or the graph would have more than a million arcs.
    MissingExtraError
        When networkx is not installed.
    """
    return formulation_of(instance).draw_graph(instance)
