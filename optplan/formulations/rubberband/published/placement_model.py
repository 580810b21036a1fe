"""The placement that moves the fewest trials, by CP-SAT: the check of Algorithm 3, and the choice for few trials.

Trials that keep their number of GPUs stay or not; all others, and those of them that do not stay, differ in their size
only, so that the model counts how many of a size are on a node (for a size above a node's: whether one of them owns
it). It also says how many of a size have no place, which nodes are used, and which are emptied. Nodes without a trial
that could stay are alike: of these the first ones are used and the last ones emptied.

First as few GPUs as possible are left without a place, then the fewest trials are moved, then the fewest nodes are
used, then the fewest GPUs are moved: :func:`~optplan.formulations.rubberband.published.placement_task.rank_places`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.published.placement_task import PlacementTask, Places, rank_places
from optplan.progress import Stopwatch
from optplan.solvers.engine_process import Report
from optplan.solvers.programs.cpsat import call_with_cp_sat, new_solver, solve_watched

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Work after which the best placement found so far is taken, in CP-SAT's deterministic unit, which takes about two
#: seconds here. A limit in seconds would make placements depend on how busy the machine is.
WORK_LIMIT = 1.0
#: Objectives up to here are whole numbers as floats too, as CP-SAT reports its bound.
_LARGEST_VALUE = 2**53


class _PlacementModel:
    """The model of a task, and how its answer is read."""

    def __init__(self, task: PlacementTask, leaving: Sequence[str], *, named: bool) -> None:
        from ortools.sat.python import cp_model

        self.task = task
        self.model: cp_model.CpModel = cp_model.CpModel()
        model = self.model
        self.sizes = sorted({gpus for trial, gpus in task.trials.items() if trial not in task.reserved})
        self.stay = {trial: model.new_bool_var("") for trial in task.unchanged}
        self.count = {
            (gpus, node): model.new_int_var(0, max(1, task.node_gpus // gpus), "")
            for gpus in self.sizes
            for node in task.nodes
        }
        of_size = Counter(gpus for trial, gpus in task.trials.items() if trial not in task.reserved)
        self.left = {gpus: model.new_int_var(0, of_size[gpus], "") for gpus in self.sizes}
        self.used = {node: model.new_bool_var("") for node in task.nodes}
        self.emptied = {node: model.new_bool_var("") for node in task.nodes}
        for gpus in self.sizes:
            staying = sum(self.stay[trial] for trial in task.unchanged if task.trials[trial] == gpus)
            placed = sum(self.count[gpus, node] for node in task.nodes)
            model.add(placed == task.span(gpus) * (of_size[gpus] - staying - self.left[gpus]))
        self._state_rooms(leaving, named=named)
        self._state_objective()

    def _state_rooms(self, leaving: Sequence[str], *, named: bool) -> None:
        """State what fits on each node, and which nodes are emptied."""
        task, model = self.task, self.model
        staying: dict[str, list[Any]] = {node: [] for node in task.nodes}
        for trial, is_staying in self.stay.items():
            for node in task.last.trials[trial]:
                staying[node].append(task.taken(task.trials[trial]) * is_staying)
        locked = dict.fromkeys(task.nodes, 0)
        for trial in task.reserved:
            for node in task.last.trials[trial]:
                locked[node] += task.taken(task.trials[trial])
        for node in task.nodes:
            coming = sum(task.taken(gpus) * self.count[gpus, node] for gpus in self.sizes)
            model.add(locked[node] + sum(staying[node]) + coming <= task.node_gpus * self.used[node])
            model.add(self.used[node] + self.emptied[node] <= 1)
            if named:
                model.add(self.emptied[node] == int(node in leaving))
        model.add(sum(self.emptied.values()) == len(leaving))
        self.alike = [
            node for node in task.nodes if not staying[node] and not locked[node] and not (named and node in leaving)
        ]
        for node, following in pairwise(self.alike):
            model.add(self.used[node] >= self.used[following])
            model.add(self.emptied[node] <= self.emptied[following])

    def _state_objective(self) -> None:
        """State the objectives one after another, by weights that no later one can outweigh."""
        sizes = {trial: self.task.trials[trial] for trial in self.stay}
        self.node_weight = sum(sizes.values()) + 1
        self.move_weight = self.node_weight * (len(self.used) + 1)
        self.left_weight = self.move_weight * (len(self.stay) + 1)
        gpus_asked = sum(self.task.trials.values())
        if self.left_weight * (gpus_asked + 1) > _LARGEST_VALUE:
            message = f"method: the exact one cannot weigh {gpus_asked} GPUs against moves; take published"
            raise UnsupportedError(message)
        self.model.minimize(
            self.left_weight * sum(gpus * number for gpus, number in self.left.items())
            + self.node_weight * sum(self.used.values())
            + sum((self.move_weight + gpus) * (1 - self.stay[trial]) for trial, gpus in sizes.items())
        )

    def value(self, rank: tuple[int, int, int, int]) -> int:
        """Return the objective of a placement from its rank."""
        left, moved, nodes, gpus = rank
        return self.left_weight * left + self.move_weight * moved + self.node_weight * nodes + gpus

    def hint(self, places: Places) -> None:
        """Tell which trials stay, and what is left, in a placement that is possible."""
        last = self.task.last.trials
        for trial, is_staying in self.stay.items():
            self.model.add_hint(is_staying, int(set(places.get(trial, {})) == set(last[trial])))
        left = Counter(gpus for trial, gpus in self.task.trials.items() if trial not in places)
        for gpus, number in self.left.items():
            self.model.add_hint(number, left[gpus])

    def read(self, solver: cp_model.CpSolver) -> tuple[Places, tuple[str, ...]]:
        """Name the trials of each size: those that had a place and have to leave it come before the others."""
        task = self.task
        places = {trial: dict(task.last.trials[trial]) for trial in sorted(task.reserved)}
        places |= {trial: dict(task.last.trials[trial]) for trial in self.stay if solver.value(self.stay[trial])}
        for gpus in self.sizes:
            coming = [node for node in task.nodes for _ in range(solver.value(self.count[gpus, node]))]
            trials = [trial for trial, own in task.trials.items() if own == gpus and trial not in places]
            trials.sort(key=lambda trial: (trial not in self.stay, trial not in task.last.trials, trial))
            span = task.span(gpus)
            for number, trial in enumerate(trials[: len(coming) // span]):
                places[trial] = task.spread(gpus, coming[number * span : (number + 1) * span])
        return places, tuple(node for node in task.nodes if solver.value(self.emptied[node]))


def place_exactly(
    task: PlacementTask, start: Places, leaving: tuple[str, ...], *, named: bool
) -> tuple[Places, tuple[str, ...], bool]:
    """Place trials so that the fewest move.

    Parameters
    ----------
    task
        What has to be placed.
    start
        A placement that is possible.
    leaving
        Nodes that are emptied there.
    named
        Whether these have to be emptied, and not as many others.

    Returns
    -------
    places : dict
        By trial, GPUs by node; ``start`` where nothing better was found.
    leaving : tuple
        The nodes that are emptied.
    proven : bool
        Whether nothing leaves fewer GPUs without a place, or, leaving as few, moves fewer trials.

    Raises
    ------
    UnsupportedError
        When numbers of GPUs are too large for CP-SAT.
    EngineError
        When CP-SAT refuses the model.
    MissingExtraError
        Without OR-Tools.
    """
    found = call_with_cp_sat(_place, (task, start, leaving, named, WORK_LIMIT), Stopwatch())
    return (start, leaving, False) if found is None else found


def _place(
    task: PlacementTask,
    start: Places,
    leaving: tuple[str, ...],
    named: bool,  # noqa: FBT001 - calls elsewhere pass by position
    work_limit: float,
    stopwatch: Stopwatch,
    report: Report[tuple[Places, tuple[str, ...], bool]] | None = None,
) -> tuple[Places, tuple[str, ...], bool]:
    """Place trials with CP-SAT in this process; there is nothing to report before the end."""
    del report
    stated = _PlacementModel(task, leaving, named=named)
    stated.hint(start)
    solver, found = _solve(stated.model, work_limit, stopwatch)
    places, emptied = stated.read(solver) if found else (start, leaving)
    if rank_places(task, start) <= rank_places(task, places):
        places, emptied = start, leaving
    value = stated.value(rank_places(task, places))
    # Values are whole numbers; the bound is one as a float.
    least = value - value % stated.move_weight
    return places, emptied, solver.best_objective_bound > least - 0.5


def _solve(model: cp_model.CpModel, work_limit: float, stopwatch: Stopwatch) -> tuple[cp_model.CpSolver, bool]:
    solver = new_solver(0)
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = work_limit
    return solver, solve_watched(solver, model, stopwatch, is_feasible=True) != "UNKNOWN"
