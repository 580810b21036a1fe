"""What SEER's page says after its claims: which shortest round, tasks, winners; and the charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from claims.record import Chart, Rows
from claims.seer_tables import BLOCKS, NAMES, join, printed_of

MARKS = ("0.5", "1", "2", "4", "8")
#: Points of accuracy within which a choice counts as the best.
NEAR = 0.5
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 320, 60, 30, 60
PAPER_COLOR, OUR_COLOR = "#D55E00", "#0072B2"


def tell(rows: Rows) -> str:
    """Write the sections after the charts."""
    rows = join(rows)
    parts: list[str] = []
    if "informed" in rows and "sweep" in rows:
        parts += _tell_choice(rows)
        parts += _tell_paces(rows) if "paces" in rows else ()
    if "winners" in rows:
        parts += ["## Winners and moved trials", *_tell_winners(rows["winners"])]
    if "tasks" in rows:
        parts += ["## Tasks", *_tell_tasks(rows["tasks"])]
    return "\n\n".join(parts)


def shortfalls(rows: Rows) -> dict[str, list[tuple[str, str, float]]]:
    """Return (task, setting, points below the best shortest round of five) for each way to choose."""
    told: dict[str, list[tuple[str, str, float]]] = {}
    for task, settings in rows["sweep"].items():
        for setting, swept in settings.items():
            chosen = rows["informed"].get(task, {}).get(setting)
            if chosen is None:
                continue
            ways = {f"{mark} epochs": swept[mark]["accuracy"] for mark in MARKS if mark in swept}
            best = max(ways.values())
            ways["informed"] = chosen["accuracy"]
            two = rows.get("two rounds", {}).get(task, {}).get(setting)
            if two is not None:
                ways["two rounds"] = two["accuracy"]
            for way, accuracy in ways.items():
                told.setdefault(way, []).append((task, setting, 100 * (best - accuracy)))
    return told


def _tell_choice(rows: Rows) -> Iterator[str]:
    told = shortfalls(rows)
    near = {way: sum(points <= NEAR for *_, points in each) for way, each in told.items()}
    total = len(told["informed"])
    yield "## Which shortest round"
    yield (
        f"SEER as published, its `least_round_min` swept from 0.5 to 8 epochs, against `informed` with the runs of "
        f"*other* "
        f"tasks as its prior (perceptrons on the same images know nothing of one another) and a `least_round_min` "
        f"of one "
        f"epoch, and against two rounds until the deadline: {total} settings, 100 searches each, the same seeds for "
        f"all. "
        f"**`informed` is within {NEAR} points of the best of the five in {near['informed']} of {total} settings** "
        f"({100 * near['informed'] / total:.0f} %). The best of five is chosen after the fact, by the accuracies "
        f"that are "
        "compared: nobody who plans has it."
    )
    table = [
        [
            way,
            f"{near[way]} of {len(each)}",
            f"{sum(points for *_, points in each) / len(each):.2f}",
            f"{max(points for *_, points in each):.2f}",
            " at ".join(max(each, key=lambda one: one[2])[:2]),
        ]
        for way, each in told.items()
    ]
    yield _write_table(("chosen", f"within {NEAR} points", "points below, mean", "at most", "where"), table)
    yield "Accuracy in each setting, and what `informed` chose:"
    yield _write_table(
        (
            "task",
            "GPU-min",
            *(f"{mark}" for mark in MARKS),
            "two rounds",
            "informed",
            "rounds",
            "first round (min)",
            "trials x GPUs",
        ),
        list(_list_settings(rows)),
    )


def _tell_paces(rows: Rows) -> Iterator[str]:
    """Say what other spreads of the pace come to, where the spread was chosen."""
    yield (
        "How many times faster or slower a new task may be than those known (`pace_spread`) is 4 above. It was "
        "chosen on the "
        "suites' two tables, below; the five tasks trained for this page were planned with it once."
    )
    table = [
        [
            task,
            setting,
            *(f"{accuracy:.3f}" for accuracy in told.values()),
            f"{rows['informed'][task][setting]['accuracy']:.3f}",
        ]
        for task, settings in rows["paces"].items()
        for setting, told in settings.items()
    ]
    spreads = next(iter(next(iter(rows["paces"].values())).values()))
    yield _write_table(("task", "GPU-min", *(f"spread {each}" for each in spreads), "spread 4"), table)


def _list_settings(rows: Rows) -> Iterator[list[str]]:
    for task, settings in rows["informed"].items():
        for setting, chosen in settings.items():
            swept = rows["sweep"][task][setting]
            known = [f"{swept[mark]['accuracy']:.3f}" if mark in swept else "" for mark in MARKS]
            two = rows.get("two rounds", {}).get(task, {}).get(setting)
            yield [
                task, setting, *known, f"{two['accuracy']:.3f}" if two else "",
                f"{chosen['accuracy']:.3f} ± {chosen['error']:.3f}", f"{chosen['rounds']}",
                f"{chosen['round_min']:.2f}",
                ", ".join(f"{trials} x{gpus:g}" for gpus, trials in chosen["brackets"]),
            ]  # fmt: skip


def _tell_winners(winners: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "Where the trials that SEER returns began, as published with a shortest round of two epochs, by the GPUs "
        "of their first bracket."
    )
    table = []
    for task, settings in winners.items():
        for setting, one in settings.items():
            started, total = one["started"], sum(one["started"].values())
            table.append(
                [
                    task, setting,
                    ", ".join(f"{gpus}: {100 * count / total:.0f} %" for gpus, count in started.items()),
                    ", ".join(f"{gpus}: {100 * share:.0f} %" for gpus, share in one["won"].items()),
                    f"{100 * one['moved']['of those that go on']:.0f} %", f"{100 * one['moved']['of winners']:.0f} %",
                ]
            )  # fmt: skip
    yield _write_table(
        ("task", "GPU-min", "trials by GPUs", "winners by GPUs", "moved, of those that go on", "moved, of winners"),
        table,
    )


def _tell_tasks(tasks: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "`digits` and `digits-low-rates` are tables of the suites (perceptrons with constant rates); the other five "
        "were "
        "trained for this page. Accuracies are of the last epoch, means over the runs."
    )
    table = [
        [
            name, f"{one['configurations']} x {one['runs']}", str(one["epochs"]),
            ", ".join(f"{each:.3f}" for each in one["quantiles"]), str(one["within a point"]),
            ", ".join(f"{mark}: {rank:.2f}" for mark, rank in one["ranks"].items()), one["sha256"],
        ]
        for name, one in tasks.items()
    ]  # fmt: skip
    head = (
        "task",
        "configurations x runs",
        "epochs",
        "accuracy: least, quartiles, most",
        "within a point of the best",
        "rank correlation with the end, by epoch",
        "SHA-256",
    )
    yield _write_table(head, table)


def _write_table(head: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    from claims.tables import write_table

    return write_table(head, table)


def draw_charts(rows: Rows) -> list[Chart]:
    """Draw what SEER gains over each rival, the paper's points beside ours, and what each shortest round costs."""
    rows = join(rows)
    charts = []
    if "rivals" in rows:
        caption = (
            "What SEER gains over its rivals as printed in Tables 2 to 4: the paper's points, and those of "
            "the tasks here."
        )
        charts.append(Chart("gains", caption, _draw_gains(rows)))
    if "informed" in rows and "sweep" in rows:
        caption = (
            "Points of accuracy below the best shortest round of five, for each way to choose; a point is a "
            "task and a setting."
        )
        charts.append(Chart("rounds", caption, _draw_shortfalls(rows)))
    return charts


