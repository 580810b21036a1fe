"""Exports, looked at from outside: what their jobs have begun, ended and shown, from the files that these leave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.contracts.modes import Mode
from optplan.errors import DataError, UsageError
from optplan.execution.cli.kinds import Told
from optplan.execution.cli.run_page import tell_history
from optplan.execution.exports.promotion import Exported, read_export, read_shown
from optplan.execution.history import DONE, OUT, RUNNING, WAITING, WINNER, History, Moment, Seen, Stay, foresee
from optplan.execution.records import read_metric
from optplan.execution.state import NodeState
from optplan.execution.trial_files import is_locked
from optplan.instances.plain_data import parse_json, read_text
from optplan.reporting.pages import Definitions, Page, Section
from optplan.reporting.phrases import NOTHING
from optplan.reporting.tables import fact_table

if TYPE_CHECKING:
    from optplan.cli.console import Shown

NAME = "an export"
RESUMED: tuple[str, ...] = ()
#: Locks of what a script and its launchers have started, and targets whose locks this machine sees.
_SUBMITTED, _LOCKS, _SEEN = "submit.lock", "trials/*/lock", ("script", "slurm")
#: Digits of seconds since 1970 at most.
_DIGITS = 11


def resume(folder: Path, *_: object) -> Told:
    """Refuse: its scheduler goes on with it."""
    raise UsageError(f"--resume: {folder} is an export's; `optplan submit {folder}` runs what has not ended")


def look(folder: Path) -> Told:
    """Read how an export stands, and how it went so far."""
    exported, file = read_export(folder), folder / "winner.json"
    winner = parse_json(read_text(file), str(file)) if file.is_file() else {}
    if not isinstance(winner, dict) or (winner.get("trial") and math.isnan(read_metric(winner.get("metric")))):
        raise DataError(
            str(file), "names no winner and its metric", "remove it; `optplan promote --winner` writes it again"
        )
    history = _gather(exported, winner.get("trial"))
    states = [each.state for each in history.members]
    facts = {"target": exported.manifest["target"], "plan": exported.manifest["plan_id"][:12], "begun": len(states)}
    facts |= {"running": states.count(RUNNING), "winner": winner.get("trial"), "metric": winner.get("metric")}
    return Told(facts, exported.outline.plan.instance_name, history)


read = look


def present(facts: dict[str, Any]) -> list[Shown]:
    """Show how an export stands."""
    return [fact_table(_list_facts(facts))]


def build_page(told: Told) -> Page:
    """Build the page of an export."""
    facts = told.outcome
    title = f"{facts['begun']:,} begun, {facts['running']:,} of them running"
    if facts["winner"] is not None:
        title = f"The winner is {facts['winner']} with {facts['metric']:.6g}"
    badge = ("done", "good") if facts["winner"] is not None else ("running" if facts["running"] else "waiting", "fair")
    own = Section("facts", "How it stands", [Definitions(_list_facts(facts))])
    lead = f"Jobs of {facts['target']}, as files in the folder tell of them; which nodes they had, these do not say."
    return Page(told.name, title, lead, *badge, sections=tell_history(told.history, [own]), window_title="export")


def list_logs(folder: Path) -> dict[str, Path]:
    """Return what jobs wrote, by their names, where that is in the folder."""
    return {path.stem: path for path in sorted(folder.glob("logs/*.log"))}


def stop(folder: Path, _: int | None) -> tuple[str, bool]:
    """Refuse: its jobs are the scheduler's, or those of a script that is ended where it was started."""
    exported = read_export(folder)
    if exported.manifest["target"] != "script":
        return f"{folder}: its jobs are those of a scheduler; cancel them there", False
    if any(_is_held(lock) for pattern in (_SUBMITTED, _LOCKS) for lock in folder.glob(pattern)):
        return f"{folder}: what its script has started runs; interrupt submit.sh, and all of it ends", False
    return f"{folder}: nothing of it runs; `optplan submit {folder}` runs what has not ended", True


