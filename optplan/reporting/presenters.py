"""What every formulation shows of its instances and results, and where that is written.

A formulation's presenter is the module ``optplan.reporting.<formulation>.presenter``, which has the functions of
:class:`Presenter`; one without it is shown by :mod:`optplan.reporting.plain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from optplan.contracts import Explanation, Instance, Result, Solution, Verification
from optplan.formulations import formulation_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType


class Presenter(Protocol):
    """What a terminal and a page show of one formulation's problems."""

    def present_instance(self, instance: Instance) -> list[RenderableType]:
        """Say what an instance asks for."""

    def present_result(self, instance: Instance, result: Result[Solution]) -> list[RenderableType]:
        """Say what was found, how good it is, and what to do."""

    def present_comparison(self, instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
        """Set the results of several solvers side by side, ours first."""

    def write_report(
        self,
        path: Path,
        instance: Instance,
        result: Result[Solution],
        *,
        rivals: Sequence[Result[Solution]],
        explanation: Explanation | None,
        verification: Verification | None,
        verify_command: str,
        overwrite: bool,
    ) -> None:
        """Write the HTML report of a result."""


class PlanPresenter(Presenter, Protocol):
    """What is shown too where plans cannot be mixed, so that the frontier is a list of plans."""

    def name_plan(self, instance: Instance, solution: Solution) -> str:
        """Say in a few words what a plan decides."""

    def format_limit(self, instance: Instance, amount: float, limit: str = "") -> str:
        """Write an amount of the frontier's limit with its unit; a name says which limit, where there are several."""

    def format_objective(self, instance: Instance, objective: float) -> str:
        """Write an objective with its unit."""

    def draw_plan(self, instance: Instance, result: Result[Solution]) -> Figure:
        """Draw a plan over time."""


def presenter_of(instance: Instance) -> Presenter:
    """Return what presents an instance and its results."""
    room = f"{__package__}.{formulation_of(instance).name}"
    own = find_spec(room) is not None and find_spec(f"{room}.presenter") is not None
    return cast(Presenter, import_module(f"{room}.presenter" if own else f"{__package__}.plain"))


def plan_presenter_of(instance: Instance) -> PlanPresenter:
    """Return what presents an instance whose frontier is a list of plans."""
    return cast(PlanPresenter, presenter_of(instance))
