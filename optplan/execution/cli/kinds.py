"""The kinds of plans that run, and of folders that there are: what each does is in a module of its name.

Each module follows plans (``follow``), goes on with a folder (``resume``), and tells of one: ``show``, ``build_page``,
``list_logs``, ``find_process`` and ``say_stopped``. What a kind cannot do it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.cli.outputs import Outputs
    from optplan.contracts.plan import Plan
    from optplan.reporting.pages import Page


class Kind(Protocol):
    """What a module of a kind has."""

    #: What a plan or a folder of the kind is of, in words.
    NAME: str
    #: What ends the process that keeps a folder, so that it stores everything first.
    SIGNAL: int
    #: Parameters of ``optplan run`` that it takes, of a plan and of a folder that is gone on with.
    OPTIONS: Sequence[str]
    RESUMED: Sequence[str]

    follow: Callable[[Plan, dict[str, Any], Outputs], int]
    resume: Callable[[Path, dict[str, Any], Outputs], int]
    show: Callable[[Path, Outputs], int]
    build_page: Callable[[Path], Page]
    list_logs: Callable[[Path], dict[str, Path]]
    find_process: Callable[[Path], int | None]
    say_stopped: Callable[[Path, int | None], tuple[str, bool]]


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
    from optplan.execution.journal import holds
    from optplan.execution.serving.store import is_begun

    if not folder.is_dir():
        raise UsageError(f"{folder}: no run is there; give the folder that --out named")
    if is_begun(folder):
        return _load("services")
    held = (name for key, name in (("watch", "fleets"), ("stream", "streams")) if holds(folder, key))
    return _load(next(held, "searches"))


def build_pages(folders: Sequence[Path]) -> Page:
    """Build the page of a folder, or of several runs of searches beside one another."""
    from optplan.execution.cli import searches

    if len(folders) > 1:
        return searches.compare_pages(folders)
    return kind_of_folder(folders[0]).build_page(folders[0])


def _load(name: str) -> Kind:
    return cast("Kind", import_module(f"optplan.execution.cli.{name}"))
