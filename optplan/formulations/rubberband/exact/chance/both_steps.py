"""What plans of one bracket consist of, for the search of those that keep a deadline and a budget, both.

Times and instance-seconds are rounded down to a grid of two dimensions that ends with the deadline and the budget, so
that no plan keeps both less often than it seems. A duration of length x that passes while w instances are paid moves by
(x, w x); between the lines of the grid all of it moves by the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance
from optplan.formulations.rubberband.exact.chains import list_held
from optplan.formulations.rubberband.exact.charges import lasts
from optplan.formulations.rubberband.exact.durations import growth
from optplan.formulations.rubberband.exact.stage_options import stage_options
from optplan.formulations.rubberband.laws.stages import StageOptions, stage_cdf, stage_law
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import Effort

Spectrum = NDArray[np.complex128]
Cdf = Callable[[FloatArray], FloatArray]

#: Points at which two distributions are compared, and by what they may differ and still be the same.
_COMPARED = 513
_ROUNDING = 1e-12


class BothSteps:
    """Stages, instance counts and allocations of one bracket with what they add to the objective.

    Parameters
    ----------
    instance
        One bracket, billed per instance.
    effort
        Limit on time.
    """

    def __init__(self, instance: RubberBandInstance, effort: Effort) -> None:
        self.instance = instance
        self.effort = effort
        stages = range(len(instance.brackets[0]))
        self.options = [stage_options(instance, 0, stage, stopwatch=effort.stopwatch) for stage in stages]
        self.charged = instance.has_minimum_charges and not all(
            lasts(instance, 0, stage, options).all() for stage, options in enumerate(self.options)
        )
        #: (K,) Instances held at each node.
        self.held = list_held(instance, self.options, charged=self.charged)
        self.is_cost = instance.objective is Objective.COST
        price = instance.cloud.price_usd_per_s
        #: By stage and node: positions of the options, and what each adds to the objective.
        self.choices = [self._list_choices(stage, options) for stage, options in enumerate(self.options)]
        self.adds = [
            [
                (price * held if self.is_cost else 1.0) * options.expected_s[own]
                for held, own in zip(self.held.tolist(), chosen, strict=True)
            ]
            for options, chosen in zip(self.options, self.choices, strict=True)
        ]
        which = 1 if self.is_cost else 0
        self.start = growth(instance, 0, self.held)[which]
        self.growth = growth(instance, self.held[:, None], self.held[None, :])[which]
        #: By stage (K,): the least that a stage and all after it add, and all after it.
        self.ahead, self.rest = self._find_rest()

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self.options)

    def _list_choices(self, stage: int, options: StageOptions) -> list[IntArray]:
        """List by node the options that fit, without those that another is certain to beat in time and so in cost."""
        kept: list[int] = []
        by_node, laws, first = [], {}, 0
        for held in self.held.tolist():
            last = int(np.searchsorted(options.instances, held, side="right"))
            for option in range(first, last):
                self.effort.charge_labels(0, 0)
                gpus = int(options.gpus[option])
                laws[option] = stage_law(self.instance, 0, stage, gpus)
                ends = [end for one in (*kept, option) for end in (laws[one].first_s, float(laws[one].values_s[-1]))]
                # At the jumps of a constant, too.
                points = np.concatenate([np.linspace(min(ends), max(ends), _COMPARED), ends])
                own = stage_cdf(self.instance, 0, stage, gpus, points)
                others = [stage_cdf(self.instance, 0, stage, int(options.gpus[one]), points) for one in kept]
                # What minimum charges add does not vary here: a slower option may keep the budget more often.
                if not self.charged and any((other >= own - _ROUNDING).all() for other in others):
                    continue
                if not self.charged:
                    kept = [one for one, other in zip(kept, others, strict=True) if not (own >= other).all()]
                kept.append(option)
            first = last
            by_node.append(np.array(kept, dtype=np.int64))
        return by_node

    def _find_rest(self) -> tuple[list[FloatArray], list[FloatArray]]:
        rest, ahead = [np.zeros(self.held.size)], list[FloatArray]()
        for stage in range(self.stages - 1, -1, -1):
            run = np.array([added.min(initial=math.inf) for added in self.adds[stage]])
            ahead.insert(0, run + rest[0])
            if stage:
                rest.insert(0, (self.growth + ahead[0]).min(axis=1))
        return ahead, rest


class BothGrid:
    """The distributions of all steps on one grid.

    Parameters
    ----------
    steps
        The bracket.
    deadline_s, budget_usd
        Where the grid ends; an infinite limit has one point only.
    points
        In either direction.
    """

    def __init__(self, steps: BothSteps, deadline_s: float, budget_usd: float, points: int) -> None:
        self.steps = steps
        price = steps.instance.cloud.price_usd_per_s
        later = 1.0 + LIMIT_TOLERANCE
        #: Seconds, and instance-seconds; points.
        self.limits = (deadline_s * later, budget_usd / price * later)
        self.shape = tuple(1 if limit == math.inf else points for limit in self.limits)
        self.widths = tuple(limit / max(points - 1, 1) for limit in self.limits)
        self.padded = tuple(2 * size for size in self.shape)
        self._moves: dict[tuple[object, ...], FloatArray] = {}
        self._spectra: dict[tuple[int, int, int], Spectrum] = {}

    def transform(self, values: FloatArray) -> Spectrum:
        """Return the transform of functions of the grid."""
        return np.fft.rfft2(values, self.padded)

    def restore(self, spectrum: Spectrum) -> FloatArray:
        """Return the functions of the grid; what lies beyond it is lost."""
        rows, columns = self.shape
        return np.asarray(np.fft.irfft2(spectrum, self.padded)[..., :rows, :columns])

    def run(self, stage: int, node: int, option: int) -> Spectrum:
        """Return the transform of what an option of a stage moves by at a node."""
        if (stage, node, option) not in self._spectra:
            steps, gpus = self.steps, int(self.steps.options[stage].gpus[option])
            moves = self.state_moves(lambda t: stage_cdf(steps.instance, 0, stage, gpus, t), int(steps.held[node]))
            self._spectra[stage, node, option] = self.transform(moves)
        return self._spectra[stage, node, option]

    def request(self, held: int) -> Spectrum:
        """Return the transform of what a request moves by while so much is held."""
        cdf = self.steps.instance.cloud.provision_s.cdf
        return self.transform(self._move(("request", held), cdf, held))

    def initialise(self, added: int, held: int, started: int) -> Spectrum:
        """Return the transform of what the last of several initialisations moves by, until so much is held.

        Parameters
        ----------
        added
            How many initialisations are waited for.
        held
            Instances after it.
        started
            Instances that pay for data.
        """
        cloud = self.steps.instance.cloud
        single = cloud.initialise_s
        paid = started * cloud.data_usd_per_instance / cloud.price_usd_per_s
        key = ("initialise", 1 if single.is_constant else added, held, started if paid else 0)
        return self.transform(self._move(key, lambda t: np.power(single.cdf(t), added), held, paid))

    def _move(self, key: tuple[object, ...], cdf: Cdf, weight: int, paid: float = 0.0) -> FloatArray:
        """Return the probabilities of all moves, rounded down."""
        if key not in self._moves:
            self._moves[key] = self.state_moves(cdf, weight, paid)
        return self._moves[key]

    def state_moves(self, cdf: Cdf, weight: int, paid: float = 0.0) -> FloatArray:
        """Return the probability of each move of a duration, rounded down.

        Parameters
        ----------
        cdf
            Of the duration.
        weight
            Instances that are paid meanwhile.
        paid
            Instance-seconds that are paid besides.
        """
        rows, columns = self.shape
        (most_s, most), (wide_s, wide) = self.limits, self.widths
        lines: list[NDArray[np.floating[Any]]] = [np.zeros(1)]
        if rows > 1:
            lines.append(wide_s * np.arange(rows))
        if weight and columns > 1:
            lines.append(wide / weight * np.arange(columns))
            most_s = min(most_s, most / weight)
        breaks = np.unique(np.concatenate(lines))
        breaks = breaks[breaks <= most_s]
        # The end of a constant duration is on a line in spite of rounding; the last line has what lies beyond it, too.
        last = float(cdf(np.array([most_s]))[0]) if most_s < math.inf else 1.0
        mass = np.diff(np.append(cdf(breaks[1:] * (1.0 + LIMIT_TOLERANCE)), last), prepend=0.0)
        row = np.floor(breaks / wide_s + LIMIT_TOLERANCE) if rows > 1 else np.zeros(breaks.size)
        column = np.zeros(breaks.size)
        if columns > 1:
            column = np.floor(weight * breaks / wide + LIMIT_TOLERANCE) + math.floor(paid / wide)
        inside = column < columns
        moves = np.zeros(self.shape)
        np.add.at(moves, (row[inside].astype(np.int64), column[inside].astype(np.int64)), np.maximum(mass[inside], 0.0))
        return moves
