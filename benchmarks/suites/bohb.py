"""BOHB: Hyperband whose configurations come from a density model (Falkner, Klein and Hutter, ICML 2018).

The densities are statsmodels' multivariate kernel estimates. Hyperparameters are taken as ordered: what a grid of
learning rates is. A configuration is tried once, as trying it again would show the same curve.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from optplan.errors import UsageError
from optplan.schema import FloatArray, IntArray
from suites.rivals import Bracket, Stages, plan_brackets
from suites.search_clock import TOLERANCE, SearchClock, SearchOutcome, SearchSetting, Trial

#: The paper's settings: share of configurations drawn at random, share of results that count as good, candidates drawn
#: from the good ones' density, and its least bandwidth.
_RANDOM_SHARE = 1.0 / 3.0
_GOOD_SHARE = 0.15
_CANDIDATES = 64
_LEAST_BANDWIDTH = 1e-3
#: Densities below this are taken for it, so that their ratio exists.
_LEAST_DENSITY = 1e-32


class _Model:
    """Proposes configurations by the ratio of two densities."""

    def __init__(self, levels: IntArray, rng: np.random.Generator) -> None:
        self.levels, self.rng = levels, rng
        self.untried = dict.fromkeys(range(len(levels)))
        self.seen: dict[float, dict[int, float]] = {}
        self.most_levels = levels.max(axis=0) + 1

    def see(self, mark: float, configuration: int, loss: float) -> None:
        """Note a result at a budget."""
        self.seen.setdefault(mark, {})[configuration] = loss

    def propose(self) -> int:
        """Return a configuration that was not tried yet; there has to be one."""
        chosen = None
        if self.rng.random() >= _RANDOM_SHARE:
            chosen = self._best_candidate()
        if chosen is None:
            chosen = int(self.rng.choice(np.fromiter(self.untried, dtype=np.int64)))
        del self.untried[chosen]
        return chosen

    def _best_candidate(self) -> int | None:
        """Return the untried candidate with the best ratio, by the largest budget that has results enough."""
        dimensions = self.levels.shape[1]
        enough = [mark for mark, seen in self.seen.items() if len(seen) >= dimensions + 3]
        if not enough:
            return None
        seen = self.seen[max(enough)]
        ranked = sorted(seen, key=lambda configuration: (seen[configuration], configuration))
        good_count = max(dimensions + 1, math.floor(_GOOD_SHARE * len(ranked)))
        good = self._fit(self.levels[ranked[:good_count]])
        bad = self._fit(self.levels[ranked[-max(dimensions + 1, len(ranked) - good_count) :]])
        drawn = self._draw(self.levels[ranked[:good_count]], np.minimum(good.bw, 1.0))
        candidates = np.unique(drawn[np.isin(drawn, np.fromiter(self.untried, dtype=np.int64))])
        if not candidates.size:
            return None
        densities = [np.maximum(one.pdf(self.levels[candidates]), _LEAST_DENSITY) for one in (good, bad)]
        return int(candidates[np.argmax(densities[0] / densities[1])])

    def _fit(self, points: IntArray) -> Any:  # noqa: ANN401 - statsmodels has no types
        with warnings.catch_warnings():  # about random numbers, of which this bandwidth needs none
            warnings.simplefilter("ignore", FutureWarning)
            density = _load_density()(points.astype(float), "o" * points.shape[1], bw="normal_reference")
        density.bw = np.clip(density.bw, _LEAST_BANDWIDTH, 1.0)
        return density

    def _draw(self, good: IntArray, bandwidths: FloatArray) -> IntArray:
        """Draw configurations from the good ones' density: each a good one, some of whose levels are any."""
        centres = good[self.rng.integers(len(good), size=_CANDIDATES)]
        anywhere = self.rng.random(centres.shape) < bandwidths
        drawn = np.where(anywhere, self.rng.integers(self.most_levels, size=centres.shape), centres)
        rows = {tuple(levels): number for number, levels in enumerate(self.levels.tolist())}
        numbers = [rows.get(tuple(levels), -1) for levels in drawn.tolist()]
        return np.array([number for number in numbers if number >= 0], dtype=np.int64)


def run_bohb(
    setting: SearchSetting, rng: np.random.Generator, *, levels: IntArray, eta: float = 4.0, least_epochs: float = 1.0
) -> SearchOutcome:
    """Run Hyperband's brackets one after another on a fixed cluster, one GPU a trial, with proposals of the model.

    A GPU without work in the brackets begun starts the next one. Trials go on from where they stopped; at the most each
    passes what one GPU does until the deadline. ``levels`` are (C, D): of each configuration, the number of the level
    of each hyperparameter, from 0 in the order of its values.
    """
    gpus = setting.cluster_gpus
    _load_density()
    clock, model = SearchClock(setting), _Model(levels, rng)
    rounds = math.floor(math.log(max(1.0, setting.most_epochs / least_epochs), eta) + TOLERANCE)
    plans = plan_brackets(rounds, eta)
    brackets: list[Bracket] = []
    owner: dict[int, Bracket] = {}
    free = gpus
    while True:
        while free and (chosen := _next_trial(brackets, plans, clock, model)) is not None:
            trial, bracket = chosen
            owner[trial.number] = bracket
            clock.train(trial, 1, epochs=setting.most_epochs * bracket.shares[bracket.stage])
            free -= 1
        ended = clock.wait()
        if ended is None:
            return clock.finish(cluster_gpus=gpus)
        free += 1
        bracket = owner[ended.number]
        value = clock.value(ended)
        loss = math.inf if math.isnan(value) else -value
        model.see(bracket.shares[bracket.stage], ended.configuration, loss)
        bracket.end(ended, clock)


def _next_trial(
    brackets: list[Bracket], plans: Sequence[Stages], clock: SearchClock, model: _Model
) -> tuple[Trial, Bracket] | None:
    """Return the next trial of the earliest bracket that has one; begin another bracket where none has."""
    for number in count():
        if number == len(brackets):
            if not model.untried:
                return None
            sizes, shares = plans[number % len(plans)]
            brackets.append(Bracket(sizes, shares, undrawn=sizes[0]))
        bracket = brackets[number]
        if bracket.undrawn and not model.untried:  # the search space is used up: it goes on with what it has
            bracket.undrawn = 0
            bracket.advance(clock)
        if bracket.undrawn:
            bracket.undrawn -= 1
            bracket.training += 1
            return clock.add(model.propose()), bracket
        if bracket.waiting:
            bracket.training += 1
            return bracket.waiting.pop(0), bracket
    return None


def _load_density() -> Any:  # noqa: ANN401 - statsmodels has no types
    try:
        from statsmodels.nonparametric.kernel_density import KDEMultivariate
    except ModuleNotFoundError:
        raise UsageError("statsmodels is not installed; run: pip install -r benchmarks/requirements.txt") from None
    return KDEMultivariate
