"""What a solve returns: status and termination, objective and bound, and the proof that connects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, JsonValue, SerializeAsAny, model_validator

from optplan.contracts import summary
from optplan.contracts.instance import Sense, Solution
from optplan.errors import UsageError, show_value
from optplan.progress import Stopwatch
from optplan.schema import ByName, FrozenModel

SolutionT_co = TypeVar("SolutionT_co", bound=Solution, covariant=True)

#: A bound within this of the objective, relative to the objective, meets it: the rest is rounding.
MEETING = 1e-9


class Status(StrEnum):
    """What is known about the problem after the solve."""

    #: A solution, and a bound that meets it within the stated gap.
    OPTIMAL = "optimal"
    #: A solution; the bound, if any, leaves a larger gap.
    FEASIBLE = "feasible"
    #: Proven: no solution exists. The result says why and what would help.
    INFEASIBLE = "infeasible"
    #: No solution was found and none was excluded.
    UNKNOWN = "unknown"


class Termination(StrEnum):
    """Why the solver stopped."""

    #: The algorithm ran to its end.
    COMPLETED = "completed"
    TIME_LIMIT = "time-limit"
    #: A stated limit on memory, labels or samples was met.
    WORK_LIMIT = "work-limit"
    #: Somebody asked for an end: a signal, or :meth:`optplan.progress.Stopwatch.interrupt`.
    INTERRUPTED = "interrupted"


class BoundProof(StrEnum):
    """What the bound rests on, and so what ``verify`` can re-derive."""

    #: A multiplier: one shortest-path pass re-derives the bound.
    LAGRANGIAN = "lagrangian"
    #: A multiplier and an allowance: enumerating all paths within it anew re-derives the optimum.
    ENUMERATED = "enumerated"
    #: A division of all choices into parts: the judge bounds each part by code of its own.
    TREE = "tree"
    #: A general engine says so.
    ENGINE = "engine"
    #: Every candidate was looked at, or excluded by a bound of its own; nothing short of searching again checks that.
    SEARCHED = "searched"
    #: There is no bound.
    NONE = "none"


#: The kinds of proof that stand in a certificate, which ``verify`` checks; the others are taken on trust.
CERTIFIED = frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED, BoundProof.TREE})


class LagrangianCertificate(FrozenModel):
    """Proof by weak duality: for these multipliers no plan within the limits can be better than ``bound``.

    Parameters
    ----------
    multipliers
        By the name of the limit, in objective units per unit of the limit; never negative.
    bound
        The value of the dual function, in objective units.
    """

    form: Literal["lagrangian"] = "lagrangian"
    multipliers: ByName[Annotated[float, Field(ge=0)]]
    bound: float


class EnumeratedCertificate(FrozenModel):
    """Proof by enumeration: all plans whose reduced cost is within ``allowance`` of the dual bound were looked at.

    Parameters
    ----------
    multipliers
        As in :class:`LagrangianCertificate`.
    allowance
        How far above the dual bound the enumeration went, in objective units.
    optimum
        The least objective among those plans that keep the limits; None when none of them keeps the limits.
    bound
        What follows: the lesser of ``optimum`` and dual bound + allowance, in objective units.
    """

    form: Literal["enumerated"] = "enumerated"
    multipliers: ByName[Annotated[float, Field(ge=0)]]
    allowance: Annotated[float, Field(ge=0)]
    optimum: float | None = None
    bound: float


class TreeCertificate(FrozenModel):
    """Proof by division: parts that together cover all choices, each with what its own bound rests on.

    The formulation's judge knows the rule, builds the parts itself and derives every bound anew: what stands here can
    only spare it the search.

    Parameters
    ----------
    rule
        How ``content`` is read, such as ``srift-fleets``; each formulation declares its own.
    bound
        What is claimed: no plan that keeps the limits has a better objective. None: no plan keeps them.
    limit
        Empty where the claim is about the objective. Else a limit that is dropped and made as small as can be instead:
        then ``bound`` is the least value of it with which a plan keeps the others, in its unit in ``instance.limits``.
    content
        By the rule: nothing but numbers, text, lists and mappings.
    """

    form: Literal["tree"] = "tree"
    rule: str
    bound: float | None = None
    limit: str = ""
    content: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def multipliers(self) -> dict[str, float]:
        """None: what its parts weigh stands in its content."""
        return {}


Certificate = Annotated[LagrangianCertificate | EnumeratedCertificate | TreeCertificate, Field(discriminator="form")]


class ShadowPrice(FrozenModel):
    """What one more unit of a limit is worth, of the convexified problem, one-sided.

    Parameters
    ----------
    less
        Objective lost per unit when the limit shrinks a little; None when nothing less is feasible.
    more
        Objective gained per unit when the limit grows a little; at most ``less``.
    unit
        The unit of both, such as ``s of mean JCT per GPU``.
    less_multipliers, more_multipliers
        With several limits: the multipliers of all of them at either end, this one's included; empty with one.
    """

    less: float | None = None
    more: float
    unit: str
    less_multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    more_multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)


class Relaxation(FrozenModel):
    """The smallest change of one limit that makes an infeasible instance feasible.

    Parameters
    ----------
    limit
        Name of the limit.
    given
        Its value in the instance.
    least_feasible
        The nearest value for which a solution exists, all other limits kept.
    unit
        The unit of both.
    parts
        What ``least_feasible`` is made of (for instance per job class), in the same unit.
    multipliers
        By limit, with 1 for this one: no plan has less of the weighted consumptions than ``least_feasible`` and the
        other limits, so weighted, add up to.
    certificate
        Where multipliers prove nothing: a division that proves it, with this limit dropped.
    """

    limit: str
    given: float
    least_feasible: float
    unit: str
    parts: ByName[float] = Field(default_factory=dict)
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    certificate: TreeCertificate | None = None


class Hopeless(FrozenModel):
    """A limit that cannot mend an infeasible instance, whatever its value: the others allow no plan without it.

    Parameters
    ----------
    limit
        Name of the limit.
    multipliers
        By limit, with 0 for this one: as those of :class:`Infeasibility`.
    certificate
        Where multipliers prove nothing: a division that proves it, with this limit dropped.
    """

    limit: str
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    certificate: TreeCertificate | None = None


class Infeasibility(FrozenModel):
    """Why no solution exists, in the user's units, and what would help.

    Parameters
    ----------
    reason
        One sentence.
    relaxations
        For each limit that can mend it alone, the smallest change that does.
    hopeless
        The limits that cannot mend it alone, with the proof.
    multipliers
        By limit: the least of the consumptions weighted by these exceeds the limits weighted by them, which no plan
        can do that keeps them.
    factor
        By how much all limits together would have to be multiplied, proven by the same multipliers.
    certificate
        Where multipliers prove nothing: a division of all choices into parts of which none keeps the limits.
    """

    reason: str
    relaxations: tuple[Relaxation, ...]
    hopeless: tuple[Hopeless, ...] = ()
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    factor: Annotated[float, Field(ge=1)] = 1.0
    certificate: TreeCertificate | None = None


@dataclass(frozen=True)
class SolveRequest:
    """What a solver is asked besides the instance.

    Parameters
    ----------
    gap
        Relative gap at which a solver may stop and call the solution optimal.
    seed
        For everything random in the solver.
    stopwatch
        Time limit, elapsed time and the listener to progress.
    limit
        Of a frontier: the limit that varies, by name; empty for the formulation's own choice.
    certify
        Whether certificates that take space or time are wanted; without them a bound rests on the search.
    """

    gap: float = 1e-6
    seed: int = 0
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    limit: str = ""
    certify: bool = True


@dataclass(frozen=True)
class Answer(Generic[SolutionT_co]):
    """What a solver hands back; :func:`optplan.solve` times it, has it verified and makes the :class:`Result`.

    Parameters
    ----------
    status, termination
        As in :class:`Result`.
    solution, objective
        Both or neither.
    bound, bound_proof, certificates
        The best lower bound and what it rests on.
    infeasibility
        Present exactly when the status is ``infeasible``.
    shadow_prices
        By limit.
    counters
        Whatever the solver counted: passes, labels, nodes.
    engine, engine_version
        The general engine behind the solver, if there is one.
    warnings
        What the user should know about the answer.
    """

    status: Status
    termination: Termination
    solution: SolutionT_co | None = None
    objective: float | None = None
    bound: float | None = None
    bound_proof: BoundProof = BoundProof.NONE
    certificates: tuple[LagrangianCertificate | EnumeratedCertificate | TreeCertificate, ...] = ()
    infeasibility: Infeasibility | None = None
    shadow_prices: dict[str, ShadowPrice] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    engine: str = "optplan"
    engine_version: str = ""
    warnings: tuple[str, ...] = ()


class SolveEvent(FrozenModel):
    """A better solution or a better bound, when it was found.

    Parameters
    ----------
    stage
        What the solver was doing, such as ``labels``.
    elapsed_s
        Seconds since the solve began.
    objective, bound
        The best of each by then; None before there is one.
    """

    stage: str
    elapsed_s: Annotated[float, Field(ge=0)]
    objective: float | None = None
    bound: float | None = None


class Result(FrozenModel, Generic[SolutionT_co]):
    """The outcome of one solve, ready to be written, read and verified.

    Parameters
    ----------
    version
        Version of this record's schema: 2. What is read with version 1 is translated.
    formulation, instance_name, instance_hash
        Which problem was solved; ``verify`` refuses another instance.
    solver, engine, engine_version, optplan_version
        Who solved it.
    status, termination
        What is known, and why the solver stopped.
    objective, objective_unit, sense
        Recomputed from the decisions by the evaluator; None when there is no solution. The sense says whether less of
        it is better.
    bound
        Proven bound of the objective: no plan can pass it, downwards or upwards as the sense says. Kept even when there
        is no solution; None when there is none.
    gap_target
        The gap that the user asked for and takes for optimal: a statement of the user, which nobody can check. A bound
        that meets the objective up to rounding closes any.
    bound_proof, certificates
        What the bound rests on. A result may carry several certificates; ``bound`` is the best of them.
    solution
        The decisions, or None.
    infeasibility
        Why there can be no solution, when the status says so.
    shadow_prices
        By limit.
    measures
        What the evaluator found besides the objective; names carry units.
    seed
        The seed that reproduces the result.
    solve_seconds, verify_seconds
        Wall time of the two, apart.
    counters
        What the solver counted.
    warnings
        What the user should know.
    on_trust
        What was taken on trust when the result was verified; a later verification says it anew.
    events
        How objective and bound came about; measured, never judged.
    changes
        What was changed in the instance of that name before it was solved, each as ``path=value``; the hash is that of
        the changed instance.
    """

    version: Literal[1, 2] = 2
    formulation: str
    instance_name: str
    instance_hash: str
    solver: str
    engine: str
    engine_version: str
    optplan_version: str
    status: Status
    termination: Termination
    objective: float | None = None
    objective_unit: str
    sense: Sense = Sense.MINIMISE
    bound: float | None = None
    gap_target: Annotated[float, Field(ge=0, lt=1)]
    bound_proof: BoundProof = BoundProof.NONE
    certificates: tuple[Certificate, ...] = ()
    solution: SerializeAsAny[SolutionT_co] | None = None
    infeasibility: Infeasibility | None = None
    shadow_prices: ByName[ShadowPrice] = Field(default_factory=dict)
    measures: ByName[float] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0)] = 0
    solve_seconds: Annotated[float, Field(ge=0)] = 0.0
    verify_seconds: Annotated[float, Field(ge=0)] = 0.0
    counters: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    events: tuple[SolveEvent, ...] = ()

    def __str__(self) -> str:
        """Say in a few lines what was found and what that rests on; :meth:`to_json_data` has everything."""
        return summary.write_text(self)

    def __repr__(self) -> str:
        """Say in one line what was found."""
        return f"<Result {summary.write_headline(self)}>"

    def _repr_html_(self) -> str:
        """Show the same lines in a notebook."""
        return summary.write_html(self)

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
        """Whether what the status claims has no certificate: a general engine's word, or a search cut short of one."""
        if self.infeasibility is not None:
            return not (self.infeasibility.multipliers or self.infeasibility.certificate)
        return self.bound is not None and self.bound_proof not in CERTIFIED

    @model_validator(mode="before")
    @classmethod
    def _read_version_1(cls, data: Any) -> Any:  # noqa: ANN401 - whatever a file holds
        """Translate what version 1 called otherwise."""
        return upgraded(data) if isinstance(data, dict) and data.get("version") == 1 else data

    @model_validator(mode="after")
    def _keep_the_contract(self) -> Result[SolutionT_co]:
        if (self.solution is None) != (self.objective is None):
            message = "solution and objective come together: give both or neither"
            raise ValueError(message)
        if (self.status in (Status.OPTIMAL, Status.FEASIBLE)) != (self.solution is not None):
            message = f"status {self.status} {'needs a solution' if self.solution is None else 'has no solution'}"
            raise ValueError(message)
        if (self.status is Status.INFEASIBLE) != (self.infeasibility is not None):
            message = "status infeasible and the field infeasibility come together"
            raise ValueError(message)
        if (self.bound is None) != (self.bound_proof is BoundProof.NONE):
            message = "a bound and what it rests on come together: bound is None exactly when bound_proof is none"
            raise ValueError(message)
        if self.status is Status.OPTIMAL and not closes_gap(self.objective, self.bound, self.gap_target, self.sense):
            message = f"status optimal needs a gap of at most {self.gap_target:g}, got {self.gap}"
            raise ValueError(message)
        return self


