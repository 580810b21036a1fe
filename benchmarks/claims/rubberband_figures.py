"""The claims of RubberBand's figures, and its page's charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from claims.charts import Axis, Line, draw
from claims.record import Chart, Claim, Rows, Verdict, judge_all, judge_at_least, not_run

_TWO = (
    "ResNet50 by two profiles: *measured*, on 1 to 8 V100s in HyperSched's source, and *fitted*, table 1 within a "
    "machine and "
    "table 2's fit beyond; the paper shows its own as a picture"
)
FIGURE4 = "Throughputs in HyperSched's source (1 to 8 V100s, for babi_lstm up to 32 CPU workers), relative to one"
FIGURE9 = (
    f"{_TWO}. SHA(64, 4, 508, 2), 4 s an iteration on one GPU, normal noise, below zero counted as zero, drawn for "
    "each iteration "
    "or once for a trial and stage; no delays; a deadline of two hours, as the paper states none; optimal plans"
)
FIGURE10 = (
    f"{_TWO}. SHA(64, 4, 508, 2), deadlines of 10 to 60 min, as the paper states none; every machine loads the data "
    "once"
)
FIGURE11 = f"{_TWO}. SHA(k, 4, 508, 2) with k of 16 to 512 within 20 min; nothing varies; optimal plans"
FIGURE12 = (
    "Amdahl's law fitted to HyperSched's throughputs of ResNet50, since 90 min need more than the 8 GPUs that were "
    "measured; "
    "SHA(512, 4, 4096, 2), 12 s an iteration on one GPU, at most 64 GPUs a trial, 90 to 160 min; optimal plans"
)
_ORDER = 10.0
_SAME = 1e-6
#: A change of a cost that is none.
_NONE = 0.01


def list_figure_claims(rows: Rows) -> list[Claim]:
    """List the claims of figures 4 and 9 to 12."""
    parts = (_on_figure4, _on_figure9, _on_figure10, _on_figure11, _on_figure12)
    return [claim for part in parts for claim in part(rows)]


def _on_figure4(rows: Rows) -> Iterator[Claim]:
    says = "training gets less than proportionally faster with GPUs"
    if "scaling" not in rows:
        yield not_run("figure 4", says, "", FIGURE4)
        return
    last = {name: max(curve.items(), key=lambda one: int(one[0])) for name, curve in rows["scaling"].items()}
    here = ", ".join(f"{name} {speedup:.2f} on {gpus}" for name, (gpus, speedup) in last.items())
    verdict = judge_all([speedup < int(gpus) for gpus, speedup in last.values()])
    yield Claim("figure 4", says, "", here, verdict, "All that were measured.", FIGURE4)


def _on_figure9(rows: Rows) -> Iterator[Claim]:
    for planner, word in (("static", "static"), ("auto", "elastic")):
        says = f"with much variance {word} plans cost more per machine than per function, by"
        if "figure 9" not in rows:
            yield not_run("figure 9", says, "an order of magnitude", FIGURE9)
            continue
        largest = max(row["deviation_s"] for row in rows["figure 9"])
        ratios = {}
        for row in rows["figure 9"]:
            if row["deviation_s"] == largest and row["billing"] == "per-instance":
                other = {**row, "billing": "per-function"}
                key = ("profile", "deviation_s", "noise", "billing")
                same = next(one for one in rows["figure 9"] if all(one[k] == other[k] for k in key))
                ratios[row["profile"], row["noise"]] = row[planner] / same[planner]
        here = ", ".join(f"{ratio:.2f} ({profile}, by {noise})" for (profile, noise), ratio in ratios.items())
        verdict = judge_at_least(max(ratios.values()), _ORDER, from_=_ORDER / 2)
        why = (
            f"At a deviation of {largest:g} s a trial's idle GPUs are no more than those of the slowest trial of a "
            "stage, which is "
            "a few deviations, not ten times the mean; dearer per machine it is."
        )
        yield Claim("figure 9", says, "an order of magnitude", here, verdict, why, FIGURE9)


def _on_figure10(rows: Rows) -> Iterator[Claim]:
    all_says = (
        ("with CIFAR-10 at $0.16 a GB elastic plans are cheaper by", "about 1.5 times"),
        ("elastic plans never cost more than static ones, whatever data cost", ""),
        ("with ImageNet at $0.16 a GB elasticity gains little", ""),
        ("with CIFAR-10 the price of data is negligible", ""),
    )
    if "figure 10" not in rows:
        for says, paper in all_says:
            yield not_run("figure 10", says, paper, FIGURE10)
        return
    kept = [row for row in rows["figure 10"] if row["static"] and row["auto"]]
    dear = [row for row in kept if row["usd_per_gb"] == max(one["usd_per_gb"] for one in kept)]
    best = {}
    for profile in dict.fromkeys(row["profile"] for row in dear):
        ratios = [(_ratio(row), row["deadline_min"]) for row in dear if _is(row, profile, "CIFAR-10")]
        best[profile] = max(ratios)
    here = ", ".join(f"at best {ratio:.2f} ({profile}, {minutes:g} min)" for profile, (ratio, minutes) in best.items())
    at_20 = [f"{_ratio(row):.2f} ({row['profile']})" for row in dear if row["data"] == "CIFAR-10" and _at_20(row)]
    verdict = judge_all([ratio >= 0.95 * 1.5 for ratio, _ in best.values()])
    why = (
        "It takes the tightest deadline and the profile that scales worse; at 20 min, figure 11's deadline, "
        f"{', '.join(at_20)}."
    )
    yield Claim("figure 10", *all_says[0], here, verdict, why, FIGURE10)
    least = min(_ratio(row) for row in kept)
    here = (
        f"static costs {least:.3f} to {max(_ratio(row) for row in kept):.2f} times the optimum, in {len(kept)} settings"
    )
    why = "Static plans are among the elastic ones."
    yield Claim("figure 10", *all_says[1], here, judge_all([least >= 1.0 - _SAME]), why, FIGURE10)
    gain = max(_ratio(row) for row in dear if row["data"] == "ImageNet") - 1.0
    verdict = Verdict.HOLDS if gain <= 0.05 else Verdict.NOT
    yield Claim(
        "figure 10", *all_says[2], f"at most {100 * gain:.1f} %", verdict, "Data are most of the cost.", FIGURE10
    )
    free = {(row["profile"], row["deadline_min"]): row for row in kept if row["usd_per_gb"] == 0.0}
    rises = [
        row["auto"] / free[row["profile"], row["deadline_min"]]["auto"] - 1.0
        for row in dear
        if row["data"] == "CIFAR-10"
    ]
    verdict = Verdict.HOLDS if max(rises) <= 0.05 else Verdict.IN_PART
    yield Claim("6.1.2", *all_says[3], f"+{100 * max(rises):.1f} % at most", verdict, "At $0.16 a GB.", FIGURE10)


def _ratio(row: dict[str, Any]) -> float:
    return float(row["static"] / row["auto"])


def _is(row: dict[str, Any], profile: str, data: str) -> bool:
    return bool(row["profile"] == profile and row["data"] == data)


def _at_20(row: dict[str, Any]) -> bool:
    return 19.9 < float(row["deadline_min"]) < 20.1


def _on_figure11(rows: Rows) -> Iterator[Claim]:
    for billing in ("per-instance", "per-function"):
        always, growing = (
            f"elastic plans are always cheaper, {billing}",
            f"the more trials, the more is saved, {billing}",
        )
        if "figure 11" not in rows:
            yield not_run("figure 11", always, "", FIGURE11)
            yield not_run("figure 11", growing, "", FIGURE11)
            continue
        mine = [row for row in rows["figure 11"] if row["billing"] == billing]
        cheaper = [_ratio(row) > 1.0 + _SAME for row in mine]
        ratios = [_ratio(row) for row in mine]
        here = (
            f"cheaper in {sum(cheaper)} of {len(mine)}; static costs {min(ratios):.3f} to {max(ratios):.3f} times as "
            "much"
        )
        why = "With few trials the best cluster is one machine throughout, which is static."
        why = why if not all(cheaper) else "With both profiles."
        yield Claim("figure 11", always, "", here, judge_all(cheaper), why, FIGURE11)
        saved = {
            profile: [row["static"] - row["auto"] for row in mine if row["profile"] == profile]
            for profile in dict.fromkeys(row["profile"] for row in mine)
        }
        here = "; ".join(
            f"{profile}: " + ", ".join(f"${one:.2f}" for one in dollars) for profile, dollars in saved.items()
        )
        rising = [b >= a - _SAME for dollars in saved.values() for a, b in pairwise(dollars)]
        share = [_ratio(row) - 1.0 for row in mine if row["trials"] == max(one["trials"] for one in mine)]
        why = f"In dollars; as a share it levels off, at {' and '.join(f'{100 * one:.0f} %' for one in share)}."
        yield Claim("figure 11", growing, "", here, judge_all(rising), why, FIGURE11)


def _on_figure12(rows: Rows) -> Iterator[Claim]:
    all_says = (
        ("with 1 s of initialisation elastic plans are cheaper by up to", "3.5 times"),
        ("at the tightest deadlines elastic plans are better, with overheads too, by", "an order of magnitude"),
        ("from 1 to 10 s of initialisation, static plans cost, at 90 min,", "no more"),
        ("from 1 to 10 s of initialisation, elastic plans cost, at 90 min,", "almost 2 times as much"),
        ("the slower machines start, the smaller is the advantage", ""),
    )
    if "figure 12" not in rows:
        for says, paper in all_says:
            yield not_run("figure 12", says, paper, FIGURE12)
        return
    mine = [row for row in rows["figure 12"] if row["profile"] == "measured" and row["static"]]
    latencies = sorted({row["initialise_s"] for row in mine})
    others = [
        (_ratio(row), row["profile"]) for row in rows["figure 12"] if row["profile"] != "measured" and row["static"]
    ]
    shares = ", ".join(f"{ratio:.2f} with {profile}" for ratio, profile in _first_of_each(others))
    largest = max(_ratio(row) for row in mine if row["initialise_s"] == latencies[0])
    why = f"With Amdahl's law of other shares, at 90 min: {shares}." if shares else "Over all deadlines."
    verdict = judge_at_least(largest, 3.5, from_=1.75)
    yield Claim("figure 12, 6.1.4", *all_says[0], f"{largest:.2f} times", verdict, why, FIGURE12)
    tight = [_ratio(row) for row in mine if row["deadline_min"] == min(one["deadline_min"] for one in mine)]
    here = ", ".join(f"{ratio:.2f}" for ratio in tight) + f" times with {', '.join(f'{one:g}' for one in latencies)} s"
    verdict = judge_at_least(max(tight), _ORDER, from_=_ORDER / 2)
    why = "The text's own figure at 1 s is 3.5 times."
    why += f" With other shares it is {max(others)[0]:.2f} at most." if others else ""
    yield Claim("6.1.4", *all_says[1], here, verdict, why, FIGURE12)
    at_90 = {
        row["initialise_s"]: row for row in mine if row["deadline_min"] == min(one["deadline_min"] for one in mine)
    }
    first, second = at_90[latencies[0]], at_90[latencies[1]]
    rise = second["static"] / first["static"] - 1.0
    verdict = Verdict.HOLDS if rise <= _NONE else Verdict.NOT
    yield Claim("6.1.4", *all_says[2], f"{100 * rise:+.1f} %", verdict, "It starts its machines once.", FIGURE12)
    rise = second["auto"] / first["auto"] - 1.0
    why = (
        "A search of 90 min has ten stages: nine seconds for each machine of them add little to any plan, and the "
        "old plan stays possible."
    )
    rises = _list_rises(rows["figure 12"])
    why += f" With other shares of Amdahl's law it is {100 * max(rises):+.1f} % at most." if rises else ""
    verdict = judge_at_least(1.0 + rise, 2.0, from_=1.5)
    yield Claim("6.1.4", *all_says[3], f"{100 * rise:+.1f} %", verdict, why, FIGURE12)
    by_deadline: dict[float, list[float]] = {}
    for row in sorted(mine, key=lambda one: one["initialise_s"]):
        by_deadline.setdefault(row["deadline_min"], []).append(_ratio(row))
    falls = [all(a >= b for a, b in pairwise(ratios)) for ratios in by_deadline.values()]
    here = f"at {sum(falls)} of {len(falls)} deadlines; at 90 min {', '.join(f'{one:.2f}' for one in tight)}"
    why = "Where it does not, a static cluster of another size is hit harder."
    yield Claim("6.1.4", *all_says[4], here, judge_all(falls), why if not all(falls) else "At all.", FIGURE12)


def _list_rises(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return by how much the optimum rises from the shortest initialisation to the next, with each other share."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["profile"] != "measured" and row["auto"]:
            found.setdefault(row["profile"], []).append((row["initialise_s"], row["auto"]))
    pairs = [sorted(each)[:2] for each in found.values() if len(each) > 1]
    return [second / first - 1.0 for (_, first), (_, second) in pairs]


def _first_of_each(found: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the first ratio of each profile."""
    first: dict[str, float] = {}
    for ratio, profile in found:
        first.setdefault(profile, ratio)
    return [(ratio, profile) for profile, ratio in first.items()]


