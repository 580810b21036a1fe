"""The paper's claims, each beside what comes out here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optplan.units import SECONDS_PER_HOUR
from paper.experiments import (
    AUTOSCALED,
    EXACT,
    EXACT_ALIKE,
    POLLUX,
    PUBLISHED,
    THERE,
    with_pollux_there,
)
from paper.gathering import FIGURE7_GPUS, Gathered
from paper.running import Curve, Curves, compare, largest_factor

_NAMES = {
    "bert": "BERT",
    "cifar10": "ResNet18",
    "deepspeech2": "DeepSpeech2",
    "imagenet": "ResNet50",
    "yolov3": "YOLOv3",
}
#: Table 1: shares of newTrace's jobs, in percent.
_TABLE1 = {"cifar10": 50.42, "bert": 21.67, "deepspeech2": 23.54, "yolov3": 4.75, "imagenet": 0.62}
NOT_RUN = "not run"
_NO_TWO, _UNKNOWN = "no two at equal GPU-hours", "cannot be said"
#: From this multiple of the least GPU-hours on, curves are no longer steep.
_AWAY = 1.1
#: A factor is reached where it is at least this share of the paper's.
_REACHED = 0.95


@dataclass(frozen=True)
class Claim:
    """A claim of a section or figure, what comes out here, and whether it holds."""

    where: str
    says: str
    here: str
    verdict: str


#: What comes out here, and whether the claim holds; None where it was not run.
_Found = tuple[str, str] | None
#: Where the paper says what, and that.
_Claims = Iterator[tuple[str, str, _Found]]


def list_claims(told: Gathered) -> list[Claim]:
    """List the claims."""
    parts = (_on_traces, _on_factors, _on_time, _on_information, _on_arrivals, _on_reclaiming, _on_latencies)
    return [Claim(where, says, *(found or (NOT_RUN, NOT_RUN))) for part in parts for where, says, found in part(told)]


def own_curve(curves: Curves) -> Curve | None:
    """Return BOA's curve: exact widths, or Algorithm 1's where there are no exact ones."""
    return curves.get(EXACT) or curves.get(PUBLISHED)


def _on_traces(told: Gathered) -> _Claims:
    newtrace = told.traces["newtrace-1"]
    variations = [trace["variation"] for name, trace in told.traces.items() if name.startswith("newtrace")]
    here = f"{min(variations):.2f} to {max(variations):.2f} in its {len(variations)} samples"
    verdict = "holds" if min(variations) <= 2.65 <= max(variations) else "differs"
    yield "6.1", "interarrival times of newTrace have C² = 2.65", (here, verdict)
    shares = {name: 100 * count / newtrace["jobs"] for name, count in newtrace["applications"].items()}
    far = max((abs(shares.get(name, 0.0) - share) for name, share in _TABLE1.items()), default=0.0)
    listed = ", ".join(f"{_NAMES[name]} {shares.get(name, 0.0):.2f} %" for name in _TABLE1)
    said = ", ".join(f"{_NAMES[name]} {share:.2f} %" for name, share in _TABLE1.items())
    here = f"{listed} of {newtrace['jobs']} jobs"
    verdict = "holds, but for YOLOv3: the paper's shares add up to 101 %" if far <= 1.01 else "differs"
    yield "Table 1", said, (here, verdict)
    counts = f"{told.traces['workload-1-of-85']['jobs']} and {told.traces['filtertrace']['jobs']}"
    here = f"{counts}: the jobs of three applications in Pollux' workload-1 and in newtrace/workload-1"
    verdict = "holds" if counts == "85 and 918" else "differs"
    yield "6.1, 6.3", "the sub-trace has 85 jobs, filterTrace 918", (here, verdict)


def _on_factors(told: Gathered) -> _Claims:
    """Factors between completion times at equal GPU-hours of rented nodes."""
    for where, curves, what, factor, name in (
        ("figure 4", told.few, "mean_s", 1.6, "the 85 jobs"),
        ("figure 6a", told.filtered, "mean_s", 1.7, "filterTrace"),
        ("figure 6b", told.filtered, "p95_s", 1.7, "filterTrace"),
        ("figure 6c", told.newtrace, "mean_s", 1.8, "newTrace"),
        ("figure 6d", told.newtrace, "p95_s", 1.6, "newTrace"),
    ):
        word = "mean" if what == "mean_s" else "P95"
        says = f"{word} up to {factor:g} times shorter than Pollux with autoscaling, {name}"
        yield where, says, _find_factor(curves, AUTOSCALED, what, factor)
    curves = told.newtrace if told.quick else with_pollux_there(told.newtrace)
    for other in (POLLUX, *([] if told.quick else [THERE])):
        for what, word, factor in (("mean_s", "mean", 2.0), ("p95_s", "P95", 3.0)):
            says = f"{word} up to {factor:g} times shorter than existing policies, at a given budget: {other}, newTrace"
            yield "figure 1", says, _find_factor(curves, other, what, factor)
    says = "a mean of 2100 s for 2.2 times fewer GPUs than Pollux with autoscaling"
    yield "figure 4", says, _compare_hours(told.few, 2100.0, 2.2)
    yield "6.3", "autoscaling can be a benefit to Pollux (filterTrace)", _compare_autoscaling(told.filtered)


def _find_factor(curves: Curves, rival: str, what: str, factor: float) -> _Found:
    own = own_curve(curves)
    if own is None or rival not in curves:
        return None
    factors = [one for _, one in compare(own, curves[rival], what)]
    if not factors:
        return _NO_TWO, _UNKNOWN
    here = f"{min(factors):.2f} to {max(factors):.2f} times shorter, at {len(factors)} sizes"
    return here, _judge(max(factors), factor)


def _judge(here: float, paper: float) -> str:
    if here >= _REACHED * paper:
        return "holds"
    return f"less: {here:.2f} for {paper:g}" if here > 1.0 else f"not: {here:.2f} for {paper:g}"


def _compare_hours(curves: Curves, mean_s: float, factor: float) -> _Found:
    own, rival = own_curve(curves), curves.get(AUTOSCALED)
    if own is None or rival is None:
        return None
    hours = own.hours_for(mean_s), rival.hours_for(mean_s)
    if hours[0] is None or hours[1] is None:
        return "one of the two has no such mean", _UNKNOWN
    ratio = hours[1] / hours[0]
    return f"{ratio:.2f} times fewer node-hours", _judge(ratio, factor)


def _compare_autoscaling(curves: Curves) -> _Found:
    if POLLUX not in curves or AUTOSCALED not in curves:
        return None
    factor = largest_factor(curves[AUTOSCALED], curves[POLLUX])
    if factor is None:
        return _NO_TWO, _UNKNOWN
    return f"up to {factor:.2f} times shorter than on a fixed cluster", "holds" if factor > 1 else "not"


def _on_time(told: Gathered) -> _Claims:
    found: _Found = None
    if EXACT in told.watched_few and AUTOSCALED in told.watched_few:
        own, other = (told.watched_few[name]["cell"]["most_gpus"] for name in (EXACT, AUTOSCALED))
        found = f"at most {own} GPUs in use, and {other}", "holds" if own > other else "not"
    yield "figure 5", "at 55 GPUs BOA Constrictor rents more in bursts than Pollux with autoscaling", found
    says = "average efficiency 0.64, Pollux with autoscaling 0.73, both at 112 GPUs"
    yield "figure 7", says, _compare_efficiency(told.watched)


def _compare_efficiency(watched: Mapping[str, Mapping[str, Any]]) -> _Found:
    if EXACT not in watched:
        return None
    own_by_time, own_by_gpu = average_efficiency(watched[EXACT]["cell"])
    here = f"{own_by_time:.2f} over time, {own_by_gpu:.2f} over GPU-hours"
    if AUTOSCALED not in watched:
        return f"{here} at a budget of {FIGURE7_GPUS:g}; the rival: {NOT_RUN}", _UNKNOWN
    by_time, by_gpu = average_efficiency(watched[AUTOSCALED]["cell"])
    here += f"; Pollux with autoscaling {by_time:.2f}, {by_gpu:.2f}"
    return here, "holds" if own_by_time < by_time else "not"


def list_efficiency(cell: Mapping[str, Any]) -> list[float]:
    """Return the efficiency of rented GPUs in each stretch of time: work on the fewest GPUs over GPU-time rented."""
    told = cell["over_time"]
    rows = zip(told["efficiency"], told["gpus_used"], told["gpus_rented"], strict=True)
    return [(efficiency or 0.0) * used / rented if rented else 0.0 for efficiency, used, rented in rows]


def average_efficiency(cell: Mapping[str, Any]) -> tuple[float, float]:
    """Return the efficiency of rented GPUs, averaged over the time in which there are any, and over their GPU-hours."""
    rented = np.array(cell["over_time"]["gpus_rented"])
    efficiency = np.array(list_efficiency(cell))
    return float(efficiency[rented > 0].mean()), float(efficiency @ rented / rented.sum())


def _on_information(told: Gathered) -> _Claims:
    for name in (EXACT, PUBLISHED):
        perfect, imperfect = (told.information.get(f"{name}, {word}") for word in ("perfect", "imperfect"))
        found = None if perfect is None or imperfect is None else _compare_information(perfect, imperfect)
        yield "figure 8", f"{name}: essentially unchanged by errors of prediction", found
    found = None
    if AUTOSCALED in told.newtrace and AUTOSCALED in told.learning:
        factors = [factor for _, factor in compare(told.newtrace[AUTOSCALED], told.learning[AUTOSCALED])]
        found = _NO_TWO, _UNKNOWN
        if factors:
            here = f"{min(factors):.2f} to {max(factors):.2f} times, at {len(factors)} targets"
            found = here, _judge(max(factors), 1.4)
    yield "figure 8", "Pollux with autoscaling: up to 1.4 times slower with errors", found


def _compare_information(perfect: Curve, imperfect: Curve) -> _Found:
    compared = compare(perfect, imperfect)
    least = _AWAY * min(point.node_gpu_hours for point in perfect.points)
    away = [factor for point, factor in compared if point.node_gpu_hours >= least]
    if not away:
        return _NO_TWO, _UNKNOWN
    below = [factor for point, factor in compared if point.node_gpu_hours < least]
    here = f"mean {100 * (np.median(away) - 1):+.1f} % in the median, at most {100 * (max(away) - 1):+.1f} %"
    if below:
        here += f"; within a tenth of the least GPU-hours up to {100 * (max(below) - 1):+.0f} %"
    return here, "holds" if max(away) <= 1.05 else "not quite" if max(away) <= 1.15 else "not"


def _on_arrivals(told: Gathered) -> _Claims:
    by_variation = average_arrivals(told)
    for name, own in ((AUTOSCALED, EXACT_ALIKE), (POLLUX, EXACT), ("least attained service", EXACT)):
        factors = [means[name] / means[own] for _, means in by_variation if name in means and own in means]
        found: _Found = None
        if factors:
            here = f"{factors[0]:.2f} times at the least C², {factors[-1]:.2f} at the largest, over {name}"
            found = here, "holds" if factors[-1] > factors[0] else "not"
        if factors or name != "least attained service":
            yield "figure 9", f"as C² grows to 30, the advantage over {name} grows", found


def average_arrivals(told: Gathered) -> list[tuple[float, dict[str, float]]]:
    """Return by C² each policy's mean over the seeds; those that did not complete every job are left out."""
    found: list[tuple[float, dict[str, float]]] = []
    for variation in dict.fromkeys(row["variation"] for row in told.arrivals):
        rows = [row["policies"] for row in told.arrivals if row["variation"] == variation]
        means = {}
        for name in rows[0]:
            own = [row[name] for row in rows if row.get(name) is not None]
            if own and all(one["completed"] == one["num_jobs"] for one in own):
                means[name] = float(np.mean([one["mean_jct_s"] for one in own]))
        found.append((variation, means))
    return found


