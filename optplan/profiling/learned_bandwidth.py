"""A learned model of bus bandwidth: its record and its predictions (4.2).

There is one set of boosted trees on each side of the MTU; :mod:`~optplan.profiling.bandwidth_training` grows them. No
prediction lies below the least bandwidth of the rows that its trees were learned from, so none is negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from optplan.errors import DataError, MissingExtraError, nearest_name_hint
from optplan.instances.plain_data import read_data
from optplan.profiling.allreduce_data import PLACE_NUMBERS, Origin, Place, say_origin
from optplan.schema import ByName, FloatArray, FrozenModel, PositiveAmount

if TYPE_CHECKING:
    from types import ModuleType

    from xgboost import Booster


class Loss(StrEnum):
    """What training makes least."""

    PSEUDO_HUBER = "pseudo-Huber"
    SQUARED = "squared error"


class Target(StrEnum):
    """What the trees predict."""

    BANDWIDTH = "bandwidth"
    LOGARITHM = "log of bandwidth"


class Trial(FrozenModel):
    """One choice of loss, target and trees, and how well it predicted what it had not seen."""

    #: loss, target: What was trained for.
    loss: Loss
    target: Target
    #: depth, rounds: Of a tree; trees.
    depth: int
    rounds: int
    mape: float  #: Mean absolute percentage error in cross-validation, as a fraction.


class TransferModel(Trial):
    """The trees for the transfers on one side of the MTU, as the best trial has them: ``mape`` is a little too good."""

    #: ``mape`` for the provider's rated bandwidth as the prediction; None where no row says it.
    rated_mape: float | None = None
    trials: tuple[Trial, ...]  #: All that was tried.
    rows: int  #: That it was learned from.
    #: median_gbit_per_s, least_gbit_per_s: Of those rows: the unit of what the trees predict, and what no prediction
    #: lies below.
    median_gbit_per_s: PositiveAmount
    least_gbit_per_s: PositiveAmount
    trees: str  #: What xgboost saves, in JSON.


class LearnedBandwidth(FrozenModel):
    """A model of bus bandwidth, with what it was learned from."""

    kind: Literal["learned-bandwidth"] = "learned-bandwidth"
    version: Literal[1] = 1
    #: fingerprint, origin: Of the measurements, which are not kept.
    fingerprint: str
    origin: Origin
    mtu_bytes: int  #: Transfers up to this size are small.
    #: small, large: Models; None where there were no measurements on that side.
    small: TransferModel | None = None
    large: TransferModel | None = None
    places: tuple[Place, ...]  #: Where measurements were made.
    names: ByName[tuple[str, ...]]  #: By feature that is a name, the values that occurred.
    #: measured_ranks, measured_sizes_bytes, measured_transfers: Values that occurred, ascending.
    measured_ranks: tuple[int, ...]
    measured_sizes_bytes: tuple[int, ...]
    measured_transfers: tuple[int, ...]
    #: seed, folds: Of the cross-validation.
    seed: int
    folds: int
    xgboost_version: str  #: That trained the trees.

    @property
    def label(self) -> str:
        """What it was learned from, in words."""
        return say_origin(self.origin, self.fingerprint)

    def side_of(self, size_bytes: float) -> TransferModel:
        """Return the model for a size; there may be none on its side of the MTU."""
        is_small = size_bytes <= self.mtu_bytes
        found = self.small if is_small else self.large
        if found is None:
            side = f"up to the MTU of {self.mtu_bytes} bytes" if is_small else f"above {self.mtu_bytes} bytes"
            problem = f"got {size_bytes:g}, and nothing {side} was measured"
            raise DataError("sizes_bytes", problem, "measure such sizes, too, or leave them out")
        return found

    def predict(
        self, place: Place, ranks: int, sizes_bytes: Sequence[float], transfers: int | None = None
    ) -> FloatArray:
        """Predict the bus bandwidth at a place.

        Parameters
        ----------
        place
            Whose names all occurred in the measurements.
        ranks
            That take part.
        sizes_bytes
            (S,) Sizes of the buffer.
        transfers
            All-reduces at once; None: the least number that was measured.

        Returns
        -------
        array
            (S,) Gbit/s, above zero.

        Raises
        ------
        DataError
            When a name did not occur, or nothing was measured on a size's side of the MTU.
        MissingExtraError
            When xgboost is not installed.
        """
        for name, known in self.names.items():
            if getattr(place, name) not in known:
                problem = f"got {getattr(place, name)!r}, where nothing was measured"
                raise DataError(name, problem, nearest_name_hint(getattr(place, name), known))
        at_once = self.measured_transfers[0] if transfers is None else transfers
        found = np.empty(len(sizes_bytes))
        sides = [self.side_of(size) for size in sizes_bytes]
        features = encode_features(self.names, [(place, size, ranks, at_once) for size in sizes_bytes])
        for side, booster in self._boosters:
            here = np.array([each is side for each in sides])
            if here.any():
                found[here] = predict_with(
                    booster, features[here], side.target, side.median_gbit_per_s, side.least_gbit_per_s, side.rounds
                )
        return found

    @cached_property
    def _boosters(self) -> list[tuple[TransferModel, Booster]]:
        """Load the trees of each side, once."""
        xgboost, loaded = require_xgboost(), []
        for side in filter(None, (self.small, self.large)):
            booster = xgboost.Booster({"nthread": 1, "verbosity": 0})
            try:
                booster.load_model(bytearray(side.trees.encode()))
            except (xgboost.core.XGBoostError, ValueError):  # its message is a stack trace
                problem = f"cannot be read by xgboost {xgboost.__version__}; {self.xgboost_version} wrote them"
                raise DataError("trees", problem, "learn the model again") from None
            loaded.append((side, booster))
        return loaded


def read_model(path: Path | str) -> LearnedBandwidth:
    """Read a model that :func:`~optplan.instances.files.write_json` wrote as JSON.

    Raises
    ------
    DataError
        When the file cannot be read or is no such model.
    """
    path = Path(path)
    content = read_data(path)
    if not isinstance(content, dict) or content.get("kind") != "learned-bandwidth":
        raise DataError(path.name, "is no model of bandwidth", "give what `optplan measure bandwidth` wrote")
    return LearnedBandwidth.parse(content, path=path.name)


def require_xgboost() -> ModuleType:
    """Return xgboost."""
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError("xgboost", "learn") from None
    return xgboost


def encode_features(names: Mapping[str, Sequence[str]], points: Sequence[tuple[Place, float, int, int]]) -> FloatArray:
    """Return the numbers (points, features) that trees look at.

    A name has a column for each value, unless there is only one; what is not known is nan, which xgboost takes for
    missing.
    """
    numbers = [
        [size, ranks, transfers, *(getattr(place, name) for name in PLACE_NUMBERS)]
        for place, size, ranks, transfers in points
    ]
    choices = [(name, value) for name, values in names.items() if len(values) > 1 for value in values]
    chosen = [[float(getattr(place, name) == value) for name, value in choices] for place, *_ in points]
    return np.hstack([np.array(numbers, dtype=np.float64), np.array(chosen, dtype=np.float64).reshape(len(points), -1)])


def predict_with(
    booster: Booster, features: FloatArray, target: Target, median: float, least: float, rounds: int
) -> FloatArray:
    """Return bandwidths (points,) in Gbit/s that trees predict, none below the least; see :class:`TransferModel`."""
    xgboost = require_xgboost()
    found = booster.predict(xgboost.DMatrix(features, nthread=1), iteration_range=(0, rounds)).astype(np.float64)
    relative = np.exp(found) if target is Target.LOGARITHM else 1.0 + found
    return np.asarray(np.maximum(relative * median, least), dtype=np.float64)