def draw_charts(rows: Rows) -> list[Chart]:
    """Draw table 2 with the paper's points beside ours, and figures 9 and 12."""
    charts = []
    if "table 2" in rows:
        charts.append(_draw_table2(rows["table 2"]))
    if "figure 9" in rows:
        charts.append(_draw_figure9(rows["figure 9"]))
    if "figure 12" in rows:
        charts.append(_draw_figure12(rows["figure 12"]))
    return charts


def _draw_table2(table: Any) -> Chart:  # noqa: ANN401 - plain data
    minutes = [20.0, 30.0, 40.0]
    paper = {
        "static": [34.00, 17.73, 14.99],
        "naive elastic": [27.50, 19.83, 19.83],
        "RubberBand": [15.68, 14.70, 14.68],
    }
    here = {"static": "static, all GPUs shared", "naive elastic": "naive-elastic", "RubberBand": "auto"}
    lines = [Line(f"{name}, the paper", minutes, values) for name, values in paper.items()]
    for name, planner in here.items():
        word = "the optimum" if planner == "auto" else name
        lines.append(Line(f"{word}, here", minutes, [table[f"{one:g}"][planner]["usd"] for one in minutes]))
    title = "cost of a search by its deadline"
    svg = draw(title, lines, Axis("deadline (min)"), Axis("cost ($)", low=0.0))
    return Chart(
        "table2", "Table 2: costs by deadline, the paper's simulated ones and ours; ours were not fitted.", svg
    )


