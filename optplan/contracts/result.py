"""What a solver is asked and hands back; what a solve returns: objective, bound, and the proof that connects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import Field, SerializeAsAny, model_validator

from optplan.contracts.faces import Shown, remember
from optplan.contracts.instance import Instance, Sense, Solution
from optplan.contracts.proofs import (
    CERTIFIED,
    MOST_CERTIFICATES,
    BoundProof,
    Certificate,
    EnumeratedCertificate,
    Hopeless,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    ShadowPrice,
    TreeCertificate,
    concerns_status,
)
from optplan.contracts.ranges import AnswerRange
from optplan.errors import UsageError, show_value
from optplan.progress import Stopwatch
from optplan.schema import ByName, FrozenModel

__all__ = [
    "CERTIFIED",
    "MEETING",
    "OPTIMAL_GAP",
    "Answer",
    "BoundProof",
    "Certificate",
    "EnumeratedCertificate",
    "Hopeless",
    "Infeasibility",
    "LagrangianCertificate",
    "Relaxation",
    "Result",
    "ShadowPrice",
    "SolutionT_co",
    "SolveEvent",
    "SolveRequest",
    "Status",
    "Termination",
    "TreeCertificate",
    "closes_gap",
    "describe_origin",
    "relative_gap",
    "remember_result",
    "require_gap",
    "require_result",
    "require_solution",
    "status_of",
    "write_amount",
    "write_headline",
]

#: A bound within this of the objective, relative to the objective, meets it: the rest is rounding.
MEETING = 1e-9
#: A bound within this of the objective makes a plan optimal, whatever gap was asked for; a coarser one does not.
OPTIMAL_GAP = 1e-6


SolutionT_co = TypeVar("SolutionT_co", bound=Solution, covariant=True)


class Status(StrEnum):
    """What is known about the problem after the solve."""

    #: A solution, and a bound that meets it: of a result within 1e-6, of a solver's answer within the gap asked for.
    OPTIMAL = "optimal"
    FEASIBLE = "feasible"  #: A solution; the bound, if any, leaves a larger gap.
    INFEASIBLE = "infeasible"  #: Proven: no solution exists. The result says why and what would help.
    UNKNOWN = "unknown"  #: No solution was found and none was excluded.


class Termination(StrEnum):
    """Why the solver stopped."""

    COMPLETED = "completed"  #: The algorithm ran to its end.
    TIME_LIMIT = "time-limit"
    WORK_LIMIT = "work-limit"  #: A stated limit on memory, labels or samples was met.
    #: Somebody asked for an end: a signal, or :meth:`optplan.progress.Stopwatch.interrupt`.
    INTERRUPTED = "interrupted"

    @classmethod
    def after(cls, stopped_by: str | None) -> Termination:
        """Return how a search ended, by the name of the limit on its effort that it met; None where it met none."""
        if stopped_by is None:
            return cls.COMPLETED
        return cls.TIME_LIMIT if stopped_by == "time" else cls.WORK_LIMIT


class SolveEvent(FrozenModel):
    """A better solution or a better bound, when it was found."""

    stage: str  #: What the solver was doing, such as ``labels``.
    elapsed_s: Annotated[float, Field(ge=0)]  #: Seconds since the solve began.
    #: objective, bound: The best of each by then; None before there is one.
    objective: float | None = None
    bound: float | None = None


class Result(Shown, FrozenModel, Generic[SolutionT_co]):
    """The outcome of one solve, ready to be written, read and verified."""

    version: Literal[3] = 3  #: Version of this record's schema.
    #: formulation, instance_name, instance_hash: Which problem was solved; ``verify`` refuses another instance.
    formulation: str
    instance_name: str
    instance_hash: str
    #: solver, engine, engine_version, optplan_version: Who solved it.
    solver: str
    engine: str
    engine_version: str
    optplan_version: str
    #: status, termination: What is known, and why the solver stopped.
    status: Status
    termination: Termination
    #: objective, objective_unit, sense: Recomputed from the decisions by the evaluator; None when there is no solution.
    #: The sense says whether less of it is better.
    objective: float | None = None
    objective_unit: str
    sense: Sense = Sense.MINIMISE
    #: Proven bound of the objective: no plan can pass it, downwards or upwards as the sense says. Kept even when there
    #: is no solution; None when there is none.
    bound: float | None = None
    #: The gap at which the solver was to stop: a statement of the user, which nobody can check. A plan is optimal
    #: within this and within :data:`OPTIMAL_GAP`; a bound that meets the objective up to rounding closes any gap.
    gap_target: Annotated[float, Field(ge=0, lt=1)]
    #: bound_proof, certificates: What the bound rests on. A result may carry up to 100 certificates; ``bound`` is the
    #: best of them.
    bound_proof: BoundProof = BoundProof.NONE
    certificates: Annotated[tuple[Certificate, ...], Field(max_length=MOST_CERTIFICATES)] = ()
    solution: SerializeAsAny[SolutionT_co] | None = None  #: The decisions, or None.
    infeasibility: Infeasibility | None = None  #: Why there can be no solution, when the status says so.
    shadow_prices: ByName[ShadowPrice] = Field(default_factory=dict)  #: By limit.
    #: What the evaluator found besides the objective; names carry units.
    measures: ByName[float] = Field(default_factory=dict)
    #: How much is in use at once, as the solver's side forecasts it, by names of the formulation's own.
    demand: ByName[float] = Field(default_factory=dict)
    #: Shares of the GPUs by where the speedups behind them come from: ``measured``, ``fitted``, ``card``, ``assumed``,
    #: ``not said``; without a solution, shares of the load. Empty where the formulation has no speedups.
    evidence: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    #: How the answer changes within the errors of speedups; None where all are exact, and where it was not asked for.
    range: AnswerRange | None = None
    seed: Annotated[int, Field(ge=0)] = 0  #: The seed that reproduces the result.
    #: solve_seconds, verify_seconds: Wall time of the two, apart.
    solve_seconds: Annotated[float, Field(ge=0)] = 0.0
    verify_seconds: Annotated[float, Field(ge=0)] = 0.0
    counters: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)  #: What the solver counted.
    warnings: tuple[str, ...] = ()  #: What the user should know.
    #: What was taken on trust when the result was verified; a later verification says it anew.
    on_trust: tuple[str, ...] = ()
    #: Names of what its user put into the declarative model beyond the problem: constraints, fixed variables. Bound and
    #: infeasibility are then about the plans that keep these, too, which the judge does not know.
    own_constraints: tuple[str, ...] = ()
    #: What was changed in the instance of that name before it was solved, each as ``path=value``; the hash is that of
    #: the changed instance.
    changes: tuple[str, ...] = ()
    events: tuple[SolveEvent, ...] = ()  #: How objective and bound came about; measured, never judged.

    def __repr__(self) -> str:
        """Say in one line what was found."""
        return f"<Result {write_headline(self)}>"

    @property
    def gap(self) -> float | None:
        """Relative gap ``|objective - bound| / |objective|``; None unless there are both; zero beyond the bound."""
        return relative_gap(self.objective, self.bound, self.sense)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the generic type and its argument: the type that pydantic makes of them has no name to find."""
        generic = type(self).__pydantic_generic_metadata__
        return _blank, (generic["origin"] or type(self), generic["args"]), self.__getstate__()

    @property
    def rests_on_trust(self) -> bool:
        """Whether what the status claims was not derived anew: it has no certificate, or time was too short for it."""
        if any(map(concerns_status, self.on_trust)):
            return True
        if self.infeasibility is not None:
            return not (self.infeasibility.multipliers or self.infeasibility.certificate)
        return self.bound is not None and self.bound_proof not in CERTIFIED

    @model_validator(mode="after")
    def _keep_the_contract(self) -> Result[SolutionT_co]:
        if (self.solution is None) != (self.objective is None):
            raise ValueError("solution and objective come together: give both or neither")
        if (self.status in (Status.OPTIMAL, Status.FEASIBLE)) != (self.solution is not None):
            message = f"status {self.status} {'needs a solution' if self.solution is None else 'has no solution'}"
            raise ValueError(message)
        if (self.status is Status.INFEASIBLE) != (self.infeasibility is not None):
            raise ValueError("status infeasible and the field infeasibility come together")
        if (self.bound is None) != (self.bound_proof is BoundProof.NONE):
            message = "a bound and what it rests on come together: bound is None exactly when bound_proof is none"
            raise ValueError(message)
        most = min(self.gap_target, OPTIMAL_GAP)
        if self.status is Status.OPTIMAL and not closes_gap(self.objective, self.bound, most, self.sense):
            raise ValueError(f"status optimal needs a gap of at most {most:g}, got {self.gap}")
        return self


