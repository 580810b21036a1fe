"""The black box that the paper sets its own search against: Bayesian optimisation of the simulator (section 4.4).

A point is a count and a batch for each type, each a number from 0 to 1 that stands for a place in the list of choices.
What is maximised is minus the logarithm of the objective, less a penalty where the fleet misses the global batch or a
limit. Hardly any point reaches the batch, which is an equation; so the count of one type is moved to where it does, if
one count can do that. Gaussian processes take such points for a continuous space; a suggestion that stands for a fleet
seen before is replaced by a random one. The library is bayesian-optimization, with its default kernel and acquisition.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, SupportsFloat

from optplan.contracts.registry import SolverEntry
from optplan.contracts.result import Answer, SolveRequest, Termination
from optplan.errors import UsageError
from optplan.formulations import formulations
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.best_first import FleetSearch

if TYPE_CHECKING:
    from bayes_opt import BayesianOptimization
    from bayes_opt.target_space import TargetSpace
    from numpy.random import RandomState
    from numpy.typing import NDArray

NAME, _ENGINE = "bayesian", "bayesian-optimization"
#: Fleets that are looked at.
EVALUATIONS = 50
#: The first of them, by chance.
RANDOM_FIRST = 20
#: What a fleet loses that breaks a rule or limit, in logarithms of the objective; and again for each 100 % of excess.
_PENALTY = 3.0
#: Points drawn to find one that stands for a fleet not seen before.
_MOST_DRAWS = 200


_ENTRY = SolverEntry(
    NAME,
    f"{__name__}:solve_bayesian",
    "black-box Bayesian optimisation of counts and batches (4.4)",
    problems=frozenset({"cheapest", "fastest"}),
    policies=frozenset({"one-batch"}),
    exact=False,
    needs="bayes_opt",
    features=frozenset({"interruptions", "running"}),
)


def solve_bayesian(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Look for a good fleet by Bayesian optimisation; all VMs of a type get one batch."""
    search = FleetSearch(instance, request.stopwatch)
    places = _Places(instance)
    black_box = _BlackBox(search, places, request.seed)
    ended = Termination.COMPLETED
    while search.judged < EVALUATIONS and black_box.propose():
        request.stopwatch.emit("black box", objective=search.objective, fraction=search.judged / EVALUATIONS)
        if request.stopwatch.expired:
            ended = Termination.TIME_LIMIT
            break
    what = f"fleet of the {search.judged:,} that Bayesian optimisation has looked at"
    return search.answer(request, what, ended, engine=(_ENGINE, version(_ENGINE)))


class _Places:
    """Points of the unit cube as fleets: by type a count and, where there are several, a batch."""

    def __init__(self, instance: SriftInstance) -> None:
        self.instance = instance
        self.choices: dict[str, tuple[int, ...]] = {}
        self._types = [name for name in instance.types if instance.most_of(name)]
        for name in self._types:
            running, most = instance.types[name].running, instance.most_of(name)
            self.choices[_count(name)] = tuple(range(running, most + 1))
            self.choices[_batch(name)] = instance.batches_of[name]
        self.bounds = {key: (0.0, 1.0) for key, values in self.choices.items() if len(values) > 1}

    def snap(self, point: Mapping[str, SupportsFloat]) -> dict[str, float]:
        """Move each coordinate to the nearest place."""
        steps = {key: len(self.choices[key]) - 1 for key in point}
        return {key: round(float(x) * steps[key]) / steps[key] for key, x in point.items()}

    def read(self, point: Mapping[str, float]) -> tuple[VmGroup, ...]:
        """Return the fleet that a point stands for; without any VM where all counts are zero."""
        value = self._values(point)
        return tuple(
            VmGroup(type=name, count=value[_count(name)], batch=value[_batch(name)])
            for name in self._types
            if value[_count(name)]
        )

    def mend(self, point: dict[str, float]) -> dict[str, float]:
        """Change the count of one type, as little as possible, so that the batch is reached; if none can, nothing."""
        value = self._values(point)
        missing = self.instance.global_batch - sum(value[_count(name)] * value[_batch(name)] for name in self._types)
        changes = []
        for name in self._types:
            change, rest = divmod(missing, value[_batch(name)])
            counts = self.choices[_count(name)]
            if not rest and counts[0] <= value[_count(name)] + change <= counts[-1]:
                changes.append((abs(change), name, value[_count(name)] + change - counts[0]))
        if not missing or not changes:
            return point
        _, name, place = min(changes)
        return point | {_count(name): place / (len(self.choices[_count(name)]) - 1)}

    def _values(self, point: Mapping[str, float]) -> dict[str, int]:
        return {key: values[round(point.get(key, 0.0) * (len(values) - 1))] for key, values in self.choices.items()}


