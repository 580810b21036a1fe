"""The kinds of plans that run, and of folders that there are, as the command line knows them.

A kind of runs says what options it takes beyond those of its record, how one begins, how what happens is told, and
what became of it (:class:`RunKind`, a subclass in a module of its own each). All else is the same for all.
"""

from __future__ import annotations

import math
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from optplan.errors import UnsupportedError, UsageError
from optplan.execution.journal import COUNT

if TYPE_CHECKING:
    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.history import History
    from optplan.execution.journal import Kind
    from optplan.execution.runs import Listener, Outcome
    from optplan.reporting.faces import Face
    from optplan.reporting.pages import Card, Page, Section
    from optplan.reporting.style import Figure

#: By kind of what a folder holds, who knows it.
_KINDS = {
    "search": "optplan.execution.cli.searches:KIND",
    "stream": "optplan.execution.cli.streams:KIND",
    "fleet": "optplan.execution.cli.fleets:KIND",
    "service": "optplan.execution.cli.services",
    "export": "optplan.execution.cli.exported",
}
#: Lines at the end of what is shown of a run, on the whole of it, that are kept where that is cut.
_LAST_LINES = 13
#: Parameters of `optplan run` that fill the field ``terms``.
_TERMS = frozenset({"every_s", "window_h", "hold_budget"})
#: By status, how a run stands whose exit code says nothing worse: in a word, and how good it is.
_BADGES = {"ended": ("done", "good"), "paused": ("paused", "fair"), "running": ("running", "fair")}


class Account(NamedTuple):
    """What became of a run, whatever its kind, from which come both what a terminal shows and its page."""

    title: str
    clock: str  #: What is said first of a run on a virtual clock; empty for one that was measured.
    cards: Sequence[Card]  #: Main figures, on a terminal the first facts.
    facts: Sequence[tuple[str, str]]  #: Besides these, and its status.
    sections: Sequence[Section]  #: Of its page; their tables are shown on a terminal, too.
    heading: str = ""  #: Of the facts on its page; empty where the sections say them.


class Told(NamedTuple):
    """How a run or a service stands: a record of its kind, and what its plan is for."""

    outcome: Any
    name: str = ""
    history: History | None = None  #: How a run went; None where nobody asked.
    torn: str = ""  #: What is wrong with its journal.

    def tell_history(self, *own: Section) -> list[Section]:
        """Tell how a run went, where that is known, with sections of its kind's own before what happened."""
        from optplan.execution.cli.run_page import tell_history

        return [*own] if self.history is None else tell_history(self.history, own)


