"""The picture of a search: every trial a bar over time, as high as its GPUs (SEER, figure 1c)."""

from __future__ import annotations

from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.laws.rounds import Round, list_rounds
from optplan.reporting import style
from optplan.reporting.seer.words import format_minutes, format_number, name_gpus
from optplan.reporting.style import Block, Figure, add_blocks, add_points, new_figure, time_scale
from optplan.units import SECONDS_PER_MINUTE

_COLORS = (style.SKY, style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE, style.ORANGE)
#: How much of its colour a trial keeps that is eliminated at the end of the round.
_PALE = 0.35
#: Most trials of a round that get a bar each; of more, those of a bracket are one bar.
MOST_BARS = 300


def draw_rounds(instance: SeerInstance, solution: SeerSolution) -> Figure:
    """Draw who trains on how many GPUs over time, a colour for each bracket, the best trials so far at the bottom."""
    # Trials that are eliminated at the end of a round are pale. The dotted line is a cluster of constant size that
    # costs the budget until the deadline.
    figure = new_figure(height=400, top=36)
    rounds = list_rounds(instance, solution)
    scale = time_scale(instance.deadline_min * SECONDS_PER_MINUTE)
    minutes = scale.seconds / SECONDS_PER_MINUTE
    for number, bracket in enumerate(solution.brackets):
        bars = [bar for each in rounds for bar in _list_bars(each, rounds, solution, bracket.gpus, minutes)]
        bars.sort(key=lambda bar: not bar[0])  # the legend shows the colour of the first one
        color = _COLORS[number % len(_COLORS)]
        colors = [color if goes_on else style.fade(color, _PALE) for goes_on, _ in bars]
        marker = {"color": colors, "line": {"color": "white", "width": 1}}
        add_blocks(figure, f"{name_gpus(bracket.gpus)} a trial", [block for _, block in bars], marker)
    _draw_pauses(figure, rounds, minutes)
    fixed = instance.budget_gpu_min / instance.deadline_min
    said = f"{format_number(fixed)} GPUs until the deadline take the whole budget"
    ends = [(end, fixed, said) for end in (0.0, instance.deadline_min / minutes)]
    line = {"color": style.INK, "dash": "dot", "width": 1.5}
    add_points(figure, "a constant cluster for the same budget", ends, line=line)
    figure.add_vline(x=instance.deadline_min / minutes, line={"color": style.GREY, "width": 1})
    most = instance.deadline_min / minutes
    figure.update_xaxes(title_text=f"time since the start ({scale.unit})", range=[0.0, most * 1.02])
    figure.update_yaxes(title_text="GPUs", rangemode="tozero")
    title = {"text": "pale: eliminated at the end of the round", "side": "top", "font": {"size": style.FONT_SIZE}}
    figure.update_layout(barmode="overlay", showlegend=True, legend={**style.LEGEND_ABOVE, "title": title})
    return figure


def _list_bars(
    now: Round, rounds: list[Round], solution: SeerSolution, gpus: float, minutes: float
) -> list[tuple[bool, Block]]:
    """List the bars of a bracket in a round, and whether who they are goes on; wider brackets lie below them."""
    trials = next((bracket.trials for bracket in solution.brackets if bracket.gpus == gpus), ())
    here = trials[now.number - 1]
    kept = trials[now.number] if now.number < len(rounds) else here
    base = sum(each * number for each, number in now.groups if each > gpus)
    start = now.start_min + now.pause_min
    sizes = [1] * here if here <= MOST_BARS else [size for size in (kept, here - kept) if size]
    bars, done = [], 0
    for size in sizes:
        goes_on = done < kept
        fate = "goes on" if goes_on else "is eliminated"
        if now.number == len(rounds):
            fate = "is trained to the end"
        who = "A trial" if size == 1 else f"Each of {size:,} trials"
        words = (
            f"{who} on {name_gpus(gpus)} {fate}<br>round {now.number}: {format_minutes(now.training_min)} of training, "
            f"until {format_minutes(now.stop_min)}"
        )
        middle, height = base + (done + size / 2) * gpus, size * gpus
        bars.append((goes_on, Block(start / minutes, now.stop_min / minutes, middle, height, words)))
        done += size
    return bars


def _draw_pauses(figure: Figure, rounds: list[Round], minutes: float) -> None:
    """Draw the time in which GPUs are held and nothing trains."""
    paused = [
        Block(
            each.start_min / minutes,
            (each.start_min + each.pause_min) / minutes,
            each.gpus / 2,
            each.gpus,
            f"resizing before round {each.number}: {format_minutes(each.pause_min)}",
        )
        for each in rounds
        if each.pause_min
    ]
    add_blocks(figure, "resizing", paused, {"color": style.SHADE, "line": {"color": style.GREY, "width": 1}})