def stamp(folder: Path) -> str:
    """Return what changes whenever jobs have begun, ended or shown something."""
    written = ("trials/*/*-*", "members/*", "winner.json")
    files = [file.stat() for each in written for file in folder.glob(each)]
    return f"{len(files)} {sum(each.st_size for each in files)} {sum(map(_is_held, folder.glob(_LOCKS)))}"


def say_follower(told: Told, *_: object) -> str:
    """Say who is at work."""
    return f"its jobs are those of {told.outcome['target']}; {told.outcome['running']:,} run"


def _gather(exported: Exported, winner: str | None) -> History:
    """Gather what trials or jobs have done; each is its own node, as no file says where they were."""
    outline, metric = exported.outline, exported.manifest["metric"]
    configurations = {f"{number:04d}": each for number, each in enumerate(exported.manifest["configurations"], start=1)}
    begins = {
        place.name: {file.name: _read_time(file) for file in place.glob("began-*") if file.is_file()}
        for place in sorted(exported.folder.glob("trials/*"))
    }
    origin_s = min((t for times in begins.values() for t in times.values()), default=0.0)
    stays, members, nodes, sizes = list[Stay](), list[Seen](), list[NodeState](), dict[str, int]()
    for name, times in begins.items():
        own, points, gpu_s = list[Stay](), list[Moment](), 0.0
        for step in (each for each in outline.steps if f"began-{each.name}" in times):
            ended, begin_s = exported.mark(name, "ended", step.name), times[f"began-{step.name}"]
            stay = Stay(name, step.name, {name: step.segment.gpus}, begin_s - origin_s)
            if ended.exists():
                end_s = max(begin_s, ended.stat().st_mtime)
                stay.end_s, stay.how = end_s - origin_s, DONE
                gpu_s += step.segment.gpus * (end_s - begin_s)
            elif not _may_run(exported, name):
                stay.how = WAITING
            own.append(stay)
            points += _read_curve(exported.mark(name, "metrics", f"{step.name}.jsonl"), metric, step.done or 0)
        if own:
            sizes[name] = max(each.place[name] for each in own)
            state = WINNER if name == winner else _name_state(exported, own[-1])
            done = max([int(point.t) for point in points], default=0)
            members.append(Seen(name, state, configurations.get(name, {}), done, points, gpu_s))
            nodes.append(NodeState(len(nodes), name, name, name, "", own[0].begin_s, ready_s=own[0].begin_s))
            nodes[-1].end_s = own[-1].end_s
        stays += own
    until_s = max((each.end_s or each.begin_s for each in stays), default=0.0)
    kind, is_most = "stream" if outline.kind == "stream" else "search", exported.mode is Mode.MAX
    history = History(kind, until_s, metric, is_most, False, nodes, sizes, members, stays)
    history.forecasts += [(Moment(0.0, 0.0), foresee(outline.plan, until_s))] if stays else []
    return history


def _name_state(exported: Exported, last: Stay) -> str:
    if last.end_s is None:
        return last.how
    later = [exported.members(step.name) for step in exported.outline.steps if last.label in step.after]
    is_out = all(members is not None and last.member not in members for members in later)
    return DONE if not later else OUT if is_out else WAITING


def _may_run(exported: Exported, name: str) -> bool:
    """Whether what has not ended may run: its launcher's lock tells, where this machine sees it."""
    lock = exported.folder / "trials" / name / "lock"
    return exported.manifest["target"] not in _SEEN or not lock.is_file() or _is_held(lock)


def _is_held(lock: Path) -> bool:
    try:
        return is_locked(lock)
    except OSError:  # the disk knows no locks
        return True


def _read_time(path: Path) -> float:
    text = path.read_bytes().strip()
    return float(text) if text.isdigit() and len(text) <= _DIGITS else path.stat().st_mtime  # a job writes it just now


def _read_curve(path: Path, metric: str, done: int) -> Iterator[Moment]:
    """Yield what a trial has shown in a step: a line of its file is an iteration; one that is no JSON is left out."""
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else (), start=1):
        value = read_shown(line, metric)
        if value is not None and not math.isnan(value):
            yield Moment(done + number, value)


def _list_facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, NOTHING if value is None else str(value)) for name, value in facts.items()]
