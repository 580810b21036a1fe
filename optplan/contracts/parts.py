"""What each part of a formulation is called with and returns, the instance first, and how it is found on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from optplan.contracts.instance import Instance
from optplan.contracts.judgement import Evaluation, PathCosts
from optplan.contracts.result import Answer, BoundProof, Result, SolveRequest, TreeCertificate
from optplan.errors import UnsupportedError
from optplan.progress import Listener, Stopwatch
from optplan.schema import FloatArray

if TYPE_CHECKING:
    from optplan.contracts.explanation import Explanation, Sensitivity, SensitivityRequest
    from optplan.contracts.frontier import Frontier, ParetoFrontier
    from optplan.contracts.plan import Plan
    from optplan.contracts.ranges import AnswerRange
    from optplan.contracts.standing import Continuation, Solver, Standing

PartT = TypeVar("PartT")


#: Imports once what is asked for on every use.
_import_module = cache(import_module)


def load(target: str) -> Any:  # noqa: ANN401 - the declared attribute may be anything
    """Import ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(_import_module(module), attribute)


class Part(Generic[PartT]):
    """A field given as ``module:attribute`` and read as what stands there, loaded on use; users know its ``words``."""

    def __init__(self, words: str = "") -> None:
        self._words = words

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, declared: None, owner: type[object]) -> str: ...

    @overload
    def __get__(self, declared: object, owner: type[object]) -> PartT: ...

    def __get__(self, declared: object | None, owner: type[object]) -> PartT | str:
        if declared is None:
            return ""  # of the class: the field's default
        fields = vars(declared)
        if not fields[self._name]:
            raise UnsupportedError(f"formulation {fields['name']!r} has no {self._words or self._name}")
        return cast(PartT, load(fields[self._name]))

    def __set__(self, declared: object, target: str) -> None:
        vars(declared)[self._name] = target


@dataclass(frozen=True)
class Description:
    """What solvers are matched against, in the formulation's own words."""

    problem: str
    policy: str
    cells: int  #: How large, in the formulation's count of choices.
    features: frozenset[str] = frozenset()  #: What it needs beyond the plainest ones.


class Solve(Protocol):
    """A solver."""

    def __call__(self, instance: Any, request: SolveRequest, /) -> Answer[Any]:  # noqa: ANN401 - the formulation's
        """Look for the best solution until it is proven or the time is over; a bound only where something proves it."""


#: Beside a solver, where its entry alone cannot tell: why it does not take an instance; empty when it does.
Supports = Callable[[Any], str]

#: The independent judge: objective, consumption and every constraint, from instance and decisions alone.
Evaluate = Callable[[Any, Any], Evaluation]


class ForecastDemand(Protocol):
    """The solvers' forecast of how much is in use at once."""

    def __call__(self, instance: Any, solution: Any, over: Sequence[float] = (), /) -> dict[str, float]:  # noqa: ANN401
        """Return figures by name, with the shares of the time in which more than some numbers are in use."""


#: The judge of such figures: computes those of some names from the decisions alone, and leaves out what there is not.
JudgeDemand = Callable[[Any, Any, list[str]], dict[str, float]]

#: Shares of a solution's GPUs (without one: of the load) by where the speedups behind them come from: by the values of
#: :class:`optplan.speedup.Evidence` and ``NOT_SAID``, adding up to one.
ShareEvidence = Callable[[Any, Any], dict[str, float]]


class FindRange(Protocol):
    """How an answer changes within the stated errors of speedups."""

    def __call__(self, instance: Any, result: Result[Any], /, *, time_limit_s: float | None) -> AnswerRange | None:  # noqa: ANN401
        """Solve for other truths; None where there is one only. UnsupportedError where that cannot be told."""


#: The judge's instance of one truth, by its shifts; None where decisions are not what runs. ValueError where these are
#: no shifts of its bands.
JudgeTruth = Callable[[Any, Mapping[str, Mapping[str, float]]], Any]

#: What a range has to be by its truths, and by the plans and multipliers that they carry.
DeriveRange = Callable[[Any, Any, "AnswerRange"], "AnswerRange"]

#: What solvers are matched against: what an instance asks for, and how large it is.
Describe = Callable[[Any], Description]

#: The kinds of certificate that prove anything about an instance, by its problem, policy and objective; the judge
#: refuses all others.
ListProofs = Callable[[Any], frozenset[BoundProof]]


#: The judge of :class:`~optplan.contracts.TreeCertificate`: raises RefutedError unless one proves its claim; every long
#: loop looks at the stopwatch.
CheckTree = Callable[[Any, TreeCertificate, Stopwatch], None]


#: Re-derives a Lagrangian bound, apart from solvers: the dual function at multipliers of all limits.
DualBound = Callable[[Any, dict[str, float], Stopwatch], float]

#: What enumerated certificates are checked against, where plans are sums of paths: what steps of graphs cost.
ListPathCosts = Callable[[Any], list[PathCosts]]

#: What they are checked against elsewhere: the least objective of the plans that keep the limits, at multipliers by
#: limit, within an allowance of the dual bound.
LeastWithin = Callable[[Any, dict[str, float], float, Stopwatch], float]

#: What proves that limits cannot be kept: by part the least consumption, weighted (L,), of any plan.
LeastConsumption = Callable[[Any, FloatArray, Stopwatch], dict[str, float]]


class BuildPlan(Protocol):
    """From a solution to a plan."""

    def __call__(self, instance: Any, result: Result[Any], /, *, explanation: Explanation | None) -> Plan:  # noqa: ANN401
        """Turn a result with a solution into actions of an executor; an explanation becomes the plan's reasons."""


#: From a run that has not gone as planned to a plan for the rest, by an instance that says what was measured;
#: UnsupportedError when the rest is none.
ContinuePlan = Callable[[Any, Any, "Standing", "Solver"], "Continuation"]


#: The same decisions, elsewhere: a plan with what its segments take under another instance's times and prices.
Retime = Callable[[Any, Any], "Plan"]


#: The plan's instance with what was measured, and a line for each change; UsageError without anything measured.
Calibrate = Callable[[Any, Any, "Standing"], tuple[Instance, tuple[str, ...]]]


class BuildFrontier(Protocol):
    """The trade-off of mixed plans."""

    def __call__(self, instance: Any, /, *, stopwatch: Stopwatch = ...) -> Frontier:  # noqa: ANN401 - the formulation's
        """Compute it at all limits at once; out of time, only what is known by then."""


#: The trade-off where plans cannot be mixed: every plan that no other beats in both the limit and the objective.
BuildPareto = Callable[[Any, SolveRequest], "ParetoFrontier"]


class Explain(Protocol):
    """Why a solution is what it is."""

    def __call__(
        self,
        instance: Any,  # noqa: ANN401 - the formulation's
        result: Result[Any],
        /,
        *,
        only: tuple[str, ...],
        time_limit_s: float | None,
        on_event: Listener | None,
    ) -> Explanation:
        """Compare every choice with its neighbours, alone and with everything else re-solved."""


#: The declarative model of an instance, an ``optplan.solvers.programs.statement.Statement``.
StateModel = Callable[[Any], Any]

#: The layered graph of an instance, as a directed graph of networkx.
DrawGraph = Callable[[Any], Any]

#: What becomes of a solution under sampled errors, which the formulation's ``estimate_errors`` makes.
AnalyseSensitivity = Callable[[Any, Any, Any, "SensitivityRequest"], "Sensitivity"]


class ListInstances(Protocol):
    """What a formulation is measured on."""

    def __call__(self, *, quick: bool) -> Sequence[Instance]:
        """List instances, small ones when it has to be quick."""
