"""A run of a plan, whatever its kind: how it begins in a folder, is read, gone on with, followed and described.

What a kind has of its own is in its heir of :class:`Run`: its state, its driver, its executor, and how it is described.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any, ClassVar, Generic, Literal, TypeVar

from optplan.contracts.faces import Shown
from optplan.contracts.plan import Plan
from optplan.errors import UsageError
from optplan.execution.folders import FolderSettings, make_executor
from optplan.execution.journal import Beginning, Journal, Kind
from optplan.execution.options import RunOptions
from optplan.execution.protocol import Executor
from optplan.execution.records import Record, Resumed
from optplan.execution.state import RunState
from optplan.execution.trainables import name_trainable
from optplan.schema import FrozenModel

#: What asks a run to pause, and what is added to its number for the exit code.
_SIGNALS, _EXIT_OFFSET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), 128
#: By kind, its runs, and the loop that follows them.
_TYPES: Mapping[Kind, tuple[str, str]] = {
    "search": ("optplan.execution.running:SearchRun", "optplan.execution.driver:Driver"),
    "stream": ("optplan.execution.streams.running:StreamRun", "optplan.execution.streams.driver:StreamDriver"),
    "fleet": ("optplan.execution.fleets.running:FleetRun", "optplan.execution.fleets.monitor:Monitor"),
}
Listener = Callable[[Record], None]


class Outcome(Shown, FrozenModel):
    """What a run of any kind came to, as far as it went."""

    SHOWN_BY: ClassVar[str] = "optplan.execution.cli.kinds:face_of"
    kind: ClassVar[Kind]  #: What runs.

    #: Whether it ran on a virtual clock: then times and costs are calculated, and none is measured.
    virtual: bool = False
    status: Literal["ended", "paused", "running"]  #: ``ended``, ``paused`` (it can be resumed) or ``running``.
    #: Exit code: 0 done, 1 every trial failed, none has reported a number, a job was given up or the whole run, 3 the
    #: rest has become infeasible, 4 stopped at a limit, 130 interrupted.
    code: int
    why: str = ""  #: Why it is paused, or ended before its end.
    time_s: float  #: Until it ended, or until its last record.
    notes: tuple[str, ...] = ()  #: What a reader should know.
    held: tuple[str, ...] = ()  #: Nodes that are held, or not given back yet.


_Plan = TypeVar("_Plan", bound=Plan)
_Options = TypeVar("_Options", bound=RunOptions)
_State = TypeVar("_State", bound=RunState)
_Outcome = TypeVar("_Outcome", bound=Outcome)


class Run(ABC, Generic[_Plan, _Options, _State, _Outcome]):
    """A run, in its folder or in none; ``own`` is what its kind has besides plan and options, as plain data."""

    kind: ClassVar[Kind]
    options_type: type[_Options]
    #: Whether its clock stands still while it is paused.
    rests: ClassVar[bool] = True

    def __init__(self, plan: _Plan, options: _Options, own: Mapping[str, Any] | None = None) -> None:
        self.plan, self.options, self.own = plan, options, dict(own or {})
        self.journal: Journal | None = None
        #: What was written down before it is followed.
        self.past: list[Record] = []
        self._understand()
        self.state = self.make_state()

    # ---------------------------------------------------------------------------------------------- what its heirs say

    def _understand(self) -> None:
        """Read what its kind has besides."""

    @abstractmethod
    def make_state(self) -> _State:
        """Return the state before the first record."""

    def require(self) -> None:
        """Raise UsageError or DataError where plan and options do not fit together."""
        self.options.require_effect()

    @abstractmethod
    def _make_executor(self) -> Executor:
        """Return what it runs on."""

    @abstractmethod
    def describe(self) -> _Outcome:
        """Say how it stands."""

    def _describe_end(self) -> dict[str, Any]:
        """Return the fields that outcomes of all kinds have."""
        state, end = self.state, self.state.end
        code, why = (0, "") if end is None else (end.code, end.why)
        status = "ended" if state.ended else "paused" if state.paused else "running"
        ended = {"status": status, "code": code, "why": why, "time_s": state.t}
        held = tuple(node.name for node in state.held_nodes())
        return {"virtual": self.options.is_virtual, **ended, "notes": tuple(state.notes), "held": held}

    # ------------------------------------------------------------------------------------------ beginning and going on

    def begin(self, out: Path | str | None, listener: Listener | None, first: Sequence[Record] = ()) -> _Outcome:
        """Write down what it is made from and its first records, and follow it; without a folder, write nothing."""
        if out is None and self.options.executor != "virtual":
            raise UsageError("out: a folder is needed for what trials, jobs and ranks write")
        with nullcontext() if out is None else Journal(Path(out)) as self.journal:
            if self.journal is not None:
                if self.journal.beginning is not None:
                    followed = self.journal.beginning.plan["plan_id"]
                    there = f"holds the run of another plan ({followed[:12]}...); give another folder"
                    if followed == self.plan.plan_id:
                        there = f"a run of this plan is there; go on with --resume {out}, or give another folder"
                    raise UsageError(f"{out}: {there}")
                made_from = (self.plan.to_json_data(), self.options.to_json_data(), self.own)
                self.journal.begin(Beginning(self.kind, *made_from), first)
            self.restore(first)
            for record in first:
                tell(listener, record)
            return self._follow(listener, lambda driver: driver.follow())

    def restore(self, records: Sequence[Record]) -> None:
        """Bring the state to where records leave it."""
        self.past += records
        for record in records:
            self.state.apply(record)

    def go_on(self, changes: Mapping[str, Any], listener: Listener | None, *, abort: bool = False) -> _Outcome:
        """Go on where another driver left it, or give up."""
        for name in sorted(changes.keys() & self.options.FIXED):
            raise UsageError(f"{name}: a run keeps what it began with; leave it out, or begin anew in another folder")
        if self.state.ended is not None:  # nothing is followed any more, so that nothing changes what it was
            return self.describe()
        self.options = self.options.replace(**changes)
        self.require()
        known = self.options.to_json_data()
        changed = {name: known.get(name) for name in changes}  # what is None is left out there

        def go_on(driver: Any) -> object:  # noqa: ANN401 - the loop of its kind
            driver.resume(changed, starts=not abort)
            return driver.abort() if abort else driver.follow()

        return self._follow(listener, go_on)

    def _follow(self, listener: Listener | None, follow: Callable[[Any], object]) -> _Outcome:
        with ExitStack() as self._held:
            executor = self._make_executor()
            self._held.callback(executor.close)
            driver = resolve_name(_TYPES[self.kind][1])(self, executor, listener)
            with interruptible(driver.interrupt, driver.leave):
                follow(driver)
        return self.describe()

    # ------------------------------------------------------------------------------------------- for what starts things

    @property
    def metric(self) -> str:
        """What is shown after each iteration, by name; empty where the first number counts."""
        return getattr(self.options, "metric", None) or ""

    def _make_real(self, gpus_per_node: Mapping[str, int], *, fleet: bool = False, **own: Any) -> Executor:  # noqa: ANN401
        """Make an executor that starts processes, with settings of its own; parameters as :func:`make_executor` has."""
        assert self.journal is not None  # without a folder nothing is started
        names = FolderSettings.model_fields.keys() & self.options_type.model_fields.keys()
        chosen = {name: getattr(self.options, name) for name in names}
        settings = FolderSettings(**{"root": self.journal.folder, **chosen, **own})
        # Where a driver was killed, time went on, by a clock that may be set back.
        goes_on = self.state.nodes and not (self.rests and self.state.paused)
        now_s = self.state.t + (self.journal.idle_s() if goes_on else 0.0)
        return make_executor(self.options.executor, gpus_per_node, settings, now_s=now_s, fleet=fleet)


def resume(
    out: Path | str,
    *,
    abort: bool = False,
    listener: Listener | None = None,
    **changes: Any,  # noqa: ANN401 - fields of the options
) -> Any:  # noqa: ANN401 - the outcome of its kind
    """Go on with a run of any kind that was paused, or whose driver is gone.

    Parameters
    ----------
    out
        Its folder.
    abort
        Whether to give up: what runs is stopped, everything is given back, and the run has ended.
    listener
        Is told of every record from now on.
    **changes
        Options that are others from now on, such as ``budget_usd``, ``deadline_s``, ``retries``, ``slots``.

    Returns
    -------
    RunOutcome, StreamOutcome or FleetOutcome
        By its kind; also when it is paused again.

    Raises
    ------
    UsageError
        When no run is there, another driver follows it, or an option means nothing to its executor or cannot change.
    DataError
        When its journal is damaged.
    """
    Journal(Path(out), writable=False).close()  # looks whether there is a run, and touches nothing
    with Journal(Path(out)) as journal:
        return open_run(journal).go_on(changes, listener, abort=abort)


def read_run(out: Path | str, kind: Kind | None = None) -> Run[Any, Any, Any, Any]:
    """Read a run from its journal, whether or not a driver follows it: of any kind, or of one.

    Raises
    ------
    UsageError
        When no run is there, or one of another kind.
    DataError
        When its journal is damaged.
    """
    with Journal(Path(out), writable=False) as journal:
        return open_run(journal, kind)


def open_run(journal: Journal, kind: Kind | None = None) -> Run[Any, Any, Any, Any]:
    """Read a run from its journal; as :func:`read_run`."""
    from optplan.instances.parsing import parse_plan

    beginning, records = journal.require(kind), list(journal.replay())
    runs, options = type_of(beginning.kind), dict(beginning.options)
    for record in records:
        if isinstance(record, Resumed):
            options |= record.options
    plan = parse_plan(beginning.plan, path="plan")
    run = runs(plan, runs.options_type.parse(options, path="options"), beginning.own)
    run.journal = journal
    run.restore(records)
    return run


def type_of(kind: Kind) -> type[Run[Any, Any, Any, Any]]:
    """Return what runs of a kind are."""
    found: type[Run[Any, Any, Any, Any]] = resolve_name(_TYPES[kind][0])
    return found


def name_training(options: dict[str, Any], trainable: object) -> dict[str, Any]:
    """Return options with what is trained by name, and the folder that it is looked for in as it is from anywhere."""
    if trainable is not None:
        options["train"] = trainable if isinstance(trainable, str) else name_trainable(trainable)
    if options.get("train"):
        options["folder"] = str(Path(options.get("folder", ".")).resolve())
    return options


@contextmanager
def interruptible(interrupt: Callable[[int], None], leave: Callable[[], None] | None = None) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request to pause, with the exit code that is due; a second one ends it.

    The loop stores everything; ``leave`` is called when it is ended at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = [number for number in range(3) if os.isatty(number)]
    asked = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if number == signal.SIGHUP:  # nobody reads there any more, and writing would fail
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        if asked:
            raise KeyboardInterrupt(_EXIT_OFFSET + number)
        asked = True
        interrupt(_EXIT_OFFSET + number)

    nowhere = os.open(os.devnull, os.O_RDWR)
    # Who has started this process so that it survives a hang-up, as nohup does, means it.
    heeded = [each for each in _SIGNALS if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, handle) for each in heeded}
    try:
        yield
    except KeyboardInterrupt:
        if leave is not None:
            leave()
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(nowhere)


def tell(listener: Listener | None, what: Record) -> None:
    """Tell a listener; that nobody reads what it writes any more, as of a terminal that was closed, ends nothing."""
    try:
        if listener is not None:
            listener(what)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EPIPE):
            raise