def _draw_figure9(rows: Sequence[dict[str, Any]]) -> Chart:
    lines = []
    for noise in ("iteration", "trial"):
        for billing in ("per-instance", "per-function"):
            mine = [r for r in rows if (r["profile"], r["noise"], r["billing"]) == ("measured", noise, billing)]
            for planner, word in (("static", "static"), ("auto", "optimum")):
                if mine and (noise == "trial" or planner == "auto"):
                    name = f"{word}, {billing}, by {noise}"
                    lines.append(Line(name, [r["deviation_s"] for r in mine], [r[planner] for r in mine]))
    axes = Axis("deviation of an iteration (s)"), Axis("cost ($)", low=0.0)
    caption = "Figure 9: stragglers by billing, with the measured profile. The paper's figure has no numbers."
    return Chart("figure9", caption, draw("cost by deviation of an iteration", lines, *axes))


def _draw_figure12(rows: Sequence[dict[str, Any]]) -> Chart:
    mine = [row for row in rows if row["profile"] == "measured" and row["static"]]
    lines = []
    for planner, word in (("static", "static"), ("auto", "optimum")):
        for seconds in sorted({row["initialise_s"] for row in mine}):
            points = [row for row in mine if row["initialise_s"] == seconds]
            lines.append(
                Line(f"{word}, {seconds:g} s", [r["deadline_min"] for r in points], [r[planner] for r in points])
            )
    axes = Axis("deadline (min)"), Axis("cost ($)", low=0.0)
    caption = "Figure 12: 512 trials by deadline and seconds of initialisation. The paper's figure has no numbers."
    return Chart("figure12", caption, draw("cost by deadline and initialisation", lines, *axes))
