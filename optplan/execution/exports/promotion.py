"""What is decided between the jobs of an export: who goes on, who has won, and which way a stream's next job takes."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optplan.contracts.conditions import Promoted
from optplan.contracts.modes import Mode
from optplan.errors import OptplanError, UsageError, nearest_name_hint
from optplan.execution.exports.folder import MANIFEST, VERSION
from optplan.execution.exports.request import Outline, Step, outline
from optplan.execution.options import Rules
from optplan.execution.records import read_metric
from optplan.execution.scheduler import rank_trials
from optplan.instances.files import format_json, read_plan, write_text
from optplan.instances.plain_data import parse_json, read_text

#: What a job of a stream may be called: a folder, and a name of the scheduler's.
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
#: What is read of a manifest.
_NEEDED = {"version", "target", "plan_id", "time_quantile", "margin", "gpus_per_node", "metric", "configurations"}
#: Bytes of the end of a metrics file in which a metric is looked for, one after the other.
_ENDS = (1 << 16, 1 << 20, 1 << 24)


class NoMetricError(OptplanError):
    """Trials ended, and none showed a number: nobody can tell which of them is better."""

    exit_code = 1


class LimitPassedError(OptplanError):
    """A hard limit of the plan has passed: nothing more is started."""

    exit_code = 4


@dataclass(frozen=True)
class Exported:
    """A folder that ``optplan export`` wrote, the outline of its plan, and what its manifest says."""

    folder: Path
    outline: Outline
    manifest: dict[str, Any]

    @property
    def mode(self) -> Mode:
        """Which values of the metric are better."""
        return Mode(self.manifest["mode"])

    def mark(self, trial: str, what: str, step: str) -> Path:
        """Return the file that says that a trial has begun or ended a step, or what it showed there."""
        return self.folder / "trials" / trial / f"{what}-{step}"

    def members(self, step: str) -> list[str] | None:
        """Return the trials that are in a step, the best first; None where that is not decided."""
        file = self.folder / "members" / f"{step}.txt"
        return read_text(file).split() if file.is_file() else None

    def values(self, step: str) -> dict[str, float]:
        """Return the metric of each trial that has ended a step; NaN where it showed no number."""
        members = self.members(step)
        if members is None:
            message = f"{self.folder / 'members' / step}.txt: is missing; who is in {step} is decided first"
            raise UsageError(f"{message}: optplan promote {self.folder} {step}")
        marks = {trial: self.mark(trial, "ended", step) for trial in members}
        return {trial: _read_value(mark, self.manifest["metric"]) for trial, mark in marks.items() if mark.exists()}

    def rank(self, values: Mapping[str, float]) -> list[str]:
        """Return trials, the best first."""
        return rank_trials(values, values.__getitem__, self.mode, lambda _: False)


def read_export(folder: Path) -> Exported:
    """Read what ``optplan export`` wrote."""
    file = folder / MANIFEST
    if not file.is_file():
        raise UsageError(f"{folder}: has no {MANIFEST}; give the folder that `optplan export --out` wrote")
    manifest = parse_json(read_text(file), str(file))
    is_whole = isinstance(manifest, dict) and manifest.keys() >= _NEEDED and manifest.get("mode") in [*Mode]
    trials = manifest["configurations"] if is_whole else None
    are_trials = isinstance(trials, list) and all(isinstance(each, dict) for each in trials)
    if not are_trials or manifest["version"] != VERSION:
        raise UsageError(f"{file}: is not as `optplan export` writes it; export the plan again")
    plan = read_plan(folder / "plan.json")
    if plan.plan_id != manifest["plan_id"]:
        message = f"{folder}: plan.json is not the plan that was exported; export it again into a folder of its own"
        raise UsageError(message)
    margin, quantile, size = (manifest[name] for name in ("margin", "time_quantile", "gpus_per_node"))
    return Exported(folder, outline(plan, margin=margin, quantile=quantile, gpus_per_node=size), manifest)


def promote(exported: Exported, name: str, *, now_s: float | None = None) -> list[str]:
    """Decide who is in a step: the best of those that it waits for, the best first, written to ``members/STEP.txt``.

    Once one of those chosen has begun, the decision stands: their metrics have changed since, and whoever took a place
    would run beside its owner. Before that it is taken anew; ``now_s`` is seconds since 1970.
    """
    known = {step.name: step for step in exported.outline.steps}
    if name not in known:
        raise UsageError(f"step: got {name!r}; {nearest_name_hint(name, known)}")
    if not known[name].is_promoted:
        raise UsageError(f"step: nobody is promoted to {name!r}; its members are known from the beginning")
    _require_time(exported, time.time() if now_s is None else now_s)
    decided = exported.members(name) or []
    if any(exported.mark(trial, "began", name).exists() for trial in decided):
        return decided
    members = _choose_members(exported, known[name])
    lines = "".join(f"{trial}\n" for trial in members)
    write_text(lines, exported.folder / "members" / f"{name}.txt", overwrite=True)
    return members


def _choose_members(exported: Exported, step: Step) -> list[str]:
    """Return a step's members, the best first."""
    segment = step.segment
    assert isinstance(segment.enter, Promoted)  # those of other steps are known from the beginning
    names = {each.segment.id: each.name for each in exported.outline.steps}
    shown: dict[str, float] = {}
    for selection in segment.enter.of:
        before = names[selection.segment]
        values = exported.values(before)
        if len(values) > selection.top and all(math.isnan(value) for value in values.values()):
            said = f"nobody who ended {before} showed a number, so that none is the best"
            fix = "the command appends lines of JSON with it to the file {metrics}"
            raise NoMetricError(f"{exported.manifest['metric']}: {said}; {fix}")
        shown |= {trial: values[trial] for trial in exported.rank(values)[: selection.top]}
    return exported.rank(shown)[segment.first_rank - 1 : segment.last_rank]


