"""The kinds of plans that run, and of folders that there are, as the command line knows them.

A kind of runs says what options it takes beyond those of its record, how one begins, how what happens is told, and
what became of it (:class:`RunKind`, a subclass in a module of its own each). All else is the same for all, also what is
shown while a plan is followed: a line for what is worth one, and of searches on a terminal one line that changes.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO

from optplan.cli.console import note
from optplan.errors import OutputError, UnsupportedError, UsageError, show_text
from optplan.execution import records as told
from optplan.execution.journal import COUNT
from optplan.units import format_duration

if TYPE_CHECKING:
    from rich.status import Status

    from optplan.cli.console import Shown
    from optplan.contracts.plan import Plan
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


#: What is said of records wherever there are such, and in fleets besides.
_SAID: dict[type[told.Record], str] = {
    told.OperationFailed: "{0.operation}: {0.why}",
    told.TrialDropped: "gave up {0.trial}: {0.why}",
    told.CheckpointWanted: "rank {0.rank} is asked for a checkpoint: {0.why}",
    told.TablePublished: "new widths: {0.why}",
    told.Replanned: "{0.why}",
    told.Noted: "{0.text}",
}
_OF_FLEETS = {
    told.OperationWanted: "{0.operation} is started on {1} VM{2}",
    told.OperationStarted: "{0.operation} is there and trains",
}


class RunView:
    """Says what happens in a run of a kind."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, record: told.Record) -> list[str]:
        """Return the lines that say what a record tells, where it is worth any."""
        text = self.say(record)
        return [f"[{format_duration(round(record.t, 1))}] {text}"] if text else []

    def say(self, record: told.Record) -> str:
        """Say in a line what has happened; empty for what readers need not know."""
        from optplan.reporting.phrases import format_amount, format_seconds

        match record:
            case told.OperationFailed(blameless=True) if self._kind == "fleet":
                return ""
            case told.NodeChanged(phase="lost"):
                return f"{record.node} is lost: {record.why}"
            case told.NodeChanged(phase="ready") if record.why:
                return f"{record.node} {record.why}: it is taken back"
            case told.NodeNoticed():
                return f"{record.node} will be taken back at {format_seconds(record.at_s)}"
            case told.Reported():
                return f"rank {record.rank} has stored {record.iterations or 0:,} iterations"
            case told.Resumed():
                given = ((name.partition("_")[0], record.options.get(name)) for name in ("deadline_s", "budget_usd"))
                limits = ", ".join(f"{name} {format_amount(name, each)}" for name, each in given if each is not None)
                return f"limits from now on: {limits}" if limits else ""
        said = _SAID | (_OF_FLEETS if self._kind == "fleet" else {})
        many = len(getattr(record, "place", ()))
        return said.get(type(record), "").format(record, many, "" if many == 1 else "s")

    def line(self, now_s: float) -> str:  # noqa: ARG002 - of a search there is more to say
        """Say on a terminal how far it is; empty where that is not told."""
        return ""


@contextmanager
def listening(events: Path | None, view: RunView) -> Iterator[Callable[[told.Record], None]]:
    """Make a listener that writes events into a file, where there is one, and notes what is said of them.

    On a terminal the last line of a search changes with every record.
    """
    with ExitStack() as held:
        file = None if events is None else held.enter_context(_open_events(events))
        status: Status | None = None
        if sys.stderr.isatty() and view.line(0.0):
            from rich.console import Console

            status = held.enter_context(Console(stderr=True).status("starting"))

        def listen(record: told.Record) -> None:
            if file is not None and not isinstance(record, told.MetricsShown):  # each was written when it came
                file.write(told.encode(record) + "\n")
                file.flush()
            for text in view(record):
                note(text)
            if status is not None:
                status.update(show_text(view.line(record.t)))

        yield listen


