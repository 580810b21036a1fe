"""What each part of a formulation is called with and returns: one protocol a part, and how a part is found on use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from optplan.contracts.explanation import Explanation
from optplan.contracts.frontier import Frontier
from optplan.contracts.instance import Instance
from optplan.contracts.judgement import Evaluation, PathCosts
from optplan.contracts.pareto import ParetoFrontier
from optplan.contracts.plan import Plan
from optplan.contracts.result import Answer, BoundProof, Result, SolveRequest, TreeCertificate
from optplan.contracts.sensitivity import Sensitivity, SensitivityRequest
from optplan.contracts.standing import Continuation, Solver, Standing
from optplan.errors import UnsupportedError
from optplan.progress import Listener, Stopwatch
from optplan.schema import FloatArray

PartT = TypeVar("PartT")


def load(target: str) -> Any:  # noqa: ANN401 - the declared attribute may be anything
    """Import ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


class Part(Generic[PartT]):
    """A field that is given as ``module:attribute`` and read as what stands there, loaded on use.

    Parameters
    ----------
    words
        What users know the part as.

    Raises
    ------
    UnsupportedError
        On reading, when nothing was given.
    """

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
            message = f"formulation {fields['name']!r} has no {self._words or self._name}"
            raise UnsupportedError(message)
        return cast(PartT, load(fields[self._name]))

    def __set__(self, declared: object, target: str) -> None:
        vars(declared)[self._name] = target


@dataclass(frozen=True)
class Description:
    """What solvers are matched against, in the formulation's own words.

    Parameters
    ----------
    problem, policy
        Which of its problems the instance asks, and for what kind of plan.
    cells
        Size of the instance, in the formulation's count of choices.
    features
        What the instance needs beyond the plainest ones.
    """

    problem: str
    policy: str
    cells: int
    features: frozenset[str] = frozenset()


class Solve(Protocol):
    """A solver."""

    def __call__(self, instance: Any, request: SolveRequest, /) -> Answer[Any]:  # noqa: ANN401 - the formulation's
        """Look for the best solution until it is proven or the time is over.

        What a solver's own text adds is what its answer is worth, and what it raises besides.

        Parameters
        ----------
        instance
            One that the solver's entry takes, with its limits.
        request
            Gap, time limit, seed and listener; a solver looks at those that mean anything to it.

        Returns
        -------
        Answer
            With a bound only where something proves it.

        Raises
        ------
        UsageError
            When a limit that the problem needs is missing.
        """


class Supports(Protocol):
    """Beside a solver: whether it takes an instance, where its entry alone cannot tell."""

    def __call__(self, instance: Any, /) -> str:  # noqa: ANN401 - the formulation's
        """Say why it does not take the instance; empty when it does."""


class Evaluate(Protocol):
    """The independent judge."""

    def __call__(self, instance: Any, solution: Any, /) -> Evaluation:  # noqa: ANN401 - the formulation's
        """Recompute objective, consumption and every constraint from the decisions alone."""


class ForecastDemand(Protocol):
    """The solvers' forecast of how much is in use at once."""

    def __call__(self, instance: Any, solution: Any, over: Sequence[float] = (), /) -> dict[str, float]:  # noqa: ANN401
        """Return figures by name, with the shares of the time in which more than some numbers are in use."""


class JudgeDemand(Protocol):
    """The judge of such figures."""

    def __call__(self, instance: Any, solution: Any, figures: list[str], /) -> dict[str, float]:  # noqa: ANN401
        """Compute the figures of these names from the decisions alone; leave out what there is not."""


class Describe(Protocol):
    """What solvers are matched against."""

    def __call__(self, instance: Any, /) -> Description:  # noqa: ANN401 - the formulation's
        """Say what an instance asks for, and how large it is."""


class ListProofs(Protocol):
    """What proves anything about an instance, by its problem, policy and objective."""

    def __call__(self, instance: Any, /) -> frozenset[BoundProof]:  # noqa: ANN401 - the formulation's
        """List the kinds of certificate that do; the judge refuses all others."""