def find_winner(exported: Exported) -> dict[str, Any]:
    """Rank those who ended in the last steps that anybody ended with a number, and write ``winner.json``.

    It has ``trial``, ``step``, ``configuration``, ``metric`` and ``checkpoint`` of the best one; None for each where
    nobody ended, or nobody who ended showed a number.
    """
    winner: dict[str, Any] = dict.fromkeys(("trial", "step", "configuration", "metric", "checkpoint"))
    # Where a limit ended the search before its last steps, the best of the latest have won.
    for steps in [exported.outline.last(), *reversed(exported.outline.levels())]:
        shown, ended = dict[str, float](), dict[str, str]()
        for step in steps:
            if not step.is_promoted or exported.members(step.name) is not None:
                values = exported.values(step.name)
                numbers = {trial: value for trial, value in values.items() if not math.isnan(value)}
                shown |= numbers
                ended |= dict.fromkeys(numbers, step.name)
        if shown:
            best = exported.rank(shown)[0]
            configuration = dict(enumerate(exported.manifest["configurations"], start=1)).get(int(best))
            checkpoint = f"trials/{best}/checkpoint"
            winner = dict(zip(winner, (best, ended[best], configuration, shown[best], checkpoint), strict=True))
            break
    write_text(format_json(winner) + "\n", exported.folder / "winner.json", overwrite=True)
    return winner


def choose_way(exported: Exported, unit: str) -> str:
    """Deal out the ways of a class: the next job takes the one that is furthest behind its share, as the plan says.

    What other jobs take stands in their folders. Who is submitted at the same moment may take the same; later ones make
    up for it.
    """
    from optplan.formulations.boa.planning import choose_way as choose_next  # searches do without

    ways = {way.name: way.share for way in exported.outline.ways if way.unit == unit}
    if not ways:
        classes = dict.fromkeys(way.unit for way in exported.outline.ways)
        raise UsageError(f"class: got {unit!r}; {nearest_name_hint(unit, classes)}")
    taken = Counter(read_text(file).strip() for file in exported.folder.glob("trials/*/way"))
    return [*ways][choose_next([*ways.values()], [taken[name] for name in ways])]


def submit(exported: Exported, *, unit: str | None = None, job: str | None = None) -> str:
    """Hand the jobs of an export to its scheduler: all of them, or of a stream those of one job of a class."""
    if exported.outline.kind != "stream":
        if unit is not None or job is not None:
            raise UsageError("class: the plan is not one of streams; leave out --class and --job")
        return _run_script(exported.folder)
    if unit is None or job is None:
        raise UsageError("class: a stream's jobs are submitted one by one; give --class and --job")
    if not _JOB.fullmatch(job):
        raise UsageError(f"job: got {job!r}; letters, digits, dots, hyphens and underscores are allowed, up to 61")
    place = exported.folder / "trials" / job
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"job: {job!r} was submitted before; give another name") from None
    try:
        way = choose_way(exported, unit)
        write_text(f"{way}\n", place / "way")  # also to go on with it by hand
        return _run_script(exported.folder, job, way)
    except OptplanError:
        if {each.name for each in place.iterdir()} <= {"way"}:  # nothing of it has begun: the name may be given again
            shutil.rmtree(place)
        raise


def _run_script(folder: Path, *words: str) -> str:
    done = subprocess.run(["bash", "submit.sh", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise UsageError(f"submit.sh ended with exit code {done.returncode}: {said}")
    return done.stdout


def _require_time(exported: Exported, now_s: float) -> None:
    deadline_s = Rules.of(exported.outline.plan).deadline_s
    begun = exported.folder / "begun"
    if deadline_s is None or not begun.is_file():
        return
    text = read_text(begun).strip()
    if not re.fullmatch(r"\d+", text):
        if not text:  # the first job writes it just now
            return
        raise UsageError(f"{begun}: got {text[:40]!r}; it holds the seconds since 1970 of the first job's begin")
    late = now_s - int(text) - deadline_s
    if late > 0:
        message = f"deadline: the {deadline_s:,.0f} s since its first job began passed {late:,.0f} s ago"
        raise LimitPassedError(f"{message}; nothing more is started")


def read_shown(line: bytes, metric: str) -> float | None:
    """Return what a line of a metrics file shows of a metric, NaN where that is no number; None where it has none."""
    try:
        shown = json.loads(line)
    except (ValueError, RecursionError):  # cut short, or no JSON
        return None
    return read_metric(shown[metric]) if isinstance(shown, dict) and metric in shown else None


def _read_value(file: Path, metric: str) -> float:
    """Return the metric of the last whole line of the mark of a trial's end that has it; NaN where none has."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            for many in _ENDS:
                stream.seek(max(0, size - many))
                lines = stream.read(many).splitlines()[1 if many < size else 0 :]
                values = (read_shown(line, metric) for line in reversed(lines))
                found = next((value for value in values if value is not None), None)
                if found is not None or many >= size:
                    return math.nan if found is None else found
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); make it readable") from None
    return math.nan
