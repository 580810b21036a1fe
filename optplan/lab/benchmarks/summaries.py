"""What the rows of a suite amount to: solvers beside one another, profiles, shifted means, gaps, growth.

Solvers are compared where they answered the same question: rows with the same instance. The best objective of a
question is the least (or largest, where more is better) that any of them found. A performance profile (Dolan and
Moré, 2002) says of which share of the questions a solver is within a factor of the best: here of the objective, and of
the time of the quickest that found one as good.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from optplan.contracts import Sense

Row = Mapping[str, Any]

#: Seconds that are added to every time before the geometric mean is taken, and taken off after: rows take milliseconds.
SHIFT_S = 0.01
#: What counts as the best objective: within this factor of it.
_AS_GOOD = 1e-6
#: Factors at which the profiles are written down.
OBJECTIVE_FACTORS = (1.0, 1.001, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
TIME_FACTORS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)


def shifted_geometric_mean(times_s: Iterable[float]) -> float:
    """Return the geometric mean of times, at least one, each with a shift that is taken off the mean again."""
    return math.exp(float(np.mean([math.log(time_s + SHIFT_S) for time_s in times_s]))) - SHIFT_S


def summarise_suite(rows: Sequence[Row]) -> dict[str, Any]:
    """Summarise a suite, from what ``run_suite`` returns.

    ``solvers``: of each ``num``, ``solved``, ``proven``, ``time_s`` and ``verify_s`` (shifted geometric means),
    ``largest_gap`` of those with a bound, ``peak_mb``; and where two or more answered the same questions ``compared``:
    how many, ``best`` (share), ``mean_above`` and ``most_above`` the best objective. ``profiles``: by solver
    ``objective`` and ``time`` at the factors of this module. ``growth``: by what grows, the factors or sizes and the
    times.
    """
    asked = [row for row in rows if row["verify_seconds"] is not None]
    questions = _compare(asked)
    names = dict.fromkeys(row["solver"] for row in asked)
    summary: dict[str, Any] = {"solvers": {name: _summarise_solver(name, asked, questions) for name in names}}
    rivals = [name for name in names if any(name in answers for answers in questions)]
    summary["profiles"] = {name: _profile(name, questions) for name in rivals}
    summary["growth"] = _gather_growth(rows)
    return summary


def summarise_best_known(rows: Sequence[Row]) -> dict[str, Any]:
    """Count how the recorded values of the suite ``best-known`` stand, and name those that do not."""
    stands = [row["extra"]["stands"] for row in rows]
    proofs = [row["extra"]["proof"] for row in rows]
    return {
        "values": sum(stand != "new" for stand in stands),
        **{stand: stands.count(stand) for stand in ("reached", "better", "missed", "new")},
        "proofs": {word: proofs.count(word) for word in ("holds", "broken", "no file")},
        "failed": [
            row["instance"] for row in rows if row["extra"]["stands"] == "missed" or row["extra"]["proof"] == "broken"
        ],
    }


def _compare(asked: Sequence[Row]) -> list[dict[str, tuple[float, float]]]:
    """List the questions that several solvers answered: of each its objective over the best, and its time."""
    by_question: dict[tuple[str, str], dict[str, Row]] = {}
    for row in asked:
        unit = str(row["extra"].get("objective_unit", ""))  # what has another objective is another question
        by_question.setdefault((row["instance"], unit), {})[row["solver"]] = row
    questions = []
    for answers in by_question.values():
        if len(answers) < 2:
            continue
        found = [row["objective"] for row in answers.values() if row["objective"] is not None]
        more = any(row["extra"].get("sense") == Sense.MAXIMISE.value for row in answers.values())
        best = (max if more else min)(found, default=math.nan)
        questions.append(
            {name: (_distance(row["objective"], best, more=more), row["seconds"]) for name, row in answers.items()}
        )
    return questions


def _distance(objective: float | None, best: float, *, more: bool) -> float:
    """Return by which factor an objective is worse than the best; infinite without one."""
    if objective is None:
        return math.inf
    return best / objective if more else objective / best


def _summarise_solver(
    name: str, asked: Sequence[Row], questions: Sequence[Mapping[str, tuple[float, float]]]
) -> dict[str, Any]:
    own = [row for row in asked if row["solver"] == name]
    gaps = [row["gap"] for row in own if row["gap"] is not None]
    told: dict[str, Any] = {
        "num": len(own),
        "solved": sum(row["objective"] is not None for row in own),
        "proven": sum(row["status"] in {"optimal", "infeasible"} for row in own),
        "time_s": shifted_geometric_mean(row["seconds"] for row in own),
        "verify_s": shifted_geometric_mean(row["verify_seconds"] for row in own),
        "largest_gap": max(gaps, default=None),
        "peak_mb": max(row["peak_mb"] for row in own),
    }
    ratios = [answers[name][0] for answers in questions if name in answers]
    if ratios:
        above = [ratio - 1.0 for ratio in ratios if math.isfinite(ratio)]
        told["compared"] = {
            "num": len(ratios),
            "best": sum(ratio <= 1.0 + _AS_GOOD for ratio in ratios) / len(ratios),
            "mean_above": float(np.mean(above)) if above else None,
            "most_above": max(above, default=None),
        }
    return told


def _profile(name: str, questions: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, list[float]]:
    """Return the profiles of a solver, over the questions that it was asked together with others."""
    own = [answers for answers in questions if name in answers]
    ratios = np.array([answers[name][0] for answers in own])
    slower = []
    for answers in own:
        distance, seconds = answers[name]
        quickest = min((s for d, s in answers.values() if d <= 1.0 + _AS_GOOD), default=math.inf)
        slower.append(seconds / quickest if distance <= 1.0 + _AS_GOOD else math.inf)
    times = np.array(slower)
    return {
        "objective": [float(np.mean(ratios <= factor * (1.0 + _AS_GOOD))) for factor in OBJECTIVE_FACTORS],
        "time": [float(np.mean(times <= factor)) for factor in TIME_FACTORS],
    }


def _gather_growth(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Return by what grows the factors or sizes with the times, in order."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        extra = row["extra"]
        if "grows" in extra:
            kind = f"{extra['grows']}, {extra['kind']}" if "kind" in extra else extra["grows"]
            found.setdefault(kind, []).append((extra.get("factor", extra.get("size")), row["seconds"]))
    return {name: sorted(points) for name, points in found.items()}
