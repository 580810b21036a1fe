"""The execution graph of a plan as a figure and as text, task by task while it is small, else ``64 x TRAIN``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optplan.formulations.rubberband.data.distributions import Distribution, EmpiricalDistribution
from optplan.formulations.rubberband.laws.execution import Node, StageRun, Task
from optplan.reporting.phrases import count_gpus
from optplan.reporting.style import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, PURPLE, SHADE, Figure, add_points, new_figure
from optplan.units import format_duration

if TYPE_CHECKING:
    from networkx import DiGraph

#: Tasks side by side up to which each is drawn.
_MOST_ROWS = 8
#: Trials in a chain up to which each is drawn.
_MOST_WAVES = 4
#: Stages up to which there is room for more than their numbers.
_MOST_NAMED = 8
_COLORS = {Task.SCALE: ORANGE, Task.INIT_INSTANCE: PURPLE, Task.TRAIN: BLUE, Task.SYNC: GREEN}
_SYMBOLS = {Task.SCALE: "triangle-right", Task.INIT_INSTANCE: "diamond", Task.TRAIN: "square", Task.SYNC: "circle"}
#: Pixels for each row of tasks, and for the legend and the names of stages.
_ROW_HEIGHT, _REST_HEIGHT = 34, 130
#: What the parts of a task's latency are called.
_PART_NAMES = {
    "provision_s": "provisioning",
    "initialise_s": "initialisation",
    "start_s": "start",
    "pace_s": "pace of the trial, an iteration",
    "iteration_s": "an iteration",
}


def fold_dag(graph: DiGraph) -> DiGraph:
    """Fold tasks that a reader need not tell apart into one: the first, with ``count`` and its place ``x``, ``y``."""
    import networkx

    runs: tuple[StageRun, ...] = graph.graph["runs"]
    heads: dict[tuple[Any, ...], Node] = {}
    head_of: dict[Node, Node] = {}
    folded = networkx.DiGraph(**graph.graph)
    for node, data in graph.nodes(data=True):
        row, column = _place(data, runs[data["stage"]])
        head = heads.setdefault((data["kind"], data["stage"], row, column), node)
        if head == node:
            folded.add_node(node, **{**data, "count": 0, "y": 0.0 if row is None else data["y"]})
        folded.nodes[head]["count"] += 1
        head_of[node] = head
    ends = {(head_of[before], head_of[after]) for before, after in graph.edges}
    folded.add_edges_from(sorted((before, after) for before, after in ends if before != after))
    columns = {x: rank for rank, x in enumerate(sorted({x for _, x in folded.nodes(data="x")}))}
    for _, data in folded.nodes(data=True):
        data["x"] = columns[data["x"]]
    return folded


def _place(data: dict[str, Any], run: StageRun) -> tuple[int | None, int | None]:
    """Return in which row and column of its stage a task is drawn; None where rows, or columns, are one."""
    if data["kind"] is Task.INIT_INSTANCE:
        return (data["instance"] if run.added <= _MOST_ROWS else None), None
    if data["kind"] is Task.TRAIN:
        row = data["chain"] if run.slots <= _MOST_ROWS else None
        return row, (data["wave"] if run.waves <= _MOST_WAVES else None)
    return 0, None


def draw_dag(graph: DiGraph) -> Figure:
    """Draw the execution graph of a bracket, large stages folded; time goes to the right, though not to scale."""
    folded = fold_dag(graph)
    top = max(y for _, y in folded.nodes(data="y"))
    figure = new_figure(height=round(_REST_HEIGHT + _ROW_HEIGHT * (2.0 * top + 2.0)), top=40)
    _mark_stages(figure, folded)
    _add_edges(figure, folded)
    for kind in Task:
        _add_tasks(figure, folded, kind)
    hidden = {"showgrid": False, "showline": False, "showticklabels": False, "ticks": ""}
    figure.update_xaxes(range=[-0.6, max(x for _, x in folded.nodes(data="x")) + 0.6], **hidden)
    figure.update_yaxes(range=[-top - 1.0, top + 1.0], **hidden)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": -0.02, "yanchor": "top", "yref": "paper"})
    return figure


def _mark_stages(figure: Figure, folded: DiGraph) -> None:
    """Shade every other stage, and write above each which one it is."""
    noun = "stage " if len(folded.graph["runs"]) <= _MOST_NAMED else ""
    for run in folded.graph["runs"]:
        places = [data["x"] for _, data in folded.nodes(data=True) if data["stage"] == run.stage]
        low, high = min(places) - 0.5, max(places) + 0.5
        if run.stage % 2 == 0:
            figure.add_vrect(x0=low, x1=high, fillcolor=SHADE, line_width=0, layer="below")
        figure.add_annotation(
            x=(low + high) / 2.0,
            y=1.0,
            yref="paper",
            yanchor="bottom",
            text=f"{noun}{run.stage + 1}",
            showarrow=False,
            font={"color": GREY, "size": FONT_SIZE - 1},
        )


def _add_edges(figure: Figure, folded: DiGraph) -> None:
    x: list[float | None] = []
    y: list[float | None] = []
    for before, after in folded.edges:
        x += [folded.nodes[before]["x"], folded.nodes[after]["x"], None]
        y += [folded.nodes[before]["y"], folded.nodes[after]["y"], None]
    figure.add_scatter(x=x, y=y, mode="lines", line={"color": GREY, "width": 1}, hoverinfo="skip", showlegend=False)


def _add_tasks(figure: Figure, folded: DiGraph, kind: Task) -> None:
    tasks = [data for _, data in folded.nodes(data=True) if data["kind"] is kind]
    if not tasks:
        return
    runs = folded.graph["runs"]
    add_points(
        figure,
        kind.value,
        [(data["x"], data["y"], _describe_task(data, runs[data["stage"]])) for data in tasks],
        mode="markers+text",
        marker={"symbol": _SYMBOLS[kind], "size": 15, "color": _COLORS[kind]},
        text=[f"{data['count']} x" if data["count"] > 1 else "" for data in tasks],
        textposition="top center",
    )


def _describe_task(data: dict[str, Any], run: StageRun) -> str:
    count = f"{data['count']} x " if data["count"] > 1 else ""
    lines = [f"<b>{count}{data['kind'].value}</b>, stage {run.stage + 1}"]
    if data["kind"] is Task.TRAIN:
        lines.append(f"{count_gpus(run.gpus_per_trial)} and {_count(run.iterations, 'iteration')} for each trial")
    return "<br>".join([*lines, *describe_latency(data["latency"])])


def describe_latency(latency: dict[str, Distribution]) -> list[str]:
    """Say of each part of a task's latency what it is called, and how long it takes."""
    parts = dict(latency)
    if "pace_s" in parts and parts["pace_s"].is_constant:
        del parts["pace_s"]  # the trial's own pace is that of its iterations
    return [f"{_PART_NAMES[name]}: {_describe_distribution(part)}" for name, part in parts.items()]


