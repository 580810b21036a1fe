"""The kinds of plans that run, and of folders that there are; what each does is in a module of its own.

Each module follows plans (``follow``), goes on with a folder (``resume``), and reads one (``read``); what that comes to
is shown as text (``present``) and as a page (``build_page``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
    from optplan.reporting.pages import Page


class Told(NamedTuple):
    """How a run or a service stands: a record of its kind, and what its plan is for."""

    outcome: Any
    name: str = ""


class Kind(Protocol):
    """What the module of a kind has; that of services follows and resumes nothing."""

    #: What plans and folders of the kind are of, in words.
    NAME: str
    #: Parameters of ``optplan run`` that it takes, of a plan and of a folder that is gone on with.
    OPTIONS: Sequence[str]
    RESUMED: Sequence[str]

    follow: Callable[[Plan, dict[str, Any], Path | None], Told]
    resume: Callable[[Path, dict[str, Any], Path | None], Told]
    read: Callable[[Path], Told]
    present: Callable[[Any], list[Shown]]
    build_page: Callable[[Told], Page]
    list_logs: Callable[[Path], dict[str, Path]]
    stop: Callable[[Path, int | None], tuple[str, bool]]


def kind_of_plan(plan: Plan, options: dict[str, Any]) -> Kind:
    """Return the kind of a plan: of a stream of jobs, of a fleet, or else of a search or a job.

    A plan of Srift is one of a fleet, whose ranks report by heartbeats; given what to train in processes of ours, it is
    one job.
    """
    from optplan.contracts.plan import UnitKind
    from optplan.formulations.srift.planning import SriftPlan

    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        return _load("streams")
    return _load("fleets" if isinstance(plan, SriftPlan) and "train" not in options else "searches")


def kind_of_folder(folder: Path) -> Kind:
    """Return the kind of what is in a folder.

    Raises
    ------
    UsageError
        When nothing is there.
    """
    from optplan.execution.journal import read_kind
    from optplan.execution.serving.store import is_begun

    if not folder.is_dir():
        raise UsageError(f"{folder}: no run is there; give the folder that --out named")
    if is_begun(folder):
        return _load("services")
    return _load({"fleet": "fleets", "stream": "streams", "search": "searches"}[read_kind(folder)])


def find_process(folder: Path) -> int | None:
    """Return the process that follows the run or is the service in a folder; None where there is none."""
    from optplan.execution.locks import find_holder
    from optplan.execution.serving.store import find_publisher, is_begun

    return find_publisher(folder) if is_begun(folder) else find_holder(folder)


def _load(name: str) -> Kind:
    return cast("Kind", import_module(f"optplan.execution.cli.{name}"))
