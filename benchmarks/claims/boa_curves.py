"""Claims of the paper on BOA that compare policies at equal budgets, or budgets at equal means: figures 1, 4 and 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claims.boa_running import Curve, Point, compare
from claims.boa_setting import AUTOSCALED, EXACT, POLLUX, PUBLISHED
from claims.measure_boa import (
    AT_ONCE,
    DESCRIBED,
    ELSEWHERE,
    LEARNED,
    LEARNING,
    RECLAIM_S,
    START_S,
    WARM_S,
    part_of,
)
from claims.record import Claim, Rows, Verdict, judge_at_least, not_run

#: What the paper calls its traces, and the hours over which their jobs arrive.
TRACES = {"few": "the 85 jobs", "filtertrace": "filterTrace", "newtrace": "newTrace"}
SPANS_H = {"few": 8.0, "filtertrace": 48.0, "newtrace": 48.0}
SLOWDOWNS = {"off": "without Sia's slowdowns (the paper's)", "on": "with Sia's slowdowns (not the paper's)"}
#: The paper's mean of figure 4, in seconds.
FIGURE4_MEAN_S = 2100.0


@dataclass(frozen=True)
class Reached(Point):
    """A point with what is told beside it; ``above`` is by which part the mean is above the proven least."""

    billed_gpu_hours: float
    above: float | None
    efficiency: float
    rescales: float
    queued_s: float


#: How BOA knows the workload, in a word for the claim and in one for the set-up.
WAYS: Mapping[str, tuple[str, str]] = {
    EXACT: ("BOA knows the trace", "BOA knows the trace's rates and sizes, and both policies all speeds"),
    AT_ONCE: (
        "BOA knows the trace and decides at once",
        "BOA knows the trace's rates and sizes and decides at once, as looking widths up allows; both policies know "
        "all speeds",
    ),
    ELSEWHERE: (
        "BOA planned on another trace",
        "BOA is planned on another trace of the family, and both policies know all speeds",
    ),
    LEARNING: (
        "BOA learns",
        "BOA starts from another trace of the family and from speeds of the fitted model, learns from what runs, "
        "calculates widths again every 15 min and decides at once; the rival knows all speeds unless said otherwise",
    ),
}


@dataclass(frozen=True)
class Pair:
    """Two policies on a trace: BOA in a way to know it, a rival, and what of completion times is compared."""

    which: str
    slowdown: str
    way: str
    rival: str
    what: str = "mean_s"

    @property
    def setting(self) -> str:
        """The set-up of the comparison."""
        return set_up(self.which, self.slowdown, WAYS[self.way][1])


def set_up(which: str, slowdown: str, more: str = "") -> str:
    """State the set-up of a comparison on a trace."""
    said = (
        f"Simulator instead of AWS; {TRACES[which]}, {SLOWDOWNS[slowdown]}; nodes of 4 T4 that start in {START_S:g} s, "
        f"in {WARM_S:g} s if they are rented again within the {RECLAIM_S / 60:g} min until they are reclaimed "
        "(assumed: the paper does not say how long that takes); decisions every 60 s; budgets are GPU-hours of rented "
        "nodes, starts included and reclaiming not, as in 6.2"
    )
    return f"{said}; {more}." if more else f"{said}."


def read_curves(rows: Rows, part: str, slowdown: str) -> dict[str, Curve]:
    """Return the curves of a part, of the points at which every job was completed."""
    found: dict[str, Curve] = {}
    for name, points in rows.get(part_of(part, slowdown), {}).items():
        reached = [read_point(point) for point in points if not point["left"]]
        if reached:
            found[name] = Curve(name, reached)
    apart = (DESCRIBED, "few", "described"), (LEARNED, "newtrace", "learned"), (LEARNING, "newtrace", "learning")
    for name, of, key in apart:
        reached = [read_point(point) for point in rows.get(key, []) if not point["left"]]
        if reached and (part, slowdown) == (of, "off"):
            found[name] = Curve(name, reached)
    return found


def read_point(row: Mapping[str, Any]) -> Reached:
    """Read a point as it is kept."""
    bound_s = row["bound_s"]
    return Reached(
        row["label"],
        row["held_h"],
        row["node_h"],
        row["mean_s"],
        row["p95_s"],
        row["most_gpus"],
        row["billed_h"],
        row["mean_s"] / bound_s - 1.0 if bound_s else None,
        row["efficiency"],
        row["rescales"],
        row["queued_s"],
    )


def list_claims_on_curves(rows: Rows) -> Iterator[Claim]:
    """List them, the paper's set-up first."""
    for slowdown in SLOWDOWNS:
        yield from _on_headlines(rows, slowdown)
    for where, which, what, factor in (
        ("figure 4a", "few", "mean_s", 1.6),
        ("figure 6a", "filtertrace", "mean_s", 1.7),
        ("figure 6b", "filtertrace", "p95_s", 1.7),
        ("figure 6c", "newtrace", "mean_s", 1.8),
        ("figure 6d", "newtrace", "p95_s", 1.6),
    ):
        yield from _on_ways(rows, where, which, what, factor)
    yield _on_described(rows)
    for slowdown in SLOWDOWNS:
        yield _everywhere(rows, slowdown)
        for which in TRACES:
            if slowdown == "off" or which == "few":
                yield _on_autoscaling(rows, which, slowdown)
        yield _on_algorithm(rows, slowdown)