def _open(title: str, least: float, most: float, ticks: Sequence[float]) -> list[str]:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="12" fill="currentColor" style="max-width: {WIDTH}px">',
        f"<title>{title}</title>",
    ]
    for tick in ticks:
        y, opacity = _height(tick, least, most), 0.2 if tick else 0.6
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="currentColor" stroke-opacity="{opacity}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    return parts


def _height(value: float, least: float, most: float) -> float:
    share = (min(max(value, least), most) - least) / (most - least)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _label(x: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{text}</text>'


def _dot(x: float, y: float, color: str, said: str, radius: float = 4) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"><title>{said}</title></circle>'


def _square(x: float, y: float, color: str, said: str) -> str:
    place = f'x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'
    return f'<rect {place} fill="{color}"><title>{said}</title></rect>'


def _draw_gains(rows: Rows) -> str:
    least, most = -20.0, 80.0
    parts = _open("Gain of SEER over each rival, in points of accuracy", least, most, (-20, 0, 20, 40, 60, 80))
    step = (WIDTH - LEFT - 10) / len(NAMES)
    for column, (rival, name) in enumerate(NAMES.items()):
        left = LEFT + step * column
        parts.append(_label(left + step / 2, name))
        for number, block in enumerate(BLOCKS):
            x = left + step * (number + 1) / (len(BLOCKS) + 1)
            theirs = _height(100 * (block.seer - block.rivals[rival][0]), least, most)
            parts.append(_dot(x, theirs, PAPER_COLOR, f"the paper: {block.model}, {block.setting}"))
            row = printed_of(rows, block.task, block.setting, rival)
            if row is not None:
                ours = _height(100 * row["gain"], least, most)
                parts.append(_square(x, ours, OUR_COLOR, f"here: {block.task}, {block.setting}"))
    y = HEIGHT - 18
    for x, mark, text in (
        (LEFT, _dot(LEFT, y, PAPER_COLOR, "the paper"), "the paper"),
        (LEFT + 120, _square(LEFT + 120, y, OUR_COLOR, "here"), "here"),
    ):
        parts.append(f'{mark}<text x="{x + 12}" y="{y + 4}">{text}</text>')
    return "\n".join([*parts, "</svg>"])


def _draw_shortfalls(rows: Rows) -> str:
    told, least, most = shortfalls(rows), -4.0, 16.0
    parts = _open("Points of accuracy below the best shortest round", least, most, (-4, 0, 4, 8, 12, 16))
    step = (WIDTH - LEFT - 10) / len(told)
    for column, (way, each) in enumerate(told.items()):
        left = LEFT + step * column
        parts.append(_label(left + step / 2, way))
        color = {"informed": OUR_COLOR, "two rounds": PAPER_COLOR}.get(way, "currentColor")
        for number, (task, setting, points) in enumerate(each):
            x = left + step * (number + 1) / (len(each) + 1)
            parts.append(_dot(x, _height(points, least, most), color, f"{task}, {setting}: {points:.2f}", radius=2.5))
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 12}">Points outside the frame are drawn on its edge.</text>')
    return "\n".join([*parts, "</svg>"])
