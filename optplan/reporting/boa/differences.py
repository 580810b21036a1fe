"""What answers to BOA's problems say, as a whole and class by class, to be set beside one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, repeat

from optplan.contracts import Result
from optplan.formulations.boa.data.instance import BoaSolution, Branch
from optplan.formulations.boa.planning import BoaPlan
from optplan.reporting.differences import (
    ANSWER,
    BETWEEN,
    COUNT,
    GPUS,
    SECONDS,
    Answer,
    Fact,
    measures_of,
    state_figures,
)
from optplan.reporting.phrases import ROUNDING, format_gpus, format_share
from optplan.units import HOURS_PER_MONTH

_MEAN, _WEIGHTED, _COST = "mean_jct_s", "weighted_mean_jct_s", "cost_usd_per_hour"
_FIGURES = (
    ("mean completion time", _MEAN, SECONDS),
    ("GPUs on average", "gpus", GPUS),
    ("of them rescaling", "gpus_rescaling", GPUS),
    ("cost an hour", _COST, "usd/hour"),
    ("pauses a job", "rescales_per_job", COUNT),
)
_OF_CLASS = (("mean completion time", _MEAN, SECONDS), ("GPUs on average", "gpus", GPUS))
_TYPE = "gpus."


def state_answer(answer: Answer) -> list[Fact]:
    """State what an answer says, and of each class its time, its GPUs, and what its jobs hold by epoch."""
    measures, facts = measures_of(answer), state_figures(answer, _FIGURES)
    mean, weighted = (measures.get(name, 0.0) for name in (_MEAN, _WEIGHTED))
    if abs(weighted - mean) > ROUNDING * mean:
        facts.append(Fact(ANSWER, "weighted mean completion time", _WEIGHTED, weighted, SECONDS))
    if _COST in measures:
        monthly = measures[_COST] * HOURS_PER_MONTH
        facts.append(Fact(ANSWER, "cost a month", "cost_usd_per_month", monthly, "usd/month"))
    for path, used in measures.items():
        if path.startswith(_TYPE):
            facts.append(Fact(ANSWER, f"{path.removeprefix(_TYPE)} GPUs on average", path, used, GPUS))
    for name, ways in _list_ways(answer).items():
        path = f"classes.{name}"
        for what, part, unit in _OF_CLASS:
            facts.append(Fact(name, what, f"{path}.{part}", measures[f"{path}.{part}"], unit))
        facts.append(Fact(name, "GPUs by epoch", f"{path}.widths", _write_ways(ways)))
    return facts


def _list_ways(answer: Answer) -> Mapping[str, Sequence[Branch]]:
    """List what shares of each class's jobs hold; nothing without a plan."""
    if isinstance(answer, BoaPlan):
        return {
            name: [Branch(fraction=row.share, widths=row.gpus.astype(float), gpu_types=row.gpu_types) for row in rows]
            for name, rows in answer.width_table.items()
        }
    found = answer.solution if isinstance(answer, Result) else None
    return found.branches if isinstance(found, BoaSolution) else {}


def _write_ways(ways: Sequence[Branch]) -> str:
    """Write what jobs hold, by share where they differ: ``75 %: 2 in 1 to 2, 4 in 3; 25 %: 1``."""
    if len(ways) == 1:
        return _write_way(ways[0])
    return "; ".join(sorted(f"{format_share(way.fraction)}: {_write_way(way)}" for way in ways))


def _write_way(way: Branch) -> str:
    types = way.gpu_types or repeat("")
    held = [f"{format_gpus(gpus)} {name}".strip() for gpus, name in zip(way.widths.tolist(), types, strict=False)]
    runs, first = [], 1
    for words, run in groupby(held):
        last = first + len(list(run)) - 1
        runs.append(f"{words} in {first}" if first == last else f"{words} in {first} to {last}")
        first = last + 1
    return held[0] if len(runs) == 1 else BETWEEN.join(runs)