def _on_headlines(rows: Rows, slowdown: str) -> Iterator[Claim]:
    """List those of the abstract, section 1 and figure 1."""
    word = f"slowdowns {slowdown}, BOA knows the trace"
    few, many = (Pair(which, slowdown, EXACT, rival) for which, rival in (("few", AUTOSCALED), ("newtrace", POLLUX)))
    for where, says, pair, factor in (
        ("abstract", "mean up to 1.6 times shorter at a given budget, small scale", few, 1.6),
        ("1", "mean up to about 1.75 times shorter at a given budget, small scale", few, 1.75),
        ("abstract, figure 1", "mean up to 2 times shorter at a given budget, large scale", many, 2.0),
        ("figure 1", "P95 up to 3 times shorter at a given budget", replace(many, what="p95_s"), 3.0),
    ):
        if slowdown == "off" or pair.rival != POLLUX:
            yield judge_factor(rows, where, f"{says}, against {pair.rival} ({word})", pair, factor)
    for where, says, which, factor in (
        ("abstract", "up to 2 times less budget for a given mean, small scale", "few", 2.0),
        ("abstract, 1", "up to 2 times less budget for a given mean, large scale", "newtrace", 2.0),
        ("1, 6.2", "up to about 2.2 times less budget for a given mean, small scale", "few", 2.2),
    ):
        for way in (EXACT, AT_ONCE) if which == "few" else (EXACT,):
            told = says if way == EXACT else f"{says}, where BOA decides at once"
            yield judge_budget(rows, where, f"{told} ({word})", Pair(which, slowdown, way, AUTOSCALED), factor)


def _on_ways(rows: Rows, where: str, which: str, what: str, factor: float) -> Iterator[Claim]:
    """List those of figures 4 and 6, by what BOA knows; in the paper it learns at large scale, and not at small."""
    word = "mean" if what == "mean_s" else "P95"
    first = (EXACT, AT_ONCE, ELSEWHERE, LEARNING) if which == "few" else (LEARNING, ELSEWHERE, EXACT, AT_ONCE)
    for slowdown in SLOWDOWNS:
        for way in first:
            if slowdown == "on" and way == LEARNING:
                continue
            rivals = [AUTOSCALED, LEARNED] if way == LEARNING and which == "newtrace" else [AUTOSCALED]
            for rival in rivals:
                says = f"{word} up to {factor:g} times shorter on {TRACES[which]} at a given budget, against {rival}"
                says += f" (slowdowns {slowdown}, {WAYS[way][0]})"
                yield judge_factor(rows, where, says, Pair(which, slowdown, way, rival, what), factor)


def judge_factor(rows: Rows, where: str, says: str, pair: Pair, factor: float) -> Claim:
    """Judge by which factor a policy's completion times are shorter than its rival's where both rent as much."""
    curves, paper = read_curves(rows, pair.which, pair.slowdown), f"up to {factor:g} times"
    if pair.way not in curves or pair.rival not in curves:
        return not_run(where, says, paper, pair.setting)
    own, rival = curves[pair.way], curves[pair.rival]
    if len(own.points) == 1:
        return _judge_one(where, says, pair, factor, (own.points[0], rival))
    compared = compare(own, rival, pair.what)
    if not compared:
        return find_none_equal(where, says, paper, pair.setting)
    point, most = max(compared, key=lambda each: each[1])
    least = min(each for _, each in compared)
    here = f"{least:.2f} to {most:.2f} times, at {len(compared)} sizes" if len(compared) > 1 else f"{most:.2f} times"
    why = _why(own, point, pair.what, SPANS_H[pair.which])
    return Claim(where, says, paper, here, judge_at_least(most, factor), why, pair.setting)


