"""What every formulation shows of its instances and results, and where that is written.

A formulation's presenter is the PRESENTER of ``optplan.reporting.<formulation>.presenter``; one without it is shown by
that of :mod:`optplan.reporting.presentation`. Where its frontier is a list of plans,
``optplan.reporting.<formulation>.words`` has the functions of :class:`PlanWords`; where it is a line,
``optplan.reporting.<formulation>.figures`` has ``draw_frontier``. Presenters draw and never solve: what has to
be solved for a report, such as the frontier that a plan lies on, comes from
``optplan.reporting.<formulation>.gathering``, by :func:`gather`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from optplan.errors import UsageError
from optplan.formulations import formulation_of

if TYPE_CHECKING:
    from optplan.contracts import Explanation, Instance, Result, Sensitivity, Solution, Verification

_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Others:
    """Results for other amounts of a limit, by amount, for readers of a report to try."""

    limit: str
    results: Sequence[tuple[float, Instance, Result[Solution]]]  #: By the amount, in the unit of the instance's field.
    exact: bool = False  #: Whether for any more, the plan for the next lesser amount is the best possible, proven.


@dataclass(frozen=True)
class Beside:
    """What a report shows beside the result, rivals in the order of their table."""

    rivals: Sequence[Result[Solution]] = ()
    background: Any = None  #: What :func:`gather` found; None to leave it out.
    verification: Verification | None = None
    verify_command: str = "optplan verify instance.json result.json"
    explanation: Explanation | None = None
    sensitivity: Sensitivity | None = None
    others: Others | None = None
    is_moved: bool = False  #: Whether only what follows a page's control is shown, which was moved to the result.


class PlanWords(Protocol):
    """How plans are put into words where they cannot be mixed, so that the frontier is a list of plans."""

    def name_plan(self, instance: Instance, solution: Solution) -> str:
        """Say in a few words what a plan decides."""

    def name_objective(self, instance: Instance) -> str:
        """Name what is made least or most, without its unit."""

    def format_limit(self, instance: Instance, amount: float, limit: str = "") -> str:
        """Write an amount of the frontier's limit with its unit; a name says which limit, where there are several."""

    def format_objective(self, instance: Instance, objective: float) -> str:
        """Write an objective with its unit."""


def gather(instance: Instance, result: Result[Solution], beside: Beside) -> Beside:
    """Solve what a result's report shows besides result and rivals, in some seconds; that may be nothing."""
    background = gather_background(instance, result, beside.rivals)
    gathering = find_module(formulation_of(instance).name, "gathering")
    find_others = getattr(gathering, "gather_others", None)
    others = None if find_others is None or result.solution is None else find_others(instance, background)
    return replace(beside, background=background, others=others)


def gather_background(instance: Instance, result: Result[Solution], rivals: Sequence[Result[Solution]] = ()) -> Any:  # noqa: ANN401 - the formulation's own
    """Solve what stands beside a result and its rivals; None where that is nothing."""
    gathering = find_module(formulation_of(instance).name, "gathering")
    return None if gathering is None else gathering.gather_background(instance, result, rivals)


def plan_words_of(instance: Instance) -> PlanWords:
    """Return the words for plans of an instance whose frontier is a list of plans."""
    return cast(
        PlanWords, find_module(formulation_of(instance).name, "words") or import_module(f"{__package__}.presentation")
    )


def require_kind(kind: type[_Kind], problem: str) -> Callable[[object], _Kind]:
    """Make what returns instances or solutions of a type, and refuses others, a ``{name!r}`` of ``{formulation!r}``."""

    def require(given: object) -> _Kind:
        if not isinstance(given, kind):
            asked = {field: getattr(given, field, "") for field in ("name", "formulation")}
            raise UsageError(problem.format(**asked))
        return given

    return require


def find_module(formulation: str, part: str) -> ModuleType | None:
    """Import a module from a formulation's room; None where there is no such module."""
    room = f"{__package__}.{formulation}"
    if find_spec(room) is None or find_spec(f"{room}.{part}") is None:
        return None
    return import_module(f"{room}.{part}")