def _describe_distribution(distribution: Distribution) -> str:
    mean = format_duration(distribution.expected_s)
    if distribution.is_constant:
        return mean
    spread = f"{mean} on average, standard deviation {format_duration(distribution.deviation_s)}"
    number = f", {distribution.values_s.size} values" if isinstance(distribution, EmpiricalDistribution) else ""
    return f"{spread} ({distribution.form}{number})"


def write_dag(graph: DiGraph) -> list[str]:
    """Write the execution graph of a bracket as text, one line for each stage."""
    # Such as ``stage 1: SCALE > 4 x INIT_INSTANCE > 32 x TRAIN (1 GPU, 10 iterations; 16 at a time) > SYNC``.
    return [_write_stage(run) for run in graph.graph["runs"]]


def _write_stage(run: StageRun) -> str:
    growth = [Task.SCALE.value, _times(run.added, Task.INIT_INSTANCE)] if run.added else []
    each = f"{count_gpus(run.gpus_per_trial)}, {_count(run.iterations, 'iteration')}"
    in_line = f"; {run.slots} at a time" if run.waves > 1 else ""
    trials = f"{_times(run.trials, Task.TRAIN)} ({each}{in_line})"
    return f"stage {run.stage + 1}: {' > '.join([*growth, trials, Task.SYNC.value])}"


def _times(count: int, kind: Task) -> str:
    return f"{count} x {kind.value}" if count > 1 else kind.value


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
