"""The paper's claims, each beside what comes out here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optplan.benchmarking.paper.curves import Curve, compare, largest_factor
from optplan.benchmarking.paper.experiments import (
    AUTOSCALED,
    EXACT,
    EXACT_ALIKE,
    POLLUX,
    PUBLISHED,
    THERE,
    with_pollux_there,
)
from optplan.benchmarking.paper.gathering import FIGURE7_GPUS, Gathered
from optplan.benchmarking.paper.running import Curves
from optplan.units import SECONDS_PER_HOUR

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
    """A claim.

    Parameters
    ----------
    where
        Section or figure.
    says
        What the paper says.
    here
        What comes out here.
    verdict
        Whether it holds.
    """

    where: str
    says: str
    here: str
    verdict: str


def list_claims(told: Gathered) -> list[Claim]:
    """List the claims."""
    return [
        *_on_traces(told),
        *_on_factors(told),
        *_on_time(told),
        *_on_information(told),
        *_on_arrivals(told),
        *_on_reclaiming(told),
        *_on_latencies(told),
    ]


def own_curve(curves: Curves) -> Curve | None:
    """Return BOA's curve: exact widths, or Algorithm 1's where there are no exact ones."""
    return curves.get(EXACT) or curves.get(PUBLISHED)


def _on_traces(told: Gathered) -> Iterator[Claim]:
    newtrace = told.traces["newtrace-1"]
    variations = [trace["variation"] for name, trace in told.traces.items() if name.startswith("newtrace")]
    yield Claim(
        "6.1",
        "interarrival times of newTrace have C² = 2.65",
        f"{min(variations):.2f} to {max(variations):.2f} in its {len(variations)} samples",
        "holds" if min(variations) <= 2.65 <= max(variations) else "differs",
    )
    shares = {name: 100 * count / newtrace["jobs"] for name, count in newtrace["applications"].items()}
    far = max((abs(shares.get(name, 0.0) - share) for name, share in _TABLE1.items()), default=0.0)
    listed = ", ".join(f"{_NAMES[name]} {shares.get(name, 0.0):.2f} %" for name in _TABLE1)
    said = ", ".join(f"{_NAMES[name]} {share:.2f} %" for name, share in _TABLE1.items())
    here = f"{listed} of {newtrace['jobs']} jobs"
    verdict = "holds, but for YOLOv3: the paper's shares add up to 101 %" if far <= 1.01 else "differs"
    yield Claim("Table 1", said, here, verdict)
    counts = f"{told.traces['workload-1-of-85']['jobs']} and {told.traces['filtertrace']['jobs']}"
    matches = counts == "85 and 918"
    yield Claim(
        "6.1, 6.3",
        "the sub-trace has 85 jobs, filterTrace 918",
        f"{counts}: the jobs of three applications in Pollux' workload-1 and in newtrace/workload-1",
        "holds" if matches else "differs",
    )


def _on_factors(told: Gathered) -> Iterator[Claim]:
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
        yield _claim_factor(where, says, curves, AUTOSCALED, what, factor)
    curves = told.newtrace if told.quick else with_pollux_there(told.newtrace)
    for other in (POLLUX, *([] if told.quick else [THERE])):
        for what, word, factor in (("mean_s", "mean", 2.0), ("p95_s", "P95", 3.0)):
            says = f"{word} up to {factor:g} times shorter than existing policies, at a given budget: {other}, newTrace"
            yield _claim_factor("figure 1", says, curves, other, what, factor)
    own, rival = own_curve(told.few), told.few.get(AUTOSCALED)
    says = "a mean of 2100 s for 2.2 times fewer GPUs than Pollux with autoscaling"
    if own is None or rival is None:
        yield Claim("figure 4", says, NOT_RUN, NOT_RUN)
        return
    hours = own.hours_for(2100.0), rival.hours_for(2100.0)
    if hours[0] is None or hours[1] is None:
        yield Claim("figure 4", says, "one of the two has no such mean", _UNKNOWN)
    else:
        ratio = hours[1] / hours[0]
        yield Claim("figure 4", says, f"{ratio:.2f} times fewer node-hours", _judge(ratio, 2.2))
    yield _claim_autoscaling(told)


def _claim_factor(where: str, says: str, curves: Curves, rival: str, what: str, factor: float) -> Claim:
    own = own_curve(curves)
    if own is None or rival not in curves:
        return Claim(where, says, NOT_RUN, NOT_RUN)
    factors = [one for _, one in compare(own, curves[rival], what)]
    if not factors:
        return Claim(where, says, _NO_TWO, _UNKNOWN)
    here = f"{min(factors):.2f} to {max(factors):.2f} times shorter, at {len(factors)} sizes"
    return Claim(where, says, here, _judge(max(factors), factor))


def _judge(here: float, paper: float) -> str:
    if here >= _REACHED * paper:
        return "holds"
    return f"less: {here:.2f} for {paper:g}" if here > 1.0 else f"not: {here:.2f} for {paper:g}"


def _claim_autoscaling(told: Gathered) -> Claim:
    says = "autoscaling can be a benefit to Pollux (filterTrace)"
    if POLLUX not in told.filtered or AUTOSCALED not in told.filtered:
        return Claim("6.3", says, NOT_RUN, NOT_RUN)
    factor = largest_factor(told.filtered[AUTOSCALED], told.filtered[POLLUX])
    if factor is None:
        return Claim("6.3", says, _NO_TWO, _UNKNOWN)
    return Claim(
        "6.3", says, f"up to {factor:.2f} times shorter than on a fixed cluster", "holds" if factor > 1 else "not"
    )


def _on_time(told: Gathered) -> Iterator[Claim]:
    says = "at 55 GPUs BOA Constrictor rents more in bursts than Pollux with autoscaling"
    few = told.watched_few
    if EXACT in few and AUTOSCALED in few:
        own, other = (few[name]["cell"]["most_gpus"] for name in (EXACT, AUTOSCALED))
        yield Claim("figure 5", says, f"at most {own} GPUs in use, and {other}", "holds" if own > other else "not")
    else:
        yield Claim("figure 5", says, NOT_RUN, NOT_RUN)
    says = "average efficiency 0.64, Pollux with autoscaling 0.73, both at 112 GPUs"
    own_watched = told.watched.get(EXACT)
    if own_watched is None:
        yield Claim("figure 7", says, NOT_RUN, NOT_RUN)
        return
    own_by_time, own_by_gpu = average_efficiency(own_watched["cell"])
    here = f"{own_by_time:.2f} over time, {own_by_gpu:.2f} over GPU-hours"
    rival = told.watched.get(AUTOSCALED)
    if rival is None:
        yield Claim("figure 7", says, f"{here} at a budget of {FIGURE7_GPUS:g}; the rival: {NOT_RUN}", _UNKNOWN)
        return
    by_time, by_gpu = average_efficiency(rival["cell"])
    here += f"; Pollux with autoscaling {by_time:.2f}, {by_gpu:.2f}"
    verdict = "holds" if own_by_time < by_time else "not"
    yield Claim("figure 7", says, here, verdict)


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


def _on_information(told: Gathered) -> Iterator[Claim]:
    for name in (EXACT, PUBLISHED):
        perfect, imperfect = (told.information.get(f"{name}, {word}") for word in ("perfect", "imperfect"))
        says = f"{name}: essentially unchanged by errors of prediction"
        if perfect is None or imperfect is None:
            yield Claim("figure 8", says, NOT_RUN, NOT_RUN)
            continue
        compared = compare(perfect, imperfect)
        least = _AWAY * min(point.node_gpu_hours for point in perfect.points)
        away = [factor for point, factor in compared if point.node_gpu_hours >= least]
        if not away:
            yield Claim("figure 8", says, _NO_TWO, _UNKNOWN)
            continue
        below = [factor for point, factor in compared if point.node_gpu_hours < least]
        here = f"mean {100 * (np.median(away) - 1):+.1f} % in the median, at most {100 * (max(away) - 1):+.1f} %"
        if below:
            here += f"; within a tenth of the least GPU-hours up to {100 * (max(below) - 1):+.0f} %"
        verdict = "holds" if max(away) <= 1.05 else "not quite" if max(away) <= 1.15 else "not"
        yield Claim("figure 8", says, here, verdict)
    says = "Pollux with autoscaling: up to 1.4 times slower with errors"
    if AUTOSCALED not in told.newtrace or AUTOSCALED not in told.learning:
        yield Claim("figure 8", says, NOT_RUN, NOT_RUN)
        return
    factors = [factor for _, factor in compare(told.newtrace[AUTOSCALED], told.learning[AUTOSCALED])]
    if not factors:
        yield Claim("figure 8", says, _NO_TWO, _UNKNOWN)
        return
    here = f"{min(factors):.2f} to {max(factors):.2f} times, at {len(factors)} targets"
    yield Claim("figure 8", says, here, _judge(max(factors), 1.4))


def _on_arrivals(told: Gathered) -> Iterator[Claim]:
    says = "as C² grows to 30, the advantage over Pollux with autoscaling grows"
    by_variation = average_arrivals(told)
    for name, own in ((AUTOSCALED, EXACT_ALIKE), (POLLUX, EXACT), ("least attained service", EXACT)):
        factors = [means[name] / means[own] for _, means in by_variation if name in means and own in means]
        if not factors:
            if name != "least attained service":
                yield Claim("figure 9", says.replace(AUTOSCALED, name), NOT_RUN, NOT_RUN)
            continue
        here = f"{factors[0]:.2f} times at the least C², {factors[-1]:.2f} at the largest, over {name}"
        yield Claim("figure 9", says.replace(AUTOSCALED, name), here, "holds" if factors[-1] > factors[0] else "not")


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


def _on_reclaiming(told: Gathered) -> Iterator[Claim]:
    says = "the time until nodes are reclaimed costs BOA Constrictor less than Pollux with autoscaling"
    own, rival = told.watched_few.get(EXACT), told.watched_few.get(AUTOSCALED)
    if own is None:
        yield Claim("figure 11", says, NOT_RUN, NOT_RUN)
        return
    shares = [reclaimed_share(one) for one in (own, rival) if one is not None]
    here = f"+{100 * shares[0]:.1f} % of node-hours, where each release takes 5 min"
    if rival is None:
        yield Claim("figure 11", says, f"{here}; the rival: {NOT_RUN}", _UNKNOWN)
    else:
        verdict = "holds" if shares[0] < shares[1] else "not"
        yield Claim("figure 11", says, f"{here}; Pollux with autoscaling +{100 * shares[1]:.1f} %", verdict)


#: Seconds that a cloud takes to reclaim a released node; the paper states none.
RECLAIM_S = 300.0


def reclaimed_share(watched: Mapping[str, Any]) -> float:
    """Return what reclaiming adds to the hours of rented nodes, if no node is rented again meanwhile."""
    hours = watched["releases"] * watched["cell"]["gpus_per_node"] * RECLAIM_S / SECONDS_PER_HOUR
    return float(hours / watched["cell"]["node_gpu_hours"])


def _on_latencies(told: Gathered) -> Iterator[Claim]:
    for name, says, limit_s in (
        (EXACT, "a decision takes BOA Constrictor 0.146 ms on average", 0.146e-3),
        (POLLUX, "Pollux 4.39 s", None),
        (AUTOSCALED, "Pollux with autoscaling up to 23.58 s", None),
    ):
        watched = told.watched.get(name)
        if watched is None:
            yield Claim("5.4", says, NOT_RUN, NOT_RUN)
            continue
        here = f"{1000 * watched['decision_mean_s']:.3g} ms, at most {1000 * watched['decision_most_s']:.3g} ms"
        verdict = "a figure of another program" if limit_s is None else "holds"
        yield Claim("5.4", says, f"{here} ({watched['decisions']:,} decisions)", verdict)
    for name in (PUBLISHED, EXACT):
        if name in told.solve_s:
            mean_s = float(np.mean(told.solve_s[name]))
            here = f"{1000 * mean_s:.0f} ms on average ({name}, {len(told.solve_s[name])} plans)"
            yield Claim("5.4", "calculating the widths takes about 500 s", here, f"{500 / mean_s:,.0f} times faster")
