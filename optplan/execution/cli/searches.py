"""Runs of searches and single jobs: how they are begun, followed and told; what was planned beside what happened.

That is shown as tables, a picture and pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.contracts.modes import Mode
from optplan.execution import records as told
from optplan.execution.cli.kinds import Account, RunKind, RunView
from optplan.execution.options import Rules, SearchOptions
from optplan.execution.records import read_metric
from optplan.execution.running import RunOutcome, SegmentOutcome, Winner
from optplan.execution.running import run as run_search
from optplan.execution.standing import spent_usd
from optplan.execution.state import Phase, State
from optplan.reporting.pages import Card, Definitions, Page, Section
from optplan.reporting.phrases import NOTHING, format_seconds
from optplan.reporting.segments import draw_spans
from optplan.reporting.style import Figure
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import format_duration

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.runs import Listener, Run

#: Lines of a failed trial's output that are shown.
_TAIL_LINES = 12
_COLUMNS = (
    Column("segment"),
    Column(""),
    *numbers("trials", "time", "pause", "iteration", "cost"),
)


_COMPARED = (
    Column("run"),
    Column(""),
    *numbers("trials", "time", "cost", "best"),
)


class SearchView(RunView):
    """Says what happens in a search; what it hears is applied to the state that it is given, which is its own."""

    def __init__(self, state: State, rules: Rules) -> None:
        super().__init__("search")
        self._state = state
        self._rules = rules
        self._seen: dict[str, float] = {}

    def __call__(self, record: told.Record) -> list[str]:
        """Take note of a record or of progress, and return the lines that say what happened, where it is worth one."""
        if not isinstance(record, told.Progressed):
            self._state.apply(record)
        tail: list[str] = []
        match record:
            case told.Began() | told.Resumed() if self._rules.is_virtual:
                trained = "trials are trained at once" if self._rules.is_trained else "nothing is trained"
                return [f"virtual run: {trained}"]
            case told.Progressed() | told.OperationEnded():
                value = read_metric(record.metrics.get(self._rules.metric))
                if math.isfinite(value):
                    self._seen[record.operation.split(".")[-2]] = value
            case told.OperationFailed():
                tail = [f"    {line}" for line in record.tail.splitlines()[-_TAIL_LINES:]]
        return [*super().__call__(record), *tail]

    def say(self, record: told.Record) -> str:
        """Say what has happened, with the names of stages and the best trial, which their state knows."""
        match record:
            case told.SegmentOpened() if record.members:
                return self._name(record.segment)
            case told.SegmentEnded():
                best = record.ranking[0] if record.ranking else ""
                shown = f"; best: {best} ({self._rules.metric} {self._seen[best]:.6g})" if best in self._seen else ""
                return f"{record.segment} ended{shown}"
            case told.Paused():
                return f"paused: {record.why}"
            case _:
                return super().say(record)

    def _name(self, segment: str) -> str:
        return self._state.segments[segment].segment.label or segment

    def line(self, now_s: float) -> str:
        """Say what runs, how good it is, what it has taken, and how long it is expected to go on."""
        state = self._state
        going = [state.segments[name] for name in sorted(state.open)]
        parts = ["virtual run"] if self._rules.is_virtual else []
        parts += ["; ".join(self._name(each.segment.id) for each in going) or "waiting"]
        if any(each.began_s is None for each in going):
            ready = sum(node.phase is Phase.READY for node in state.nodes.values())
            parts.append(f"waiting for nodes ({ready} are ready)")
        alive = {t for each in going for t in each.members if not state.trials[t].why_dropped}
        if alive:
            parts.append(f"{len(alive):,} trial{'s' if len(alive) > 1 else ''}")
        if self._seen:
            best = (min if self._rules.mode is Mode.MIN else max)(self._seen, key=self._seen.__getitem__)
            parts.append(f"best {self._rules.metric} {self._seen[best]:.6g} ({best})")
        spent, planned = spent_usd(state, now_s), state.plan.totals().get("cost_usd")
        if spent is not None and planned is not None:
            parts.append(f"${spent:,.2f} of ${planned:,.2f}")
        return " | ".join([*parts, f"{format_duration(now_s)}, about {format_duration(self._left_s(now_s))} to go"])

    def _left_s(self, now_s: float) -> float:
        """Return how long the run goes on if what is open, and what comes after it, takes what is planned."""
        state = self._state
        going = [each for each in map(state.segments.__getitem__, state.open) if each.opened_s is not None]
        late_s = max(((each.opened_s or 0.0) - each.segment.expected.start_s for each in going), default=0.0)
        return max(0.0, max((each.end_s for each in state.plan.segments), default=0.0) + late_s - now_s)


class _Searches(RunKind):
    KIND = "search"
    NAME = "a search or of one job"
    OWN = frozenset({"space"})

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> RunOutcome:
        return run_search(plan, **own, listener=listener, **fields)

    def view(self, plan: Plan, options: dict[str, Any], run: Run[Any, Any, Any, Any] | None = None) -> SearchView:
        if run is not None:
            return SearchView(run.state, Rules.of(plan, run.options))
        return SearchView(State(plan), Rules.of(plan, SearchOptions(**options)))

    def tell(self, outcome: RunOutcome) -> Account:
        best, is_winner = outcome.winner or outcome.best, outcome.winner is not None
        won = _list_winner("winner" if is_winner else "best so far", best)
        title = "The search has no winner" if outcome.status == "ended" else "Nothing was trained yet"
        if best is not None:
            title = f"{'The winner is' if is_winner else 'Best so far:'} {best.trial} with {_metric(best)}"
            title += f" ({_list_configuration(best)})" if best.configuration else ""
        if outcome.virtual:
            said = f"{title[0].lower()}{title[1:]}" if outcome.trained else "nothing was trained"
            title = f"Virtual run: {said}"
        planned = [] if _is_as_planned(outcome) else [_seconds(outcome.planned_s), _usd(outcome.planned_usd)]
        notes = [f"planned {amount}" if amount != NOTHING else "" for amount in planned] or ["", ""]
        facts = [*won]
        facts += [("planned anew", f"after {_seconds(each.t)}: {each.why}") for each in outcome.replans]
        facts += [("gave up", f"{trial}: {why}") for trial, why in outcome.failed.items()]
        facts += [("note", note) for note in outcome.notes]
        cards = [
            Card("time", _seconds(outcome.time_s), notes[0]),
            Card("cost", _usd(outcome.cost_usd), notes[1]),
            Card("trials", f"{outcome.trials:,}", f"{len(outcome.failed):,} given up" if outcome.failed else ""),
        ]
        sections = [Section("segments", _name_rows(outcome)[1], [segment_table(outcome)])]
        if won:
            sections.append(Section("winner", "The winner" if is_winner else "Best so far", [Definitions(won)]))
        return Account(title, describe_clock(outcome), cards, facts, sections)

    def draw(self, outcome: RunOutcome) -> Figure:
        """Draw when segments were to go on, and below that when they did; one that has not ended ends now."""
        segments, actual = outcome.segments, _name_rows(outcome)[0]
        spans = {"planned": [(each.planned_start_s, each.planned_pause_s, each.planned_s) for each in segments]}
        spans |= {actual: [_when(each, outcome.time_s) for each in segments]} if actual else {}
        return draw_spans([each.id for each in segments], spans)


def describe_clock(outcome: RunOutcome) -> str:
    """Say first what a run on a virtual clock is; nothing of one that was measured."""
    if not outcome.virtual:
        return ""
    trained = "trials were trained here and at once" if outcome.trained else "nothing was trained"
    times = "those that the plan expects" if _is_as_planned(outcome) else "calculated, as they were to differ from it"
    return f"virtual run: {trained}; times and costs are {times}"


def _is_as_planned(outcome: RunOutcome) -> bool:
    """Whether a virtual clock showed what the plan says, so that there is nothing to compare."""
    return outcome.virtual and all(each.actual_start_s is None for each in outcome.segments)


def _name_rows(outcome: RunOutcome) -> tuple[str, str]:
    """Return how the rows of a run are called, of the plan and of what happened, and what the table is called."""
    if _is_as_planned(outcome):
        return "", "As planned"
    return ("virtual", "Planned, and on the virtual clock") if outcome.virtual else ("actual", "Planned against actual")


def segment_table(outcome: RunOutcome) -> Table:
    """Make the table of planned against actual, the whole run in its last rows; planned alone if virtual."""
    (actual, title), rows = _name_rows(outcome), list[tuple[str, ...]]()
    for each in outcome.segments:
        planned = map(_seconds, (each.planned_s, each.planned_pause_s, each.planned_iteration_s))
        rows.append((each.label or each.id, "planned", f"{each.trials:,}", *planned, _usd(each.planned_usd)))
        if actual:
            shown = map(_seconds, (each.actual_s, each.actual_pause_s, each.iteration_s))
            rows.append(("", actual, "", *shown, _usd(each.actual_usd)))
    trials, planned_s = f"{outcome.trials:,}", _seconds(outcome.planned_s)
    rows.append(("in all", "planned", trials, planned_s, "", "", _usd(outcome.planned_usd)))
    if actual:
        rows.append(("", actual, "", _seconds(outcome.time_s), "", "", _usd(outcome.cost_usd)))
    return Table(title, _COLUMNS, rows, num_keys=2)


def comparison_table(runs: Mapping[str, RunOutcome]) -> Table:
    """Make a table of several runs, each planned and actual; on a virtual clock that follows the plan, that alone."""
    rows = []
    for name, outcome in runs.items():
        best = outcome.winner or outcome.best
        planned = _seconds(outcome.planned_s), _usd(outcome.planned_usd)
        actual = _seconds(outcome.time_s), _usd(outcome.cost_usd)
        shown = (*actual, NOTHING if best is None else _metric(best))
        if _is_as_planned(outcome):
            rows.append((name, "virtual", f"{outcome.trials:,}", *shown))
            continue
        rows.append((name, "planned", f"{outcome.trials:,}", *planned, ""))
        rows.append(("", _name_rows(outcome)[0], "", *shown))
    title = "Planned against actual" if all(not outcome.virtual for outcome in runs.values()) else "Runs"
    return Table(title, _COMPARED, rows, num_keys=2)


def build_comparison_page(folders: Mapping[str, Path], *, name: str = "") -> Page:
    """Build the page of the runs in folders beside one another, and of each what was planned beside what happened."""
    from optplan.execution.cli.run_page import tell_history

    told = {run: KIND.look(folder) for run, folder in folders.items()}
    costs = {run: each.outcome.cost_usd for run, each in told.items() if each.outcome.cost_usd is not None}
    title = f"{len(told)} runs beside one another"
    if len(costs) == len(told) > 1 and max(costs.values()) > 0:
        least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        title = f"{least} cost {_usd(costs[least])}, {most} {_usd(costs[most])}"
    ended = all(each.outcome.status == "ended" and each.outcome.code == 0 for each in told.values())
    badge, kind = ("done", "good") if ended else ("not all done", "fair")
    table = comparison_table({run: each.outcome for run, each in told.items()})
    sections = [Section("runs", "All of them", [table])]
    for number, (run, each) in enumerate(told.items(), start=1):
        drawn = [block for section in tell_history(each.history) if section.id == "use" for block in section.blocks]
        sections.append(Section(f"run-{number}", run, [*drawn, segment_table(each.outcome)]))
    return Page(name, title, "", badge, kind, (), (), sections, window_title=f"runs of {name or 'a plan'}")


def _metric(trial: Winner) -> str:
    return "no number" if trial.metric is None else f"{trial.metric:.6g}"


def _list_winner(what: str, winner: Winner | None) -> list[tuple[str, str]]:
    if winner is None:
        return []
    shown = NOTHING if winner.metric is None else f"{winner.metric:.6g}"
    facts = [(what, f"{winner.trial}, {shown} after {winner.iterations:,} iterations")]
    if winner.configuration:
        facts.append(("configuration", _list_configuration(winner)))
    if winner.checkpoint is not None:
        facts.append(("checkpoint", winner.checkpoint))
    return facts


def _list_configuration(winner: Winner) -> str:
    shown = {name: f"{v:.6g}" if isinstance(v, float) else v for name, v in winner.configuration.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_seconds(seconds)


def _usd(usd: float | None) -> str:
    return NOTHING if usd is None else f"${usd:,.4f}" if usd < 1 else f"${usd:,.2f}"


def _when(segment: SegmentOutcome, end_s: float) -> tuple[float, float, float]:
    """Return when a segment opened, how long it waited, and how long it has taken until now."""
    if segment.actual_start_s is None:
        return 0.0, 0.0, 0.0
    taken_s = end_s - segment.actual_start_s if segment.actual_s is None else segment.actual_s
    pause_s = taken_s if segment.actual_pause_s is None else segment.actual_pause_s
    return segment.actual_start_s, pause_s, taken_s


KIND = _Searches()