#: What version 1 called the kinds of proof.
_RENAMED = {"exhaustive": BoundProof.ENUMERATED.value, "exhaustion": BoundProof.SEARCHED.value}


def upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """Return a result of version 1, as read from a file, in the words of version 2; whatever it claims stays."""
    changed = data | {"version": 2}
    if isinstance(data.get("bound_proof"), str):
        changed["bound_proof"] = _RENAMED.get(data["bound_proof"], data["bound_proof"])
    if isinstance(data.get("certificates"), list | tuple):
        changed["certificates"] = [
            one | {"form": _RENAMED.get(one["form"], one["form"])}
            if isinstance(one, dict) and isinstance(one.get("form"), str)
            else one
            for one in data["certificates"]
        ]
    return changed


def _blank(generic: type[Result[Any]], arguments: tuple[Any, ...]) -> Result[Any]:
    """Make the record that unpickling fills."""
    specialised: Any = generic.__class_getitem__(arguments) if arguments else generic
    blank: Result[Any] = specialised.__new__(specialised)
    return blank


def require_result(result: object) -> None:
    """Raise unless it is a result.

    Raises
    ------
    UsageError
        When it is something else, such as the name of a file.
    """
    if not isinstance(result, Result):
        example = show_value(result) if isinstance(result, str) else "'result.json'"
        message = f"result: got {show_value(result)}; a Result is needed, such as read_result({example})"
        raise UsageError(message)


def relative_gap(objective: float | None, bound: float | None, sense: Sense = Sense.MINIMISE) -> float | None:
    """Return how far the bound is from the objective, relative to the objective; None unless both are known.

    Never below zero: a bound that is passed leaves no gap. An objective of zero has gap zero when the bound leaves
    nothing to gain, and otherwise an infinite one.
    """
    if objective is None or bound is None:
        return None
    difference = max(0.0, objective - bound if sense is Sense.MINIMISE else bound - objective)
    if difference == 0.0:
        return 0.0
    return difference / abs(objective) if objective else float("inf")


def closes_gap(objective: float | None, bound: float | None, target: float, sense: Sense = Sense.MINIMISE) -> bool:
    """Whether the bound is within the target of the objective, or meets it up to rounding (:data:`MEETING`)."""
    gap = relative_gap(objective, bound, sense)
    return gap is not None and gap <= max(target, MEETING)