def _count(name: str) -> str:
    return f"count of {name}"


def _batch(name: str) -> str:
    return f"batch of {name}"


class _BlackBox:
    """The optimiser and what it has been told."""

    def __init__(self, search: FleetSearch, places: _Places, seed: int) -> None:
        self.search = search
        self.places = places
        self.worst = 0.0
        self.seen: set[tuple[VmGroup, ...]] = {()}
        self.optimiser = _load_optimiser(places.bounds, seed) if places.bounds else None

    def propose(self) -> bool:
        """Judge one more fleet; False when there seems to be none left."""
        point = self._suggest()
        draws = 0
        while self.places.read(point) in self.seen:
            if self.optimiser is None or draws == _MOST_DRAWS:
                return False
            point = self._draw()
            draws += 1
        fleet = self.places.read(point)
        self.seen.add(fleet)
        target = self._target(fleet)
        if self.optimiser is not None:
            self.optimiser.register(params=point, target=target)
        return True

    def _suggest(self) -> dict[str, float]:
        if self.optimiser is None:
            return {}
        if self.search.judged < RANDOM_FIRST:
            return self._draw()
        from threadpoolctl import threadpool_limits  # scikit-learn needs it, so it is there

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns where it fits hardly better than by chance
            with threadpool_limits(limits=1):  # matrices are small, and threads cost more than they do
                return self._place(self.optimiser.suggest())

    def _draw(self) -> dict[str, float]:
        return {} if self.optimiser is None else self._place(self.optimiser.random_sample(1)[0])

    def _place(self, point: Mapping[str, SupportsFloat]) -> dict[str, float]:
        return self.places.mend(self.places.snap(point))

    def _target(self, fleet: tuple[VmGroup, ...]) -> float:
        """Judge a fleet; return minus the logarithm of its objective, less what it loses for what it breaks."""
        instance = self.search.instance
        judged = self.search.judge(fleet)
        if not math.isfinite(judged.objective):
            return self.worst - _PENALTY
        samples = sum(group.count * group.batch for group in fleet)
        excess = [abs(samples / instance.global_batch - 1.0), *judged.excess]
        if not instance.mixed:
            excess.append(float(len(fleet) - 1))
        if not any(excess):
            self.search.offer(judged)
        target = -math.log(judged.objective) - _PENALTY * sum(1.0 + each for each in excess if each)
        self.worst = min(self.worst, target)
        return target


def _load_optimiser(bounds: dict[str, tuple[float, float]], seed: int) -> BayesianOptimization:
    try:
        from bayes_opt import BayesianOptimization
        from bayes_opt.acquisition import UpperConfidenceBound
    except ModuleNotFoundError:
        raise UsageError(f"{_ENGINE} is not installed; run: pip install -r benchmarks/requirements.txt") from None

    class BestOfMany(UpperConfidenceBound):
        """The library's default, refined from one start: between places of fleets there is nothing to refine."""

        def suggest(
            self,
            gp: Any,  # noqa: ANN401 - a type of scikit-learn, which has none for mypy
            target_space: TargetSpace,
            n_random: int = 10_000,
            n_smart: int = 1,
            fit_gp: bool = True,  # noqa: FBT001 - as the library declares it
            random_state: int | RandomState | None = None,
        ) -> NDArray[Any]:
            return super().suggest(gp, target_space, n_random, n_smart, fit_gp, random_state)

    return BayesianOptimization(
        f=None, pbounds=bounds, acquisition_function=BestOfMany(), random_state=seed % 2**32, verbose=0
    )


def register() -> None:
    """Let ``bayesian`` be among the solvers of Srift, as a plug-in would."""
    known = formulations()
    if all(entry.name != NAME for entry in known["srift"].solvers):
        known["srift"] = known["srift"].with_solvers(_ENTRY)
