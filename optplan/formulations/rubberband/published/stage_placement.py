"""Where the trials of a search run, stage by stage: the placement controller along a plan.

A plan says how many trials a stage has, how many GPUs each of them gets, and how many nodes are held. Which trials go
on is known only when a stage ends. Here the caller says so, by their numbers; otherwise the first ones do. What moves
depends on it: naming survivors that are spread over the nodes shows the most that a release can cost.

Trials are named by their numbers, from 1 on in the order in which they begin; trials that are new in a later stage (the
next bracket of Hyperband) get numbers of their own. Where there is no room for all trials of a stage the first ones are
placed and the others wait for their turn; which GPUs a trial ends on is then not known, so that all that go on after
it load their checkpoints anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.errors import DataError
from optplan.formulations.rubberband.published.placement import Method, place
from optplan.formulations.rubberband.published.placement_task import Placement, PlacementChange


@dataclass(frozen=True)
class StagePlacement:
    """One stage on its nodes.

    Parameters
    ----------
    change
        The placement of the trials that run first, and how it comes about.
    nodes
        Nodes held in the stage.
    queued
        Trials that wait for their turn.
    moves
        Trials of the stage before that go on from their checkpoints: on other GPUs than they had, or later.
    checkpoints
        Trials that store their state at the end: those that go on, or, where none does, the first one as the best.
    """

    change: PlacementChange
    nodes: tuple[str, ...]
    queued: tuple[str, ...]
    moves: tuple[str, ...]
    checkpoints: tuple[str, ...]


def place_stages(
    stages: Sequence[tuple[int, int, int]],
    node_gpus: int,
    *,
    survivors: Sequence[Sequence[int]] | None = None,
    method: Method | str = Method.PUBLISHED,
) -> list[StagePlacement]:
    """Place the trials of a search stage by stage on a cluster that changes its size.

    Parameters
    ----------
    stages
        For each stage: trials, GPUs of each, nodes held.
    node_gpus
        GPUs of each node.
    survivors
        For each stage but the first, the numbers of the trials that go on, as many as it has; none where all of its
        trials are new. By default the first ones go on, and all are new where there are more than before.
    method
        As in :func:`~optplan.formulations.rubberband.published.placement.place`.

    Raises
    ------
    DataError
        When a stage is impossible, or a survivor is not one of the trials before.
    """
    slots = _count_slots(stages, node_gpus)
    names = _name_trials(stages, survivors)
    placed: list[StagePlacement] = []
    nodes: tuple[str, ...] = ()
    last, made = Placement(), 0
    for number, (count, gpus, held) in enumerate(stages):
        added = max(0, held - len(nodes))
        nodes += tuple(f"node-{index:05d}" for index in range(made + 1, made + 1 + added))
        made += added
        running, queued = names[number][: slots[number]], names[number][slots[number] :]
        trials = dict.fromkeys(running, gpus)
        change = place(trials, nodes, node_gpus, last=last, release=len(nodes) - held, method=method)
        nodes = tuple(node for node in nodes if node not in change.released)
        before = set(names[number - 1]) if number else set()
        after = set(names[number + 1]) if number + 1 < len(stages) else set(names[number][:1])
        stays = {trial for trial in running if change.placement.trials[trial] == last.trials.get(trial)}
        placed.append(
            StagePlacement(
                change=change,
                nodes=nodes,
                queued=queued,
                moves=tuple(trial for trial in names[number] if trial in before and trial not in stays),
                checkpoints=tuple(trial for trial in names[number] if trial in after) or names[number][:1],
            )
        )
        last = Placement() if count > slots[number] else change.placement
    return placed


def _count_slots(stages: Sequence[tuple[int, int, int]], node_gpus: int) -> list[int]:
    """Return how many trials of each stage run at a time, at most."""
    if node_gpus < 1:
        raise DataError("node_gpus", f"got {node_gpus}", "give the GPUs of a node, at least 1")
    slots = []
    for number, (trials, gpus, nodes) in enumerate(stages):
        if min(trials, gpus, nodes) < 1:
            problem = f"got {trials} trials of {gpus} GPUs on {nodes} nodes"
            raise DataError(f"stages.{number}", problem, "give at least 1 of each")
        at_once = nodes * (node_gpus // gpus) if gpus <= node_gpus else nodes // -(-gpus // node_gpus)
        if at_once == 0:
            problem = f"needs {gpus} GPUs for a trial; {nodes} nodes of {node_gpus} have {nodes * node_gpus}"
            raise DataError(f"stages.{number}", problem, "hold more nodes, or give trials fewer GPUs")
        slots.append(at_once)
    return slots


def _name_trials(
    stages: Sequence[tuple[int, int, int]], survivors: Sequence[Sequence[int]] | None
) -> list[tuple[str, ...]]:
    """Return the trials of each stage, by their numbers."""
    if survivors is not None and len(survivors) != max(0, len(stages) - 1):
        problem = f"name those of {len(survivors)} stages; {max(0, len(stages) - 1)} stages follow another one"
        raise DataError("survivors", problem, "give one list for each of these")
    numbers: list[tuple[int, ...]] = []
    made = 0
    for stage, (trials, _, _) in enumerate(stages):
        before = numbers[-1] if numbers else ()
        if survivors is None or not stage:
            going = before[:trials] if trials <= len(before) else ()
        else:
            going = tuple(sorted(survivors[stage - 1]))
        if going and len(going) != trials:
            problem = f"got {len(going)} trials; stage {stage + 1} has {trials}"
            raise DataError(f"survivors.{stage - 1}", problem, "name as many as go on, or none where all are new")
        strangers = [number for index, number in enumerate(going) if number not in before or number in going[:index]]
        if strangers:
            problem = f"got {strangers[0]}, which is twice in the list or not among the trials of stage {stage}"
            raise DataError(f"survivors.{stage - 1}", problem, "name trials that run there, each once")
        if not going:
            going = tuple(range(made + 1, made + 1 + trials))
            made += trials
        numbers.append(going)
    return [tuple(f"trial-{number:05d}" for number in going) for going in numbers]
