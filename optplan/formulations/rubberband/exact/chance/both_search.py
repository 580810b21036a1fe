"""Plans in the order of their objective, until the first that keeps a deadline and a budget often enough.

A beginning of a plan is bounded by W, the most that the probability to keep both, less a price for what is still to be
added to the objective, can be with so much time and money left; times and costs are rounded down. At price p a
beginning that has come to c leads to no plan below c + (wanted - E[W]) / p. Plans are taken in the order of the best of
these bounds, and judged by their distribution. So the first that does is best, and all before it are looked at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.exact.bracket_choice import price_chain
from optplan.formulations.rubberband.exact.chance.both_steps import BothGrid, BothSteps, Spectrum
from optplan.formulations.rubberband.laws.both import both_chance
from optplan.schema import FloatArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import Effort

#: Prices of the objective, in multiples of one over its least.
_PRICES = (1.0, 3.0, 10.0, 30.0)
#: How far transforms may be off.
_BLUR = 1e-9
#: Cells of the grid on which it is decided first, and by how much the probability may be off there.
_FEW_CELLS, _MARGIN = 1 << 17, 0.01


@dataclass(frozen=True, eq=False)
class _Outlook:
    """W at some prices (P, K, ...) by stage: above what is left of it when all is late, and (P, K) that."""

    after: list[FloatArray]
    late_after: list[FloatArray]


@dataclass(frozen=True, eq=False)
class _Beginning:
    """Some stages of a plan: node and option of each, what the objective has come to, and the grid after them."""

    path: tuple[tuple[int, int], ...]
    added: float
    mass: FloatArray


@dataclass(frozen=True, eq=False)
class _Next:
    """One more stage after a beginning; its own mass is worked out when it is its turn."""

    before: _Beginning
    node: int
    option: int
    added: float


@dataclass(frozen=True)
class BothPlan:
    """A plan.

    Parameters
    ----------
    solution
        What is held and used in each stage.
    objective
        Minimum charges included.
    chance
        Probability that both limits are kept.
    """

    solution: RubberBandSolution
    objective: float
    chance: float


class BothSearch:
    """The plans of one bracket that may keep both limits often enough.

    Parameters
    ----------
    steps
        The bracket.
    limits
        Deadline in seconds and budget in US dollars; either may be infinite.
    wanted
        The probability at which plans count.
    points
        Of the grid, in either direction.
    effort
        Limits on beginnings and time.
    priced
        Whether the objective matters: without, bounds of it are weak, and what may follow is worked out sooner.
    """

    def __init__(
        self,
        steps: BothSteps,
        limits: tuple[float, float],
        wanted: float,
        points: int,
        effort: Effort,
        *,
        priced: bool = True,
    ) -> None:
        self.steps = steps
        self.limits = limits
        self.wanted = wanted
        self.effort = effort
        self.grid = BothGrid(steps, *limits, points)
        least = float((steps.start + steps.ahead[0]).min())
        self.prices = np.array([0.0, *(factor / least for factor in _PRICES if priced)])
        self.outlook = self._look_ahead()
        #: No plan that counts is below it.
        self.bound = least
        self.judged = 0
        self.likeliest: BothPlan | None = None

    def find_best(self, enough: float) -> BothPlan | None:
        """Return the plan that is best of those that keep both often enough, or None without one.

        Parameters
        ----------
        enough
            A plan that is at or above this is not looked for: what is known already.

        Raises
        ------
        OutOfEffortError
            When a limit is met; ``bound`` holds.
        """
        for bound, plan in self._list_plans(by_chance=False):
            self.bound = max(self.bound, min(bound, enough))
            if bound >= enough:
                return None
            if plan is not None and plan.chance >= self.wanted:
                return plan
        self.bound = enough
        return None

    def find_any(self) -> BothPlan | None:
        """Return a plan that keeps both often enough, or None without one; ``likeliest`` is the best seen.

        Raises
        ------
        OutOfEffortError
            When a limit is met.
        """
        for _, plan in self._list_plans(by_chance=True):
            if plan is not None and plan.chance >= self.wanted:
                return plan
        return None

    def _list_plans(self, *, by_chance: bool) -> Iterator[tuple[float, BothPlan | None]]:
        """Go through beginnings, best first; yield the bound of each, and the plan where it is one."""
        rows, columns = self.grid.shape
        empty = np.zeros((rows, columns))
        empty[0, 0] = 1.0
        queue: list[tuple[float, float, int, _Next | BothPlan]] = []
        counter = 0

        def push(key: float, bound: float, what: _Next | BothPlan) -> None:
            nonlocal counter
            counter += 1
            heapq.heappush(queue, (key, bound, counter, what))

        for key, bound, following in self._extend(_Beginning((), 0.0, empty), by_chance=by_chance):
            push(key, bound, following)
        while queue:
            self.effort.charge_labels(1, len(queue))
            key, bound, _, one = heapq.heappop(queue)
            if isinstance(one, BothPlan):
                yield bound, one
                continue
            yield bound, None
            if len(one.before.path) + 1 == self.steps.stages:
                plan = self._judge((*one.before.path, (one.node, one.option)))
                # What minimum charges add may put it behind others.
                if plan is not None:
                    push(key if by_chance else plan.objective, max(bound, plan.objective), plan)
                continue
            for next_key, next_bound, following in self._extend(self._run(one), by_chance=by_chance):
                push(max(key, next_key), max(bound, next_bound), following)

    def _judge(self, path: tuple[tuple[int, int], ...]) -> BothPlan | None:
        """Return a whole plan with its probability; None where that is far too low."""
        steps = self.steps
        held = [int(steps.held[node]) for node, _ in path]
        gpus = [int(steps.options[stage].gpus[option]) for stage, (_, option) in enumerate(path)]
        deadline_s, budget_usd = (limit * (1.0 + LIMIT_TOLERANCE) for limit in self.limits)
        self.judged += 1
        chance = both_chance(steps.instance, held, gpus, deadline_s, budget_usd, cells=_FEW_CELLS)
        if chance >= self.wanted - _MARGIN:
            chance = both_chance(steps.instance, held, gpus, deadline_s, budget_usd)
        chain = tuple(StageAllocation(instances=m, gpus=a) for m, a in zip(held, gpus, strict=True))
        priced = price_chain(steps.instance, chain)
        plan = BothPlan(
            RubberBandSolution(brackets=(chain,)), priced.usd if steps.is_cost else priced.seconds, float(chance)
        )
        if self.likeliest is None or plan.chance > self.likeliest.chance:
            self.likeliest = plan
        return plan if plan.chance >= self.wanted else None

    def _growth(self, before: _Beginning, node: int) -> tuple[float, Spectrum | None]:
        """Return what coming to a node adds to the objective, and how it moves; None where nothing changes."""
        steps = self.steps
        there = int(steps.held[node])
        if not before.path:
            return float(steps.start[node]), self.grid.request(0) * self.grid.initialise(there, there, there)
        last = before.path[-1][0]
        added = there - int(steps.held[last])
        if added <= 0:
            return 0.0, None
        moved = self.grid.request(int(steps.held[last])) * self.grid.initialise(added, there, added)
        return float(steps.growth[last, node]), moved

    def _run(self, one: _Next) -> _Beginning:
        before, stage = one.before, len(one.before.path)
        _, moved = self._growth(before, one.node)
        spectrum = self.grid.transform(before.mass) * self.grid.run(stage, one.node, one.option)
        if moved is not None:
            spectrum = spectrum * moved
        return _Beginning((*before.path, (one.node, one.option)), one.added, self.grid.restore(spectrum))

    def _extend(self, before: _Beginning, *, by_chance: bool) -> Iterator[tuple[float, float, _Next]]:
        """List what may follow a beginning: order, bound of the objective, and the next stage."""
        stage, steps = len(before.path), self.steps
        spectrum = self.grid.transform(before.mass)
        after, late = self.outlook.after[stage], self.outlook.late_after[stage]
        for node in range(steps.held.size):
            if not steps.choices[stage][node].size:
                continue
            self.effort.charge_labels(0, 0)
            grown, moved = self._growth(before, node)
            there = spectrum if moved is None else spectrum * moved
            for option, adds in zip(steps.choices[stage][node].tolist(), steps.adds[stage][node].tolist(), strict=True):
                mass = self.grid.restore(there * self.grid.run(stage, node, option))
                worth = np.einsum("pij,ij->p", after[:, node, ::-1, ::-1], mass) + late[:, node]
                if worth[0] < self.wanted - _BLUR:
                    continue
                added = before.added + grown + adds
                needed = ((self.wanted - worth[1:]) / self.prices[1:]).max(initial=-math.inf)
                bound = added + max(float(steps.rest[stage][node]), float(needed) - _BLUR)
                yield (-float(worth[0]) if by_chance else bound), bound, _Next(before, node, option, added)

    def _look_ahead(self) -> _Outlook:
        """Find W from the last stage backwards."""
        steps, count = self.steps, self.steps.held.size
        after = [np.ones((self.prices.size, count, *self.grid.shape))]
        late_after = [np.zeros((self.prices.size, count))]
        for stage in range(steps.stages - 1, 0, -1):
            values = np.full(after[0].shape, -math.inf)
            late = np.full(late_after[0].shape, -math.inf)
            for node in range(count):
                options, adds = steps.choices[stage][node], steps.adds[stage][node]
                if not options.size:
                    continue
                self.effort.charge_pass()
                late[:, node] = late_after[0][:, node] - self.prices * adds.min()
                spectrum = self.grid.transform(after[0][:, node])
                for option, add in zip(options.tolist(), adds.tolist(), strict=True):
                    ran = self.grid.restore(spectrum * self.grid.run(stage, node, option))
                    whole = ran + (late_after[0][:, node] - self.prices * add)[:, None, None]
                    values[:, node] = np.maximum(values[:, node], whole)
            whole_after, late = self._move_back(values, late)
            after.insert(0, whole_after - late[..., None, None])
            late_after.insert(0, late)
        return _Outlook(after, late_after)

    def _move_back(self, whole: FloatArray, late: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return W after a stage (P, K, ...), given it before the next: shrink or stay for nothing, or grow."""
        steps, count = self.steps, self.steps.held.size
        best, best_late = np.full(whole.shape, -math.inf), np.full(late.shape, -math.inf)
        # No growth is quicker than by one instance.
        arrived = whole.copy()
        for node in range(1, count):
            if not np.isfinite(late[0, node]):
                continue
            rise = self.grid.transform(whole[:, node] - late[:, node, None, None])
            there = int(steps.held[node])
            arrived[:, node] = self.grid.restore(rise * self.grid.initialise(1, there, 1)) + late[:, node, None, None]
        for node in range(count):
            self.effort.charge_pass()
            best[:, node] = whole[:, : node + 1].max(axis=1)
            best_late[:, node] = late[:, : node + 1].max(axis=1)
            usable = np.flatnonzero(np.isfinite(late[0, node + 1 :])) + node + 1
            if not usable.size:
                continue
            price = self.prices[:, None] * steps.growth[node, usable]
            grown_late = (late[:, usable] - price).max(axis=1)
            grown = (arrived[:, usable] - price[..., None, None]).max(axis=1)
            rise = self.grid.transform(grown - grown_late[:, None, None])
            grown = self.grid.restore(rise * self.grid.request(int(steps.held[node]))) + grown_late[:, None, None]
            best[:, node] = np.maximum(best[:, node], grown)
            best_late[:, node] = np.maximum(best_late[:, node], grown_late)
        return best, best_late
