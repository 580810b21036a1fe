"""Learns bus bandwidth from measurements: gradient-boosted trees, one model on each side of the MTU (4.2).

Small transfers wait for latency, large ones for the network. As in the paper, losses and sizes of trees are chosen by
the mean absolute percentage error (MAPE) in cross-validation; repetitions of one point are never on both sides of a
fold. Besides the bandwidth itself its logarithm is tried as what the trees predict, because relative errors are what
counts.

xgboost runs on one thread, and rows are sorted first: the same data, in whatever order, gives the same model.

Bus bandwidth as tables, which instances of Srift read: predicted by a model, or measured (4.2).
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.profiling.allreduce_data import PLACE_NAMES, PLACE_NUMBERS, AllreduceData, Measurement, Place
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
from optplan.quantities import round_shared
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


def tabulate(
    source: LearnedBandwidth | AllreduceData,
    types: Sequence[str] | Mapping[str, str] = (),
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> MeasuredBandwidth:
    """Tabulate the bandwidth for an instance's field ``bandwidth``, of all-reduces one at a time.

    Parameters
    ----------
    source
        A model, or measurements, whose medians are taken.
    types
        Types of VM, or the type that was measured by the name that the instance has for it; all unless given.
    ranks, sizes_bytes
        Of the table, ascending; those that were measured unless given.
    region
        Where; the mean of a model over all places of the type, or the median of all rows, unless given.

    Returns
    -------
    MeasuredBandwidth
        Whose source says whether it was predicted or measured, from what, how well, and whether that was synthetic.

    Raises
    ------
    DataError
        When a type or region was not measured, or nothing was on a size's side of the MTU; of measurements, also when
        a point of the table was not measured.
    MissingExtraError
        When there is a model and xgboost is not installed.
    """
    by_name = dict(types) if isinstance(types, Mapping) else {name: name for name in types}
    here = source.places
    by_name = by_name or {name: name for name in sorted({place.vm_type for place in here})}
    if isinstance(source, LearnedBandwidth):
        _warn_beyond("ranks", ranks, source.measured_ranks)
        _warn_beyond("sizes_bytes", sizes_bytes, source.measured_sizes_bytes)
    tables = {}
    for name, vm_type in by_name.items():
        places = _find_places(here, vm_type, region)
        if isinstance(source, LearnedBandwidth):
            tables[name] = _predict(source, places, ranks, sizes_bytes)
        else:
            tables[name] = _take_medians(source, places, ranks, sizes_bytes)
    chosen = ", ".join(f"{name} as {vm_type}" for name, vm_type in by_name.items() if name != vm_type)
    where = "" if region is None else f"in {region}"
    return MeasuredBandwidth(tables=tables, source="; ".join(filter(None, [*_describe(source), where, chosen])))


def fill_bandwidth(
    instance: SriftInstance,
    source: LearnedBandwidth | AllreduceData,
    types: Mapping[str, str] | None = None,
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> SriftInstance:
    """Return an instance whose all-reduces run at the predicted or measured bandwidth.

    Parameters
    ----------
    instance
        Its types of VM are looked up by ``instance_type``, or by their name where that is empty.
    source
        As of :func:`tabulate`.
    types
        By such a name, the type that was measured and stands for it; the name itself unless given.
    ranks, sizes_bytes, region
        As of :func:`tabulate`.

    Raises
    ------
    DataError
        As of :func:`tabulate`.
    UsageError
        When the instance has no such type.
    """
    wanted = {vm.instance_type or name: vm.instance_type or name for name, vm in instance.types.items()}
    for name, vm_type in (types or {}).items():
        if name not in wanted:
            raise UsageError(f"types: the instance has no VMs of {name!r}; {nearest_name_hint(name, wanted)}")
        wanted[name] = vm_type
    return instance.replace(bandwidth=tabulate(source, wanted, ranks, sizes_bytes, region=region))


def _predict(
    model: LearnedBandwidth, places: Sequence[Place], ranks: Sequence[int], sizes: Sequence[int]
) -> BandwidthTable:
    """Tabulate the mean of what is predicted at the places."""
    rows, columns = tuple(ranks) or model.measured_ranks, tuple(sizes) or model.measured_sizes_bytes
    found = [[model.predict(place, count, columns) for count in rows] for place in places]
    return _make_table(rows, columns, round_shared(np.mean(np.array(found), axis=0)).tolist())


def _take_medians(
    data: AllreduceData, places: Sequence[Place], ranks: Sequence[int], sizes: Sequence[int]
) -> BandwidthTable:
    """Tabulate the medians of what was measured at the places, with the fewest transfers at once."""
    least, here, points = min(row.transfers for row in data.rows), set(places), dict[tuple[int, int], list[float]]()
    for row in data.rows:
        if row.place in here and row.transfers == least:
            points.setdefault((row.ranks, row.size_bytes), []).append(row.bus_gbit_per_s)
    rows = tuple(ranks) or tuple(sorted({count for count, _ in points}))
    columns = tuple(sizes) or tuple(sorted({size for _, size in points}))
    for count, size in product(rows, columns):
        if (count, size) not in points:
            problem = f"{places[0].vm_type} was not measured with {size} bytes among {count} ranks"
            raise DataError("types", problem, "learn a model, which fills gaps, or choose ranks and sizes")
    return _make_table(rows, columns, [[statistics.median(points[count, size]) for size in columns] for count in rows])


def _describe(source: LearnedBandwidth | AllreduceData) -> list[str]:
    if isinstance(source, AllreduceData):
        return [f"medians of {source.label}"]
    sides = [(source.small, f"up to {source.mtu_bytes} bytes"), (source.large, "above")]
    errors = ", ".join(f"{side.mape:.1%} {where}" for side, where in sides if side is not None)
    return [f"boosted trees learned from {source.label}", f"cross-validated MAPE {errors}"]


def _make_table(
    ranks: Sequence[int], sizes: Sequence[int], bus_gbit_per_s: Sequence[Sequence[float]]
) -> BandwidthTable:
    return BandwidthTable.parse(
        {"ranks": list(ranks), "sizes_bytes": list(sizes), "bus_gbit_per_s": bus_gbit_per_s}, path="table"
    )


def _find_places(places: Sequence[Place], vm_type: str, region: str | None) -> list[Place]:
    of_type = [place for place in places if place.vm_type == vm_type]
    if not of_type:
        known = sorted({place.vm_type for place in places})
        raise DataError("types", f"{vm_type!r} was not measured", nearest_name_hint(vm_type, known))
    found = [place for place in of_type if region is None or place.region == region]
    if not found:
        regions = sorted({place.region or "(not said)" for place in of_type})
        raise DataError("region", f"{vm_type} was not measured in {region!r}", nearest_name_hint(str(region), regions))
    return found


def _warn_beyond(what: str, asked: Sequence[int], measured: Sequence[int]) -> None:
    beyond = [value for value in asked if not measured[0] <= value <= measured[-1]]
    if beyond:
        message = (
            f"{what}: {', '.join(map(str, beyond))} lie beyond what was measured, {measured[0]} to {measured[-1]}; "
            "trees predict there what they do at the end"
        )
        warnings.warn(message, DataWarning, stacklevel=3)
