"""What a solver is asked, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from optplan.contracts.instance import Solution
from optplan.contracts.proofs import BoundProof, Certificate, Infeasibility, ShadowPrice
from optplan.progress import Stopwatch

if TYPE_CHECKING:
    from optplan.contracts.result import Result

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