def _judge_one(where: str, says: str, pair: Pair, factor: float, found: tuple[Point, Curve]) -> Claim:
    """Judge the only size at which a policy was run, against the rival's curve there."""
    point, rival = found
    hours, paper = point.node_gpu_hours, f"up to {factor:g} times"
    value = rival.at(hours, pair.what)
    if value is None or hours > max(other.node_gpu_hours for other in rival.points):
        return find_none_equal(where, says, paper, pair.setting)
    shorter = value / getattr(point, pair.what)
    why = (
        f"At {hours / SPANS_H[pair.which]:,.0f} GPUs, its only size: {getattr(point, pair.what):,.0f} s for "
        f"{value:,.0f} s; means are {tell_above(point)} and, at the nearest size, {tell_above(rival.nearest(hours))} "
        "above the proven least."
    )
    return Claim(where, says, paper, f"{shorter:.2f} times", judge_at_least(shorter, factor), why, pair.setting)


def find_none_equal(where: str, says: str, paper: str, setting: str) -> Claim:
    """Make the row of a claim of which no two points can be compared."""
    return Claim(where, says, paper, "", Verdict.UNSAID, "No two points have equal GPU-hours.", setting)


def _why(own: Curve, point: Point, what: str, span_h: float) -> str:
    """Say where the largest factor is, and how far both are above the proven least mean there."""
    hours, near = point.node_gpu_hours, own.nearest(point.node_gpu_hours)
    value = own.at(hours, what)
    word = "" if what == "mean_s" else " of P95"
    said = f"Most at {hours / span_h:,.0f} GPUs: {value:,.0f} s{word} for {getattr(point, what):,.0f} s"
    return f"{said}; means are {tell_above(near)} and {tell_above(point)} above the proven least."


def tell_above(point: Point) -> str:
    """Say by how much a mean is above the least of any policy with as many GPU-hours."""
    above = getattr(point, "above", None)
    return "an unknown part" if above is None else f"{100 * above:.0f} %"


def find_ratios(own: Curve, rival: Curve) -> list[tuple[Point, float]]:
    """Return how many times the GPU-hours of each point of a rival are those of the curve at the same mean.

    Points that a cheaper one of the rival's beats are left out, and means that the curve does not reach.
    """
    found = []
    for point in rival.points:
        hours, best = own.hours_for(point.mean_s), rival.at(point.node_gpu_hours)
        if hours is not None and best is not None and point.mean_s <= best * (1 + 1e-9):
            found.append((point, point.node_gpu_hours / hours))
    return found


def judge_budget(rows: Rows, where: str, says: str, pair: Pair, factor: float) -> Claim:
    """Judge how many times less a policy rents than its rival where both have the same mean."""
    curves, paper = read_curves(rows, pair.which, pair.slowdown), f"up to {factor:g} times"
    setting = f"{pair.setting[:-1]}; ratios at equal means, on lines of powers between points."
    if pair.way not in curves or pair.rival not in curves:
        return not_run(where, says, paper, setting)
    own, rival = curves[pair.way], curves[pair.rival]
    found = find_ratios(own, rival)
    if not found:
        return Claim(where, says, paper, "", Verdict.UNSAID, "No two points have equal means.", setting)
    point, most = max(found, key=lambda each: each[1])
    why = f"Most at a mean of {point.mean_s:,.0f} s"
    hours = own.hours_for(FIGURE4_MEAN_S), rival.hours_for(FIGURE4_MEAN_S)
    if pair.which == "few" and hours[0] is not None and hours[1] is not None:
        why += (
            f"; at the paper's {FIGURE4_MEAN_S:,.0f} s it is {hours[1] / hours[0]:.2f}, but means are not those of AWS"
        )
    near = own.nearest(point.node_gpu_hours / most)
    why += f". The means are {tell_above(near)} and {tell_above(point)} above the proven least."
    here = f"{min(each for _, each in found):.2f} to {most:.2f} times, at {len(found)} means"
    return Claim(where, says, paper, here, judge_at_least(most, factor), why, setting)