def _on_reclaiming(told: Gathered) -> _Claims:
    found: _Found = None
    shares = {name: reclaimed_share(one) for name, one in told.watched_few.items()}
    if EXACT in shares:
        here = f"+{100 * shares[EXACT]:.1f} % of node-hours, where each release takes 5 min"
        found = f"{here}; the rival: {NOT_RUN}", _UNKNOWN
        if AUTOSCALED in shares:
            verdict = "holds" if shares[EXACT] < shares[AUTOSCALED] else "not"
            found = f"{here}; Pollux with autoscaling +{100 * shares[AUTOSCALED]:.1f} %", verdict
    says = "the time until nodes are reclaimed costs BOA Constrictor less than Pollux with autoscaling"
    yield "figure 11", says, found


#: Seconds that a cloud takes to reclaim a released node; the paper states none.
RECLAIM_S = 300.0


def reclaimed_share(watched: Mapping[str, Any]) -> float:
    """Return what reclaiming adds to the hours of rented nodes, if no node is rented again meanwhile."""
    hours = watched["releases"] * watched["cell"]["gpus_per_node"] * RECLAIM_S / SECONDS_PER_HOUR
    return float(hours / watched["cell"]["node_gpu_hours"])


def _on_latencies(told: Gathered) -> _Claims:
    for name, says, verdict in (
        (EXACT, "a decision takes BOA Constrictor 0.146 ms on average", "holds"),
        (POLLUX, "Pollux 4.39 s", "a figure of another program"),
        (AUTOSCALED, "Pollux with autoscaling up to 23.58 s", "a figure of another program"),
    ):
        watched, found = told.watched.get(name), None
        if watched is not None:
            here = f"{1000 * watched['decision_mean_s']:.3g} ms, at most {1000 * watched['decision_most_s']:.3g} ms"
            found = f"{here} ({watched['decisions']:,} decisions)", verdict
        yield "5.4", says, found
    for name in (PUBLISHED, EXACT):
        if name in told.solve_s:
            mean_s = float(np.mean(told.solve_s[name]))
            here = f"{1000 * mean_s:.0f} ms on average ({name}, {len(told.solve_s[name])} plans)"
            yield "5.4", "calculating the widths takes about 500 s", (here, f"{500 / mean_s:,.0f} times faster")
