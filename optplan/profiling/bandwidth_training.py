"""Learns bus bandwidth from measurements: gradient-boosted trees, one model on each side of the MTU (4.2).

Small transfers wait for latency, large ones for the network. As in the paper, losses and sizes of trees are chosen by
the mean absolute percentage error (MAPE) in cross-validation; repetitions of one point are never on both sides of a
fold. Besides the bandwidth itself its logarithm is tried as what the trees predict, because relative errors are what
counts.

xgboost runs on one thread, and rows are sorted first: the same data, in whatever order, gives the same model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.profiling.allreduce_data import PLACE_NAMES, PLACE_NUMBERS, AllreduceData, Measurement
from optplan.profiling.learned_bandwidth import (
    LearnedBandwidth,
    Loss,
    Target,
    TransferModel,
    Trial,
    encode_features,
    predict_with,
    require_xgboost,
)
from optplan.schema import FloatArray, IntArray

if TYPE_CHECKING:
    from xgboost import Booster

#: Largest packet of EC2's networks, in bytes.
EC2_MTU_BYTES = 9000
FOLDS = 5
_LEARNING_RATE = 0.1
#: Depths of trees, and numbers of trees, that are tried.
_DEPTHS = (4, 8)
_ROUNDS = (50, 100, 200)
_OBJECTIVES = {Loss.PSEUDO_HUBER: "reg:pseudohubererror", Loss.SQUARED: "reg:squarederror"}


def learn_bandwidth(
    data: AllreduceData,
    *,
    mtu_bytes: int = EC2_MTU_BYTES,
    seed: int = 0,
    folds: int = FOLDS,
    depths: Sequence[int] = _DEPTHS,
    rounds: Sequence[int] = _ROUNDS,
) -> LearnedBandwidth:
    """Learn the bus bandwidth from measurements.

    Parameters
    ----------
    data
        Measured or synthetic; the model says which.
    mtu_bytes
        Where the two models part; a row of exactly this size teaches both.
    seed
        Of the folds.
    folds
        Of the cross-validation, 2 or more.
    depths, rounds
        Depths of trees and numbers of trees that are tried, with each loss and target.

    Returns
    -------
    LearnedBandwidth
        With all trials.

    Raises
    ------
    DataError
        When a side of the MTU has fewer points than there are folds, or there are none at all.
    UsageError
        When there are fewer than 2 folds, or nothing to try.
    MissingExtraError
        When xgboost is not installed.
    """
    if folds < 2 or mtu_bytes < 1 or not depths or not rounds or min(*depths, *rounds, 1) < 1:
        message = f"folds {folds}, mtu_bytes {mtu_bytes}, depths {list(depths)}, rounds {list(rounds)}"
        raise UsageError(f"{message}: two folds or more, and whole numbers from 1 on, are needed")
    rows = sorted(data.rows, key=_sort_key)
    names = {name: tuple(sorted({getattr(row.place, name) for row in rows})) for name in PLACE_NAMES}
    learner = _Learner(names, seed, folds, tuple(depths), tuple(sorted(rounds)))
    return LearnedBandwidth(
        fingerprint=data.fingerprint,
        origin=data.origin,
        mtu_bytes=mtu_bytes,
        small=learner.learn([row for row in rows if row.size_bytes <= mtu_bytes], f"up to {mtu_bytes} bytes"),
        large=learner.learn([row for row in rows if row.size_bytes >= mtu_bytes], f"from {mtu_bytes} bytes on"),
        places=tuple(dict.fromkeys(row.place for row in rows)),
        names=names,
        measured_ranks=tuple(sorted({row.ranks for row in rows})),
        measured_sizes_bytes=tuple(sorted({row.size_bytes for row in rows})),
        measured_transfers=tuple(sorted({row.transfers for row in rows})),
        seed=seed,
        folds=folds,
        xgboost_version=require_xgboost().__version__,
    )


def _sort_key(row: Measurement) -> tuple[object, ...]:
    place = row.place
    texts = tuple(getattr(place, name) for name in PLACE_NAMES)
    numbers = tuple(getattr(place, name) or 0.0 for name in PLACE_NUMBERS)
    return (*texts, *numbers, row.size_bytes, row.ranks, row.transfers, row.bus_gbit_per_s)


class _Learner:
    """Trains and compares."""

    def __init__(
        self, names: Mapping[str, Sequence[str]], seed: int, folds: int, depths: Sequence[int], rounds: Sequence[int]
    ) -> None:
        self._names, self._seed, self._folds = names, seed, folds
        self._depths, self._rounds = depths, rounds

    def learn(self, rows: Sequence[Measurement], side: str) -> TransferModel | None:
        """Learn from the rows on one side of the MTU; None where there are none."""
        if not rows:
            return None
        points = list(dict.fromkeys(row.point for row in rows))
        if len(points) < self._folds:
            problem = f"only {len(points)} different points {side}, for {self._folds} folds"
            raise DataError("measurements", problem, "measure more sizes or ranks, or take fewer folds")
        order = np.random.default_rng(self._seed).permutation(len(points))
        fold_of = dict(zip(points, (order % self._folds).tolist(), strict=True))
        folds = np.array([fold_of[row.point] for row in rows])
        features = encode_features(self._names, [(row.place, row.size_bytes, row.ranks, row.transfers) for row in rows])
        measured = np.array([row.bus_gbit_per_s for row in rows])
        trials = [
            trial
            for loss in Loss
            for target in Target
            for depth in self._depths
            for trial in self._try(features, measured, folds, loss, target, depth)
        ]
        best = min(trials, key=lambda trial: trial.mape)  # the first of several
        booster, median = self._train(features, measured, best.loss, best.target, best.depth, best.rounds)
        return TransferModel(
            **dict(best),
            rated_mape=_compare_rated(rows),
            trials=tuple(trials),
            rows=len(rows),
            median_gbit_per_s=median,
            least_gbit_per_s=float(measured.min()),
            trees=bytes(booster.save_raw("json")).decode(),
        )

    def _try(
        self, features: FloatArray, measured: FloatArray, folds: IntArray, loss: Loss, target: Target, depth: int
    ) -> list[Trial]:
        """Cross-validate; one training for all numbers of trees."""
        errors = np.empty((len(self._rounds), measured.size))
        for fold in range(self._folds):
            held_out = folds == fold
            taught = measured[~held_out]
            booster, median = self._train(features[~held_out], taught, loss, target, depth, self._rounds[-1])
            for index, count in enumerate(self._rounds):
                predicted = predict_with(booster, features[held_out], target, median, float(taught.min()), count)
                errors[index, held_out] = np.abs(predicted / measured[held_out] - 1.0)
        return [
            Trial(loss=loss, target=target, depth=depth, rounds=count, mape=float(mape))
            for count, mape in zip(self._rounds, errors.mean(axis=1), strict=True)
        ]

    def _train(
        self, features: FloatArray, measured: FloatArray, loss: Loss, target: Target, depth: int, rounds: int
    ) -> tuple[Booster, float]:
        """Train; return the trees and the median, which is the unit of what they predict."""
        xgboost = require_xgboost()
        median = float(np.median(measured))
        relative = measured / median
        labels = np.log(relative) if target is Target.LOGARITHM else relative - 1.0
        settings = {
            "objective": _OBJECTIVES[loss],
            "base_score": 0.0,  # xgboost's own estimate diverges for pseudo-Huber where labels are far from zero
            "max_depth": depth,
            "eta": _LEARNING_RATE,
            "tree_method": "hist",
            "nthread": 1,
            "seed": self._seed,
            "verbosity": 0,
        }
        booster: Booster = xgboost.train(settings, xgboost.DMatrix(features, labels, nthread=1), rounds)
        return booster, median


def _compare_rated(rows: Sequence[Measurement]) -> float | None:
    """Return the error of the provider's rated bandwidth as a prediction."""
    errors = [
        abs(row.place.rated_gbit_per_s / row.bus_gbit_per_s - 1.0)
        for row in rows
        if row.place.rated_gbit_per_s is not None
    ]
    return math.fsum(errors) / len(errors) if errors else None