def _open_events(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"--events: {path} cannot be written ({error.strerror})") from None


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
        from optplan.execution.cli.run_page import tell_history
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
        page = Page(told.name, account.title, lead, *badge, warnings, account.cards, tell_history(told.history, own))
        return page._replace(window_title=window)

    def draw(self, outcome: Any) -> Figure:  # noqa: ANN401 - of its kind
        """Draw what became of a run, where that alone says enough."""
        raise UnsupportedError(f"there is no picture of the run of a {outcome.kind}")

    @property
    def OPTIONS(self) -> frozenset[str]:  # noqa: N802 - as modules have it
        """Parameters of ``optplan run PLAN`` that it takes."""
        return self.RESUMED - {"abort"} | self.OWN | {"out"}

    @property
    def RESUMED(self) -> frozenset[str]:  # noqa: N802 - as modules have it
        """Parameters of ``optplan run --resume`` that it takes."""
        from optplan.execution.runs import type_of

        fields = type_of(self.KIND).options_type.model_fields.keys()
        return frozenset({*fields, *(_TERMS if "terms" in fields else ()), "abort", "events", "report"})

    def follow(self, plan: Plan, given: dict[str, Any], events: Path | None) -> Any:  # noqa: ANN401 - of its kind
        """Follow a plan to its end, and write what happens into a file."""
        own = {name: given.pop(name) for name in (*self.OWN, "out") if name in given}
        fields = _fill(given, plan)
        with listening(events, self.view(plan, fields)) as listener:
            return self.begin(plan, own, listener, fields)

    def resume(self, folder: Path, given: dict[str, Any], events: Path | None) -> Any:  # noqa: ANN401 - of its kind
        """Go on with the run in a folder, as :meth:`follow` does."""
        from optplan.execution.runs import read_run, resume

        run, abort = read_run(folder), given.pop("abort", False)
        fields = _fill(given, run.plan)
        if "terms" in fields:  # each is an option of its own, and the others stay
            fields["terms"] = run.options.terms.to_json_data() | fields["terms"]
        with listening(events, self.view(run.plan, fields, run)) as listener:
            return resume(folder, abort=abort, listener=listener, **fields)

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
        if outcome.status == "running" and outcome.virtual:
            return f"{folder}: nobody follows it, and nothing runs; `optplan run --resume {folder}` goes on", True
        if outcome.status == "running":
            gone = f"{folder}: whoever followed it is gone; what still runs of it stores its state and ends by itself"
            held = name_held(outcome, folder)
            return f"{gone} (--orphan-after), and `optplan run --resume {folder}` goes on{held}", False
        return f"{folder}: nobody follows it; it {'has ended' if outcome.status == 'ended' else 'is paused'}", True


def face_of(outcome: Outcome) -> Face:
    """Show what became of a run as commands do, with the picture of its kind."""
    from optplan.reporting.faces import Face

    kind: RunKind = resolve_name(_KINDS[outcome.kind])
    return Face(kind.present(outcome), lambda: kind.draw(outcome), f"run of a {outcome.kind}", last=_LAST_LINES)


def kind_of_plan(plan: Plan, options: dict[str, Any]) -> RunKind:
    """Return the kind of a plan: of a stream of jobs, of a fleet, or else of a search or a job.

    A plan of Srift is one of a fleet, whose ranks report by heartbeats; given what to train in processes of ours, it is
    one job.
    """
    from optplan.contracts.plan import UnitKind
    from optplan.formulations.srift.planning import SriftPlan

    name = "fleet" if isinstance(plan, SriftPlan) and "train" not in options else "search"
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        name = "stream"
    kind: RunKind = resolve_name(_KINDS[name])
    return kind


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
    """Say which nodes a run may hold that nobody follows, and how they are given back; on a virtual clock none are.

    It is the end of a sentence, or empty. Whoever gives nodes back as nothing can be written any more leaves no record.
    """
    if not outcome.held or outcome.virtual:
        return ""
    return f"; nodes that may still be held: {', '.join(outcome.held)} (--resume {folder} --abort gives them back)"


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