def _on_described(rows: Rows) -> Claim:
    """Figure 4 against the rival as the paper describes it."""
    says = "mean up to 1.6 times shorter on the 85 jobs, against Pollux with autoscaling as the paper describes it"
    more = (
        "the rival's divisions and sizes are what NSGA-II finds (20 divisions that change 20 times; published: 100 and "
        "100) and count a round late, as a decision takes 23.58 s; in all other rows it finds sizes exactly and at "
        "once, and is the stronger for it"
    )
    claim = judge_factor(rows, "figure 4a", says, Pair("few", "off", EXACT, DESCRIBED), 1.6)
    return replace(claim, setting=set_up("few", "off", more))


def _everywhere(rows: Rows, slowdown: str) -> Claim:
    where, says = "figure 4a", f"a shorter mean at all usage levels (slowdowns {slowdown}, BOA knows the trace)"
    curves, setting = read_curves(rows, "few", slowdown), set_up("few", slowdown, WAYS[EXACT][1])
    if EXACT not in curves or AUTOSCALED not in curves:
        return not_run(where, says, "all", setting)
    factors = [each for _, each in compare(curves[EXACT], curves[AUTOSCALED])]
    if not factors:
        return find_none_equal(where, says, "all", setting)
    better = sum(each > 1.0 for each in factors)
    verdict = Verdict.HOLDS if better == len(factors) else Verdict.NOT
    why = f"The least is {min(factors):.2f} times, the largest {max(factors):.2f}."
    return Claim(where, says, "all", f"at {better} of {len(factors)} sizes", verdict, why, setting)


def _on_autoscaling(rows: Rows, which: str, slowdown: str) -> Claim:
    says = f"autoscaling can be a benefit to Pollux, on {TRACES[which]} (slowdowns {slowdown})"
    setting = set_up(which, slowdown, "Pollux on fixed clusters that are there from the start")
    curves = read_curves(rows, which, slowdown)
    if POLLUX not in curves or AUTOSCALED not in curves:
        return not_run("6.3", says, "a benefit", setting)
    compared = compare(curves[AUTOSCALED], curves[POLLUX])
    if not compared:
        return find_none_equal("6.3", says, "a benefit", setting)
    point, most = max(compared, key=lambda pair: pair[1])
    why = _why(curves[AUTOSCALED], point, "mean_s", SPANS_H[which])
    verdict = Verdict.HOLDS if most > 1.0 else Verdict.NOT
    return Claim("6.3", says, "a benefit", f"up to {most:.2f} times shorter", verdict, why, setting)


def _on_algorithm(rows: Rows, slowdown: str) -> Claim:
    says = f"the width calculator (Algorithm 1) approximates the best widths, on newTrace (slowdowns {slowdown})"
    curves, setting = read_curves(rows, "newtrace", slowdown), set_up("newtrace", slowdown, WAYS[EXACT][1])
    if EXACT not in curves or PUBLISHED not in curves:
        return not_run("4.3", says, "", setting)
    factors = sorted(each for _, each in compare(curves[EXACT], curves[PUBLISHED]))
    if not factors:
        return find_none_equal("4.3", says, "", setting)
    middle = factors[len(factors) // 2]
    here = f"mean {_percent(middle)} in the median, {_percent(factors[0])} to {_percent(factors[-1])}"
    verdict = Verdict.HOLDS if middle <= 1.05 else Verdict.NOT
    why = "Beside exact widths at equal GPU-hours; within 5 % in the median it holds."
    return Claim("4.3", says, "", here, verdict, why, setting)


def _percent(factor: float) -> str:
    return f"{100 * (factor - 1):+.1f} %"


def tabulate_points(curves: Mapping[str, Curve], span_h: float) -> Sequence[Sequence[str]]:
    """Return the cells of a table: policy, what was set, GPUs, mean, how far it is above the bound, P95, most GPUs."""
    return [
        [
            name,
            point.label,
            f"{point.node_gpu_hours / span_h:,.1f}",
            f"{point.mean_s:,.0f}",
            tell_above(point),
            f"{point.p95_s:,.0f}",
            f"{point.most_gpus:,}",
        ]
        for name, curve in curves.items()
        for point in sorted(curve.points, key=lambda each: each.node_gpu_hours)
    ]