@dataclass(frozen=True)
class SolveRequest:
    """What a solver is asked besides the instance."""

    gap: float = 1e-6  #: Relative; the solver may stop there.
    seed: int = 0
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    limit: str = ""  #: Of a frontier: the limit that varies; empty for the formulation's choice.
    #: Whether certificates that take space or time are wanted; without them a bound rests on the search.
    certify: bool = True
    #: The result of an instance that differs little; it may save time, and changes no objective by more than the gap.
    near: Result[Any] | None = None


@dataclass(frozen=True)
class Answer(Generic[SolutionT_co]):
    """What a solver hands back; :func:`optplan.solve` times it, has it verified and makes the :class:`Result`."""

    status: Status
    termination: Termination
    solution: SolutionT_co | None = None
    objective: float | None = None  #: Of the solution: both or neither.
    bound: float | None = None
    bound_proof: BoundProof = BoundProof.NONE
    certificates: tuple[Certificate, ...] = ()
    infeasibility: Infeasibility | None = None  #: Exactly when the status is infeasible.
    shadow_prices: dict[str, ShadowPrice] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)  #: Passes, labels, nodes.
    engine: str = "optplan"  #: The general one behind the solver, if any.
    engine_version: str = ""
    warnings: tuple[str, ...] = ()


def _blank(generic: type[Result[Any]], arguments: tuple[Any, ...]) -> Result[Any]:
    specialised: Any = generic.__class_getitem__(arguments) if arguments else generic
    blank: Result[Any] = specialised.__new__(specialised)
    return blank