class CheckTree(Protocol):
    """The judge of :class:`~optplan.contracts.TreeCertificate`."""

    def __call__(self, instance: Any, certificate: TreeCertificate, stopwatch: Stopwatch, /) -> None:  # noqa: ANN401
        """Check that the certificate proves its claim, whatever its content is.

        Raises
        ------
        RefutedError
            When it does not.
        OutOfTime
            When the stopwatch expires, which every long loop looks at.
        """


class DualBound(Protocol):
    """Re-derives a Lagrangian bound, written apart from solvers."""

    def __call__(self, instance: Any, multipliers: dict[str, float], /) -> float:  # noqa: ANN401
        """Return the dual function at multipliers of all limits, in objective units."""


class ListPathCosts(Protocol):
    """What enumerated certificates are checked against, where plans are sums of paths."""

    def __call__(self, instance: Any, /) -> list[PathCosts]:  # noqa: ANN401 - the formulation's
        """Return what every step of every graph costs."""


class LeastWithin(Protocol):
    """What enumerated certificates are checked against, where plans are no sums of paths."""

    def __call__(
        self,
        instance: Any,  # noqa: ANN401 - the formulation's
        multipliers: dict[str, float],
        allowance: float,
        stopwatch: Stopwatch,
        /,
    ) -> float:
        """Return the least objective of the plans that keep the limits within the allowance of the dual bound."""


class LeastConsumption(Protocol):
    """What proves that limits cannot be kept."""

    def __call__(self, instance: Any, weights: FloatArray, /) -> dict[str, float]:  # noqa: ANN401
        """Return by part the least consumption, weighted (L,), of any plan."""


class BuildPlan(Protocol):
    """From a solution to a plan."""

    def __call__(self, instance: Any, result: Result[Any], /, *, explanation: Explanation | None) -> Plan:  # noqa: ANN401
        """Turn a result with a solution into actions that an executor can run.

        Parameters
        ----------
        instance, result
            The problem, and its result.
        explanation
            Of the result, where the formulation has explanations; becomes the plan's reasons.

        Raises
        ------
        UsageError
            When the result has no solution.
        """


class ContinuePlan(Protocol):
    """From a run that has not gone as planned to a plan for the rest."""

    def __call__(self, instance: Any, plan: Any, standing: Standing, solve: Solver, /) -> Continuation:  # noqa: ANN401
        """Plan the rest with what is left, from an instance that says what was measured.

        Raises
        ------
        UnsupportedError
            When the rest is no instance of the formulation.
        """


class Retime(Protocol):
    """The same decisions, elsewhere."""

    def __call__(self, instance: Any, plan: Any, /) -> Plan:  # noqa: ANN401 - the formulation's
        """Return the plan with what its segments take under another instance's times and prices."""


class Calibrate(Protocol):
    """From an instance and what was measured to an instance that says so."""

    def __call__(self, instance: Any, plan: Any, standing: Standing, /) -> tuple[Instance, tuple[str, ...]]:  # noqa: ANN401
        """Return the instance with what was measured in place of what it said, and a line for each change.

        Parameters
        ----------
        instance, plan
            What the plan was made from, and the plan that was followed.
        standing
            What was measured.

        Raises
        ------
        UsageError
            When nothing was measured.
        """


class BuildFrontier(Protocol):
    """The trade-off of mixed plans."""

    def __call__(self, instance: Any, /, *, stopwatch: Stopwatch = ...) -> Frontier:  # noqa: ANN401 - the formulation's
        """Compute it at all limits at once; out of time, only what is known by then."""


class BuildPareto(Protocol):
    """The trade-off where plans cannot be mixed."""

    def __call__(self, instance: Any, request: SolveRequest, /) -> ParetoFrontier:  # noqa: ANN401
        """Find every plan that no other beats in both the limit and the objective."""


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
        """Hold every choice against its neighbours, alone and with everything else re-solved."""


class AnalyseSensitivity(Protocol):
    """What becomes of a solution when the estimates are wrong."""

    def __call__(self, instance: Any, solution: Any, errors: Any, request: SensitivityRequest, /) -> Sensitivity:  # noqa: ANN401
        """Run it under sampled errors, of the formulation's ``estimate_errors``."""


class ListInstances(Protocol):
    """What a formulation is measured on."""

    def __call__(self, *, quick: bool) -> Sequence[Instance]:
        """List instances, small ones when it has to be quick."""