class RunKind(ABC):
    """Runs of a kind: followed, gone on with, looked at and stopped."""

    KIND: ClassVar[Kind]
    NAME: ClassVar[str]
    #: What is said of one whose exit code is 1.
    FAILED: ClassVar[str] = "failed"
    #: Parameters of ``optplan run PLAN`` that fill no field of its options.
    OWN: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> Any:  # noqa: ANN401
        """Follow a plan to its end, with what was given for its own parameters, and for the fields of its options."""

    def view(self, *_: Any, **__: Any) -> RunView:  # noqa: ANN401 - of a plan, its options, and a run that goes on
        """Return what says what happens in a run that begins or goes on."""
        from optplan.execution.cli.run_view import RunView

        return RunView(self.KIND)

    @abstractmethod
    def tell(self, outcome: Any) -> Account:  # noqa: ANN401 - of its kind
        """Tell what became of a run."""

    def present(self, outcome: Outcome) -> list[Shown]:
        """Show what became of a run."""
        from optplan.reporting.tables import Table, fact_table

        account = self.tell(outcome)
        shown: list[Shown] = [account.clock] if account.clock else []
        for table in (block for section in account.sections for block in section.blocks if isinstance(block, Table)):
            shown += [table, ""]
        main = [(card.name, f"{card.value} ({card.note})" if card.note else card.value) for card in account.cards]
        return [*shown, fact_table([_state(outcome), *main, *account.facts])]

    def build_page(self, told: Told) -> Page:
        """Build the page of a run."""
        from optplan.reporting.pages import Definitions, Page, Section

        outcome, account = told.outcome, self.tell(told.outcome)
        own, facts = [*account.sections], Definitions([_state(outcome), *account.facts])
        if account.heading:
            own.append(Section("facts", account.heading, [facts]))
        odd_ends = {1: (self.FAILED, "bad"), 3: ("infeasible", "bad")}
        badge = odd_ends.get(outcome.code, _BADGES[outcome.status])
        lead = "; ".join(filter(None, (account.clock, outcome.why)))
        warnings = [f"{told.torn}. What follows is what can still be read."] if told.torn else []
        window = f"{'virtual ' if outcome.virtual else ''}run of {told.name or 'a plan'}"
        page = Page(told.name, account.title, lead, *badge, warnings, account.cards, told.tell_history(*own))
        return page._replace(window_title=window)

    def draw(self, outcome: Any) -> Figure:  # noqa: ANN401 - of its kind
        """Draw what became of a run, where that alone says enough."""
        raise UnsupportedError(f"there is no picture of the run of a {outcome.kind}")

    @property
    def OPTIONS(self) -> frozenset[str]:  # noqa: N802 - as modules have it
        """Parameters of ``optplan run PLAN`` that it takes."""
        return self._list_parameters() | self.OWN | {"out", "events", "report"}

    @property
    def RESUMED(self) -> frozenset[str]:  # noqa: N802 - as modules have it
        """Parameters of ``optplan run --resume`` that it takes."""
        return self._list_parameters() | {"abort", "events", "report"}

    def follow(self, plan: Plan, given: dict[str, Any], events: Path | None, *, seen: bool = False) -> Told:
        """Follow a plan to its end, and write what happens into a file; with ``seen``, say how it went for a page."""
        from optplan.execution.cli.run_view import listening

        own = {name: given.pop(name) for name in (*self.OWN, "out") if name in given}
        fields = _fill(given, plan)
        with ExitStack() as held:
            if seen and fields.get("executor", "virtual") == "virtual" and "out" not in own:
                own["out"] = Path(held.enter_context(TemporaryDirectory()))
            out = own.get("out")
            with listening(events, self.view(plan, fields)) as listener:
                outcome = self.begin(plan, own, listener, fields)
            return self.look(out) if seen and out is not None else Told(outcome, plan.instance_name)

    def resume(self, folder: Path, given: dict[str, Any], events: Path | None) -> Told:
        """Go on with the run in a folder, as :meth:`follow` does."""
        from optplan.execution.cli.run_view import listening
        from optplan.execution.runs import read_run, resume

        run, abort = read_run(folder), given.pop("abort", False)
        fields = _fill(given, run.plan)
        if "terms" in fields:  # each is an option of its own, and the others stay
            fields["terms"] = run.options.terms.to_json_data() | fields["terms"]
        with listening(events, self.view(run.plan, fields, run)) as listener:
            return Told(resume(folder, abort=abort, listener=listener, **fields), run.plan.instance_name)

    def read(self, folder: Path) -> Told:
        """Read how the run in a folder stands."""
        from optplan.execution.runs import read_run

        run = read_run(folder)
        return Told(run.describe(), run.plan.instance_name)

    def look(self, folder: Path) -> Told:
        """Read how the run in a folder went, for its page: of a damaged journal, what can be read."""
        from optplan.execution.history import gather
        from optplan.execution.journal import Journal
        from optplan.execution.runs import open_run

        with Journal(folder, writable=False, salvaged=True) as journal:
            run = open_run(journal, self.KIND)
            history = gather(run, run.past, self.view(run.plan, run.options.to_json_data()))
            return Told(run.describe(), run.plan.instance_name, history, journal.torn)

    def stamp(self, folder: Path) -> str:
        """Return what changes whenever a record is written."""
        count = folder / COUNT
        return count.read_text("ascii", "replace") if count.is_file() else ""

    def say_follower(self, told: Told, folder: Path, process: int | None) -> str:
        """Say who follows a run, and what to do where nobody does."""
        if process is not None:
            return f"followed by process {process}"
        if told.outcome.status == "ended":
            return "it has ended"
        return f"nobody follows it{name_held(told.outcome, folder)}; `optplan run --resume {folder}` goes on"

    def list_logs(self, folder: Path) -> dict[str, Path]:
        """Return what trials, jobs and the ranks of fleets wrote, by their names, and what the user's command said."""
        written = {path.parent.name: path for path in sorted(folder.glob("trials/*/output.log"))}
        commands = folder / "commands.log"
        return written | ({"commands": commands} if commands.is_file() else {})

    def stop(self, folder: Path, process: int | None) -> tuple[str, bool]:
        """Ask the process that follows a run to pause; say so, and whether nothing runs on unasked."""
        if process is not None:
            os.kill(process, signal.SIGINT)
            return f"asked process {process} to pause", True
        outcome = self.read(folder).outcome
        if outcome.status == "running":
            gone = f"{folder}: whoever followed it is gone; what it has started stores its state and ends by itself"
            held = name_held(outcome, folder)
            return f"{gone} (--orphan-after), and `optplan run --resume {folder}` goes on{held}", False
        return f"{folder}: nobody follows it; it {'has ended' if outcome.status == 'ended' else 'is paused'}", True

    def _list_parameters(self) -> frozenset[str]:
        from optplan.execution.runs import type_of

        fields = type_of(self.KIND).options_type.model_fields.keys()
        return fields | _TERMS if "terms" in fields else frozenset(fields)


