"""The search for the best division as Pollux was published with it: NSGA-II over who has how many GPUs of which node.

There are two objectives, the fitness and the speeds over the GPUs of nodes in use, of which only the first decides in
the end. A hundred divisions change a hundred times: children take some jobs from one parent and the others from the
other; then some jobs are set back to what they hold, some lose GPUs, and some get more on nodes with room. What is not
allowed after that is repaired, in favour of the first jobs. Each search begins where that of the round before ended.

Qiao et al., OSDI 2021, section 4.2; the operators and their chances are those of ``simulator/pollux.py``
(petuum/adaptdl, branch osdi21-artifact). Deb et al., "A fast and elitist multiobjective genetic algorithm", 2002.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job, Places
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.pollux.fitness import EPSILON, MOST_NODES, Round
from optplan.lab.fields import Knowledge
from optplan.schema import FloatArray, IntArray

#: Divisions that change at once, and how often they do.
POPULATION, GENERATIONS = 100, 100
#: Chances that a job is set back to what it holds, that it may lose GPUs, and that it loses those of a node then.
_RESET, _LOSES, _LOSES_NODE = 0.1, 0.1, 0.1

#: GPUs of each node by job, (jobs, nodes); several of them have an axis in front.
States: TypeAlias = IntArray


def search(
    task: Round,
    beginning: States,
    *,
    seed: int,
    population: int = POPULATION,
    generations: int = GENERATIONS,
) -> tuple[tuple[Places, ...], States]:
    """Search for the best division (divisions, jobs, nodes); return it, and those not beaten in both objectives."""
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.crossover import Crossover
        from pymoo.core.mutation import Mutation
        from pymoo.core.problem import Problem
        from pymoo.core.repair import Repair
        from pymoo.optimize import minimize
    except ImportError:
        raise UsageError("pymoo is not installed; run: pip install -r benchmarks/requirements.txt") from None

    evolution = _Evolution(task, np.random.default_rng(seed))

    class Objectives(Problem):  # type: ignore[misc]
        def _evaluate(self, x: States, out: dict[str, Any], *_: object, **__: object) -> None:
            out["F"] = evolution.evaluate(evolution.unflatten(x))

    class Cross(Crossover):  # type: ignore[misc]
        def _do(self, _: object, x: States, *__: object, **___: object) -> States:
            return evolution.cross(x.reshape(*x.shape[:2], *evolution.shape)).reshape(x.shape)

    class Mutate(Mutation):  # type: ignore[misc]
        def _do(self, _: object, x: States, *__: object, **___: object) -> States:
            return evolution.mutate(evolution.unflatten(x)).reshape(x.shape)

    class Mend(Repair):  # type: ignore[misc]
        def _do(self, _: object, x: States, **__: object) -> States:
            return evolution.repair(evolution.unflatten(x)).reshape(x.shape)

    algorithm = NSGA2(
        pop_size=population,
        sampling=beginning.reshape(len(beginning), -1),
        crossover=Cross(n_parents=2, n_offsprings=2),
        mutation=Mutate(),
        repair=Mend(),
    )
    problem = Objectives(n_var=evolution.shape[0] * evolution.shape[1], n_obj=2, vtype=int)
    found = minimize(problem, algorithm, ("n_gen", generations), seed=seed, copy_algorithm=False)
    states = evolution.unflatten(np.atleast_2d(found.X).astype(np.int64))
    best = states[np.atleast_2d(found.F)[:, 0].argmin()]
    places = [[(task.nodes[place], int(row[place])) for place in np.flatnonzero(row).tolist()] for row in best]
    return tuple(map(tuple, places)), states


def state_of(task: Round) -> States:
    """Return the division in which everybody keeps what it holds, (jobs, nodes)."""
    column = {node: place for place, node in enumerate(task.nodes)}
    state = np.zeros((len(task.claims), len(task.nodes)), dtype=np.int64)
    for row, claim in zip(state, task.claims, strict=True):
        for node, count in claim.held:
            if node in column:
                row[column[node]] = count
    return state


def carry_over(states: States, rows: Mapping[int, int], jobs: int) -> States:
    """Return divisions (divisions, jobs then, nodes) of the round before among the jobs of this one.

    ``rows`` has the place of each that was there then, by its place now.
    """
    carried = np.zeros((len(states), jobs, states.shape[2]), dtype=np.int64)
    carried[:, list(rows)] = states[:, list(rows.values())]
    return carried


class _Evolution:
    """What happens to divisions, many at once: arrays of shape (divisions, jobs, nodes)."""

    def __init__(self, task: Round, draws: np.random.Generator) -> None:
        self.shape = (len(task.claims), len(task.nodes))
        self._task, self._draws = task, draws
        self._held = state_of(task)
        self._most = np.array([claim.most_gpus for claim in task.claims])[:, None]
        self._factor = np.array([claim.restart_factor for claim in task.claims])
        widest = int(self._most.max()) + 1
        self._speeds = np.zeros((2, self.shape[0], widest))
        for number, claim in enumerate(task.claims):
            self._speeds[0, number, : claim.within.size] = claim.within
            self._speeds[1, number, : claim.across.size] = claim.across

    def unflatten(self, x: IntArray) -> States:
        return x.reshape(len(x), *self.shape)

    def evaluate(self, states: States) -> FloatArray:
        """Return minus the fitness, and minus the speeds over the GPUs of nodes in use, (divisions, 2)."""
        gpus, is_across = states.sum(axis=2), (np.count_nonzero(states, axis=2) > 1).astype(np.int64)
        speeds = self._speeds[is_across, np.arange(self.shape[0]), gpus]
        restarted = np.where((states != self._held).any(axis=2), self._factor, 1.0)
        costs = 1.0 / (speeds * restarted / self._task.gpus_per_node + EPSILON)
        in_use = np.count_nonzero(states.any(axis=1), axis=1) * self._task.gpus_per_node
        return np.column_stack([-self.shape[0] / costs.sum(axis=1), -speeds.sum(axis=1) / np.maximum(in_use, 1)])

    def cross(self, parents: States) -> States:
        """Exchange the jobs before a point of each pair; axes: of the two, pairs, jobs, nodes."""
        points = self._draws.integers(self.shape[0], size=(parents.shape[1], 1))
        first = (np.arange(self.shape[0]) < points)[None, :, :, None]
        return np.where(first, parents[::-1], parents)

    def mutate(self, states: States) -> States:
        """Set jobs back, take GPUs away and give more where there is room."""
        draw = self._draws.random
        states = np.where((draw(states.shape[:2]) < _RESET)[..., None], self._held, states)
        losing = np.where(draw(states.shape[:2]) < _LOSES, _LOSES_NODE, 0.0)[..., None]
        states[draw(states.shape) < losing] = 0
        size = self._task.gpus_per_node
        room = np.broadcast_to((states.sum(axis=1, keepdims=True) < size), states.shape)
        # One more node for each job on average, and one more of those on which it is already.
        chances = [where / np.maximum(where.sum(axis=2, keepdims=True), 1) for where in (room, room & (states > 0))]
        growing = draw(states.shape) < chances[0] + chances[1] - chances[0] * chances[1]
        return np.where(growing, self._draws.integers(states, size + 1), states)

    def repair(self, states: States) -> States:
        """Make divisions allowed: the first jobs keep what they have, and others lose what is too much."""
        across = (states > 0) & (np.count_nonzero(states, axis=2) > 1)[..., None]
        states = np.where(across & (across.cumsum(axis=1) > 1), 0, states)
        # What a job may not hold is taken from it node by node, in an order that is drawn.
        order = self._draws.random(states.shape).argsort(axis=2)
        states = np.take_along_axis(states, order, axis=2)
        states = np.diff(np.minimum(states.cumsum(axis=2), self._most), axis=2, prepend=0)
        states = np.where((states > 0).cumsum(axis=2) <= MOST_NODES, states, 0)
        states = np.take_along_axis(states, order.argsort(axis=2), axis=2)
        return np.asarray(np.diff(np.minimum(states.cumsum(axis=1), self._task.gpus_per_node), axis=1, prepend=0))


class PolluxNsga2(Pollux):
    """Divide all GPUs by Pollux' fitness, as far as NSGA-II finds it with so many divisions that change so often.

    It goes on from the last round's divisions, takes seconds a round, and finds what :class:`Pollux` finds or less: it
    is there to be compared.
    """

    name = "pollux-nsga2"

    def __init__(
        self,
        knowledge: Knowledge = Knowledge.TRUTH,
        population: int = POPULATION,
        generations: int = GENERATIONS,
    ) -> None:
        super().__init__(knowledge)
        if (population, generations) != (POPULATION, GENERATIONS):
            self.name = f"{self.name}:{population}x{generations}"
        self._population, self._generations, self._seed = population, generations, 0
        self._states: States | None = None
        self._rows: dict[Job, int] = {}

    def _search(self, jobs: Sequence[Job], task: Round) -> Sequence[Places]:
        """Go on from the divisions of the round before."""
        beginning = state_of(task)[None]
        if self._states is not None and self._states.shape[2] == len(task.nodes):
            known = {place: self._rows[job] for place, job in enumerate(jobs) if job in self._rows}
            beginning = carry_over(self._states, known, len(jobs))
        self._seed += 1
        best, self._states = search(
            task, beginning, seed=self._seed, population=self._population, generations=self._generations
        )
        self._rows = {job: place for place, job in enumerate(jobs)}
        return best
