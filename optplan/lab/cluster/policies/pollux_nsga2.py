"""Pollux as it was published: its division is searched for by NSGA-II, round by round from the last one's divisions.

It takes seconds a round, and finds what :class:`~optplan.lab.cluster.policies.pollux.Pollux` finds or less: it
is there to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job, Places
from optplan.lab.cluster.policies.pollux import Pollux
from optplan.lab.cluster.pollux.beliefs import Knowledge
from optplan.lab.cluster.pollux.fitness import Round
from optplan.lab.cluster.pollux.genetic import GENERATIONS, POPULATION, States, carry_over, search, state_of


def read_size(text: str) -> tuple[int, int]:
    """Read how large a search is: ``20x50`` is 20 divisions that change 50 times."""
    population, _, generations = text.partition("x")
    if population.isdecimal() and generations.isdecimal() and int(population) >= 2 and int(generations) >= 1:
        return int(population), int(generations)
    raise UsageError(f"pollux-nsga2: got {text!r}; give divisions (2 or more) and how often they change, such as 20x50")


class PolluxNsga2(Pollux):
    """Divide all GPUs by Pollux' fitness, as far as NSGA-II finds it with so many divisions that change so often."""

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