def face_of(outcome: Outcome) -> Face:
    """Show what became of a run as commands do, with the picture of its kind."""
    from optplan.reporting.faces import Face

    kind = _run_kind(outcome.kind)
    return Face(kind.present(outcome), lambda: kind.draw(outcome), f"run of a {outcome.kind}", last=_LAST_LINES)


def kind_of_plan(plan: Plan, options: dict[str, Any]) -> RunKind:
    """Return the kind of a plan: of a stream of jobs, of a fleet, or else of a search or a job.

    A plan of Srift is one of a fleet, whose ranks report by heartbeats; given what to train in processes of ours, it is
    one job.
    """
    from optplan.contracts.plan import UnitKind
    from optplan.formulations.srift.planning import SriftPlan

    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        return _run_kind("stream")
    return _run_kind("fleet" if isinstance(plan, SriftPlan) and "train" not in options else "search")


def kind_of_folder(folder: Path) -> Any:  # noqa: ANN401 - as the table has it
    """Return the kind of what is in a folder: of a run, or the module of services or exports, with the same names."""
    from optplan.execution.exports.folder import MANIFEST
    from optplan.execution.journal import read_kind
    from optplan.execution.serving.store import is_begun

    if not folder.is_dir():
        raise UsageError(f"{folder}: no run is there; give the folder that --out named")
    if (folder / MANIFEST).is_file():
        return resolve_name(_KINDS["export"])
    return resolve_name(_KINDS["service" if is_begun(folder) else read_kind(folder)])


def _state(outcome: Outcome) -> tuple[str, str]:
    return "status", outcome.status + (f": {outcome.why}" if outcome.why else "")


def name_held(outcome: Outcome, folder: Path) -> str:
    """Say which nodes a run holds that nobody follows, and how they are given back; on a virtual clock there are none.

    It is the end of a sentence, or empty.
    """
    if not outcome.held or outcome.virtual:
        return ""
    return f"; nodes that are still held: {', '.join(outcome.held)} (--resume {folder} --abort gives them back)"


def _run_kind(name: str) -> RunKind:
    found: RunKind = resolve_name(_KINDS[name])
    return found


def _fill(given: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the fields of options that parameters fill."""
    fields = dict(given)
    if fields.get("replan_above") == math.inf:
        fields["replan_above"] = None
    if "sbatch" in fields:
        fields["sbatch"] = dict(fields["sbatch"])
    if "gpus_per_node" in fields:
        fields["gpus_per_node"] = dict.fromkeys(plan.resources, fields["gpus_per_node"])
    terms = {name: fields.pop(name) for name in _TERMS & fields.keys()}
    if "every_s" in terms:
        terms["settle_s"] = min(5.0, terms["every_s"] / 4.0)
    return fields | ({"terms": terms} if terms else {})
