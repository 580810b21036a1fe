"""The placement that moves the fewest trials, by CP-SAT: the check of Algorithm 3, and the choice for few trials.

Variables: whether a trial is on a node (for one that fits on a node), whether it owns it (for a larger one), whether a
trial has no place, whether a node is emptied, whether it is used. First as few GPUs as possible are left without a
place, then the fewest trials are moved, then the fewest nodes are used, then the fewest GPUs are moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from optplan.errors import EngineError

if TYPE_CHECKING:
    from optplan.formulations.rubberband.placement import Placement

#: Seconds after which the best placement found so far is taken.
TIME_LIMIT_S = 5.0


def place_exactly(
    trials: Mapping[str, int],
    nodes: Sequence[str],
    node_gpus: int,
    last: Placement,
    reserved: Set[str],
    leaving: Sequence[str],
    release: int | None,
) -> tuple[dict[str, dict[str, int]], tuple[str, ...]]:
    """Place trials so that the fewest move.

    Parameters
    ----------
    trials, nodes, node_gpus, last, reserved
        As in :func:`~optplan.formulations.rubberband.placement.place`.
    leaving
        Nodes to be emptied, or, with ``release``, those that would be by the published rule.
    release
        How many nodes are emptied, whichever serve best; None where they are named.

    Returns
    -------
    places : dict
        By trial, GPUs by node.
    leaving : tuple
        The nodes that are emptied.

    Raises
    ------
    EngineError
        When CP-SAT finds nothing at all.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    names, order = sorted(nodes), sorted(trials)
    on = {(trial, node): model.new_bool_var(f"{trial} on {node}") for trial in order for node in names}
    emptied = {node: model.new_bool_var(f"{node} emptied") for node in names}
    used = {node: model.new_bool_var(f"{node} used") for node in names}
    left = {trial: model.new_bool_var(f"{trial} left") for trial in order}
    spans = {trial: -(-trials[trial] // node_gpus) for trial in order}
    for trial in order:
        model.add(sum(on[trial, node] for node in names) == spans[trial] * (1 - left[trial]))
    for trial, node in ((trial, node) for trial in sorted(reserved) for node in names):
        model.add(on[trial, node] == int(node in last.trials[trial]))
    for node in names:
        load = sum((trials[t] if spans[t] == 1 else node_gpus) * on[t, node] for t in order)
        model.add(load <= node_gpus * (1 - emptied[node]))
        model.add(load <= node_gpus * used[node])
        if release is None:
            model.add(emptied[node] == int(node in leaving))
    if release is not None:
        model.add(sum(emptied.values()) == release)
    _minimise(model, trials, left, _state_moves(model, trials, last, on), used)
    for (trial, node), is_on in on.items():  # a start that is near
        model.add_hint(is_on, int(node in last.trials.get(trial, {})))
    solver = _solve(model)
    places = {}
    for trial in order:
        own = [node for node in names if solver.value(on[trial, node])]
        if own:
            places[trial] = _share(trials[trial], own, node_gpus)
    return places, tuple(node for node in names if solver.value(emptied[node]))


def _state_moves(
    model: Any,  # noqa: ANN401 - OR-Tools' classes differ between releases
    trials: Mapping[str, int],
    last: Placement,
    on: Mapping[tuple[str, str], Any],
) -> dict[str, Any]:
    """State for each trial that keeps its number of GPUs whether it leaves one of its nodes."""
    moved = {}
    for trial, place in sorted(last.trials.items()):
        if trials.get(trial) == sum(place.values()):
            moved[trial] = model.new_bool_var(f"{trial} moved")
            for node in place:
                model.add(moved[trial] >= 1 - on[trial, node])
    return moved


def _solve(model: Any) -> Any:  # noqa: ANN401 - OR-Tools' classes differ between releases
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = TIME_LIMIT_S
    # The inclusion step of OR-Tools 9.15's presolve returns wrong optima on small models (see solvers/cpsat).
    solver.parameters.presolve_inclusion_work_limit = 0
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise EngineError(f"CP-SAT found no placement (status {solver.status_name(status)})")
    return solver


def _minimise(
    model: Any,  # noqa: ANN401 - OR-Tools' classes differ between releases
    trials: Mapping[str, int],
    left: Mapping[str, Any],
    moved: Mapping[str, Any],
    used: Mapping[str, Any],
) -> None:
    """State the objectives one after another, by weights that no later one can outweigh."""
    moved_gpus = sum(trials[trial] * is_moved for trial, is_moved in moved.items())
    most_gpus = sum(trials[trial] for trial in moved) + 1
    node_weight = most_gpus
    move_weight = node_weight * (len(used) + 1)
    left_weight = move_weight * (len(moved) + 1)
    model.minimize(
        left_weight * sum(trials[trial] * is_left for trial, is_left in left.items())
        + move_weight * sum(moved.values())
        + node_weight * sum(used.values())
        + moved_gpus
    )


def _share(gpus: int, nodes: Sequence[str], node_gpus: int) -> dict[str, int]:
    rest = gpus - (len(nodes) - 1) * node_gpus
    return {node: node_gpus if number < len(nodes) - 1 else rest for number, node in enumerate(nodes)}
