"""Minimum charges of one bracket for the judge: what is known of a path's while it goes on, and exactly at its end."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from optplan.contracts.judgement import JUDGE_TOLERANCE
from optplan.formulations.rubberband.data.instance import RubberBandInstance, StageAllocation
from optplan.formulations.rubberband.judge.evaluation import expected_shortfall_s
from optplan.formulations.rubberband.judge.paths import Paths, list_cohorts
from optplan.formulations.rubberband.laws.lifetimes import latest_law
from optplan.formulations.rubberband.laws.stages import StageOptions, stage_cdf, stage_law
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: A missing minimum charge below this share of the cost is none.
_NO_CHARGE = 1e-13


class WalkCharges:
    """What paths of one bracket pay of minimum charges."""

    def __init__(
        self, instance: RubberBandInstance, bracket: int, options: list[StageOptions], stopwatch: Stopwatch
    ) -> None:
        self.instance = instance
        self.bracket = bracket
        self.options = options
        self.stopwatch = stopwatch
        self._described: dict[tuple[int, int], tuple[float, float]] = {}

    def observe(self, paths: Paths, stage: int, choice: IntArray, held: IntArray) -> tuple[FloatArray, IntArray]:
        """Return (L,) the sum of the variances and how many stages are certain to last, after options of a stage."""
        variance, lasting = np.zeros(choice.size), np.zeros(choice.size, dtype=np.int64)
        if not self.instance.has_minimum_charges:
            return variance, lasting
        added = held - (paths.held[:, -1] if stage else 0)
        for place, figure in ((choice, self._describe_option), (np.maximum(added, 0), self._describe_growth)):
            different, back = np.unique(place, return_inverse=True)
            figures = np.array([figure(stage, each) for each in different.tolist()]).reshape(-1, 2)[back]
            variance, lasting = variance + figures[:, 0], lasting + figures[:, 1].astype(np.int64)
        if stage:
            variance, lasting = variance + paths.variance[:, -1], lasting + paths.lasting[:, -1]
        return variance, lasting

    def _describe_option(self, stage: int, option: int) -> tuple[float, float]:
        """Return the variance of a stage's time, and 1 where it is certain to last as long as the minimum charge."""
        key = (stage, option)
        if key not in self._described:
            self.stopwatch.require()
            options, minimum_s = self.options[stage], self.instance.cloud.minimum_charge_s * (1.0 - JUDGE_TOLERANCE)
            gpus = int(options.gpus[option])
            short = stage_cdf(self.instance, self.bracket, stage, gpus, np.array([minimum_s]))[0] > _NO_CHARGE
            random = self.instance.is_random
            variance = stage_law(self.instance, self.bracket, stage, gpus).deviation_s ** 2 if random else 0.0
            self._described[key] = (variance, 0.0 if short else 1.0)
        return self._described[key]

    def _describe_growth(self, stage: int, added: int) -> tuple[float, float]:  # noqa: ARG002 - as that of options
        """Return the variance of getting so many instances; no growth is ever held to last."""
        if not added or not self.instance.is_random:
            return 0.0, 0.0
        provision, latest = self.instance.cloud.provision_s, latest_law(self.instance, added)
        return provision.deviation_s**2 + latest.deviation_s**2, 0.0

    def may_apply(self) -> bool:
        """Whether some stage may be over before a minimum charge is used up."""
        if not self.instance.has_minimum_charges:
            return False
        return any(
            not self._describe_option(stage, option)[1]
            for stage, options in enumerate(self.options)
            for option in range(options.gpus.size)
        )

    def missing_after(self, stage: int, option: int) -> float:
        """Return E[max(minimum charge - time, 0)] of an option of a stage; 0 without such charges."""
        if not self.vary:
            return 0.0
        self.stopwatch.require()
        law = stage_law(self.instance, self.bracket, stage, int(self.options[stage].gpus[option]))
        return float(law.shortfall(np.array([self.instance.cloud.minimum_charge_s]))[0])

    @cached_property
    def vary(self) -> bool:
        """Whether lives are random, so that charges are known exactly only at the end."""
        return self.instance.has_minimum_charges and self.instance.is_random

    def settle_usd(self, paths: Paths, row: int) -> float:
        """Return the expected cost of a whole path, exactly."""
        self.stopwatch.require()
        missing = []
        chosen = zip(paths.held[row].tolist(), paths.gpus[row].tolist(), strict=True)
        chain = [StageAllocation(instances=held, gpus=gpus) for held, gpus in chosen]
        cohorts = list_cohorts(paths.held[row : row + 1])[0]
        for first, last in np.argwhere(cohorts).tolist():
            missing.append(cohorts[first, last] * expected_shortfall_s(self.instance, self.bracket, chain, first, last))
        return float(paths.usd[row]) + self.instance.cloud.price_usd_per_s * math.fsum(missing)