def require_result(result: object) -> None:
    """Raise unless it is a result."""
    if not isinstance(result, Result):
        example = show_value(result) if isinstance(result, str) else "'result.json'"
        raise UsageError(f"result: got {show_value(result)}; a Result is needed, such as read_result({example})")


def remember_result(result: Result[SolutionT_co], instance: Instance) -> Result[SolutionT_co]:
    """Let a result and its decisions know the instance that they are about."""
    if result.solution is not None:
        remember(result.solution, instance, result)
    return remember(result, instance, result)


def require_solution(result: Result[SolutionT_co]) -> SolutionT_co:
    """Return the solution of a result."""
    if result.solution is None:
        raise UsageError(f"the result has no solution to plan (status {result.status})")
    return result.solution


def describe_origin(result: Result[Any]) -> dict[str, Any]:
    """Return what a plan says of the result that it is made from, by the names of its fields."""
    names = ("instance_name", "instance_hash", "solver", "objective_unit", "bound")
    return {name: getattr(result, name) for name in names}


def relative_gap(objective: float | None, bound: float | None, sense: Sense = Sense.MINIMISE) -> float | None:
    """Return how far the bound is from the objective, relative to it; 0 where passed; None unless both are known."""
    if objective is None or bound is None:
        return None
    difference = max(0.0, objective - bound if sense is Sense.MINIMISE else bound - objective)
    if difference == 0.0:
        return 0.0
    return difference / abs(objective) if objective else float("inf")


def require_gap(gap: object) -> None:
    """Refuse what is no relative gap."""
    if isinstance(gap, bool) or not (isinstance(gap, Real) and 0 <= cast("float", gap) < 1):
        message = f"gap: got {show_value(gap)}; a relative gap from 0 to below 1 is needed, such as 1e-6"
        raise UsageError(message)


def closes_gap(objective: float | None, bound: float | None, target: float, sense: Sense = Sense.MINIMISE) -> bool:
    """Whether the bound is within the target of the objective, or meets it up to rounding (:data:`MEETING`)."""
    gap = relative_gap(objective, bound, sense)
    return gap is not None and gap <= max(target, MEETING)


def status_of(objective: float | None, bound: float | None, target: float, sense: Sense = Sense.MINIMISE) -> Status:
    """Return OPTIMAL, FEASIBLE or UNKNOWN by whether there is an objective and how far the bound is from it."""
    if objective is None:
        return Status.UNKNOWN
    return Status.OPTIMAL if closes_gap(objective, bound, target, sense) else Status.FEASIBLE


def write_headline(result: Result[Any]) -> str:
    """Say in a line what was found."""
    if result.infeasibility is not None:
        return f"{result.instance_name}: infeasible, because {result.infeasibility.reason}"
    if result.objective is None:
        return f"{result.instance_name}: nothing found (stopped: {result.termination})"
    own = f" with its user's own {', '.join(result.own_constraints)}" if result.own_constraints else ""
    return f"{result.instance_name}: {result.status}{own}, {write_amount(result.objective, result.objective_unit)}"


def write_amount(value: float, unit: str) -> str:
    """Write an amount with its unit."""
    return f"{value:,.7g} {unit}"
