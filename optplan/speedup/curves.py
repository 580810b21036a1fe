"""Speedup curves: how many times faster one epoch runs on k GPUs than on one, where from that is known, and how well.

A curve is a frozen record, so it can be a field of another record and be read from JSON; its field ``form`` says which
kind it is. A job class whose speed changes while it trains has one row per epoch. Measured tables are taken as they
are: they may fall, they need not be concave, and a width that was not measured is refused instead of being guessed. The
assumptions that the theory makes on top (BOA, section 3.2) are the business of :mod:`optplan.speedup.hulls`.

A curve may carry its ``error``, which gives a 90 % band: in 9 of 10 cases the true speedup lies between s / (1 + error)
and s (1 + error).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from optplan.errors import DataError
from optplan.schema import (
    NUMBER,
    FloatArray,
    FrozenModel,
    IntArray,
    Numbers,
    Takes,
    WholeNumbers,
    refuse_entries,
    require_amounts,
    usual,
)

#: Widths that an error message lists before it shortens the list.
_LISTED_WIDTHS = 16
#: What stands where nobody says where a speedup comes from, as in all that was written before it could be said.
NOT_SAID = "not said"
#: Other words for what is computed from measurements, in the provenance of tables.
_COMPUTED = frozenset({"interpolated", "hinted"})
#: Standard deviations to either end of a 90 % band.
DEVIATIONS = 1.645
#: Largest error of a table: nobody needs more to say that a thousand GPUs may be no faster than one.
LARGEST_ERROR = 1000.0


class Evidence(StrEnum):
    """Where a speedup comes from."""

    MEASURED = "measured"  #: Measured at that width.
    FITTED = "fitted"  #: Computed from measurements at other widths, or from run times.
    CARD = "card"  #: Computed from a model card: the network's size, its batch, and the GPUs.
    ASSUMED = "assumed"  #: Stated without any of these.


#: From what says most to what says least.
_ORDER = (Evidence.MEASURED.value, Evidence.FITTED.value, Evidence.CARD.value, NOT_SAID, Evidence.ASSUMED.value)
#: Kinds that rest on no run of the job, and the words for them: what is proven is proven for these.
UNTRIED = {Evidence.ASSUMED.value: "assumed speedups", Evidence.CARD.value: "model cards"}


@lru_cache(maxsize=1024)
def read_provenance(word: str) -> str:
    """Return what a word of a table's provenance says of a width: a value of :class:`Evidence`, or ``NOT_SAID``."""
    said = Evidence.FITTED.value if word in _COMPUTED else word.partition("-")[0]
    return said if said in list(Evidence) else NOT_SAID


def find_weakest(kinds: Collection[str]) -> str:
    """Return which of some values of :class:`Evidence`, or ``NOT_SAID``, says least."""
    return max(kinds, key=_ORDER.index)


def name_law_evidence(evidence: Evidence | None) -> str:
    """Return what a law's field says: its value, or ``NOT_SAID``."""
    return NOT_SAID if evidence is None else evidence.value


class SpeedupCurve(FrozenModel):
    """What every speedup curve can say, whatever its form."""

    LATER: ClassVar[frozenset[str]] = frozenset({"error"})

    @property
    @abstractmethod
    def num_epochs(self) -> int | None:
        """Number of epochs that have a curve of their own; None when one curve holds in each epoch."""

    @abstractmethod
    def at(self, widths: IntArray) -> FloatArray:
        """Return the speedup at the given widths.

        Widths (widths,) are at least 1; the speedup is (num_epochs, widths), or (1, widths) when one curve holds in
        each epoch. A DataError names a width that the curve does not know.
        """

    @abstractmethod
    def known_widths(self) -> IntArray | None:
        """Return the widths that the curve knows, ascending; None when it knows every width."""

    @abstractmethod
    def evidence_at(self, widths: IntArray | FloatArray) -> list[str]:
        """Return for each width where its speedup comes from: a value of :class:`Evidence`, or ``NOT_SAID``."""

    @abstractmethod
    def error_factors(self, widths: IntArray, reference_width: int) -> FloatArray | None:
        """Return (widths,) 1 + error at each width; None where no error is stated."""

    def is_exact_at(self, widths: IntArray, reference_width: int) -> bool:
        """Whether nothing says that the speedup may be another one at any of the widths."""
        return self.error_factors(widths, reference_width) is None and Evidence.ASSUMED not in self.evidence_at(widths)

    def band_at(self, widths: IntArray, reference_width: int) -> tuple[FloatArray, FloatArray]:
        """Return between which speedups the true one lies in 9 of 10 cases, low and high, each shaped as by ``at``.

        Where no error is stated, what is assumed may have from none of the gain to all of it, 1 to width / reference
        width; all else counts as exact.
        """
        speedup, factors = self.at(widths), self.error_factors(widths, reference_width)
        if factors is not None:
            return speedup / factors, speedup * factors
        assumed = [kind == Evidence.ASSUMED for kind in self.evidence_at(widths)]
        ends = [speedup, *(np.where(assumed, gain, speedup) for gain in (1.0, widths / reference_width))]
        return np.min(ends, axis=0), np.max(ends, axis=0)


class TableSpeedup(SpeedupCurve):
    """A speedup measured (or computed) at some widths and known at these only."""

    form: Literal["table"] = "table"
    gpus: Takes[WholeNumbers, ArrayLike]  #: The widths, strictly increasing, shape (widths,).
    #: Shape (widths,) for the same curve in each epoch, or (epochs, widths); from 1e-20 to 1e20, else as measured.
    speedup: Takes[Numbers, ArrayLike]
    #: Where the numbers come from: ``measured``, ``fitted``, ``card`` or ``assumed``, a word for each width or one for
    #: all; None where that is not said.
    provenance: Takes[tuple[str, ...] | None, Sequence[str] | str] = usual(None)
    #: How wrong they may be, from 0 to 1000: the true speedup lies between s / (1 + error) and s (1 + error) in 9 of 10
    #: cases. One number for all widths but the reference width, or one for each; None where that is not said.
    error: Takes[Numbers | None, ArrayLike] = usual(None)

    @field_validator("gpus")
    @classmethod
    def _check_gpus(cls, gpus: IntArray) -> IntArray:
        if gpus.ndim != 1 or not gpus.size:
            raise ValueError(f"got an array of shape {gpus.shape}; a list of at least one width is needed")
        if gpus[0] < 1:
            raise ValueError(f"entry [0]: got {gpus[0]}; widths of at least 1 GPU are allowed")
        falls = np.flatnonzero(np.diff(gpus) <= 0)
        if falls.size:
            at = falls[0] + 1
            message = f"entry [{at}]: got {gpus[at]} after {gpus[at - 1]}; list each width once, in increasing order"
            raise ValueError(message)
        return gpus

    @field_validator("speedup")
    @classmethod
    def _check_speedup(cls, speedup: FloatArray, info: ValidationInfo) -> FloatArray:
        if speedup.ndim not in (1, 2) or not speedup.size:
            message = f"got an array of shape {speedup.shape}; a list, or a list of one row per epoch, is needed"
            raise ValueError(message)
        gpus = info.data.get("gpus")
        if gpus is not None and speedup.shape[-1] != gpus.size:
            message = f"{speedup.shape[-1]} values a row for {gpus.size} widths; give one value per width in gpus"
            raise ValueError(message)
        require_amounts(speedup)
        return speedup

    @field_validator("provenance", mode="before")
    @classmethod
    def _read_one_word(cls, provenance: object, info: ValidationInfo) -> object:
        gpus = info.data.get("gpus")
        return (provenance,) * gpus.size if isinstance(provenance, str) and gpus is not None else provenance

    @field_validator("provenance")
    @classmethod
    def _check_provenance(cls, provenance: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        gpus = info.data.get("gpus")
        if provenance is None or gpus is None:
            return provenance
        if len(provenance) != gpus.size:
            message = f"{len(provenance)} words for {gpus.size} widths; give one per width in gpus, or leave it out"
            raise ValueError(message)
        for index, word in enumerate(provenance):
            if len(word.split()) != 1:
                raise ValueError(f"entry [{index}]: got {word!r}; one word such as 'measured' is needed")
        return provenance

    @field_validator("error")
    @classmethod
    def _check_error(cls, error: FloatArray | None, info: ValidationInfo) -> FloatArray | None:
        gpus = info.data.get("gpus")
        if error is None or gpus is None:
            return error
        if error.shape not in ((), gpus.shape):
            message = f"got an array of shape {error.shape} for {gpus.size} widths; give a number, or one per width"
            raise ValueError(message)
        return _require_range(error, LARGEST_ERROR)

    @property
    def num_epochs(self) -> int | None:
        """Number of rows of a table by epoch; None when one row holds in each epoch."""
        return self.speedup.shape[0] if self.speedup.ndim == 2 else None

    def at(self, widths: IntArray) -> FloatArray:
        """Return the table's columns for the given widths; see :meth:`SpeedupCurve.at`.

        Raises
        ------
        DataError
            When a width is not in the table: nothing is interpolated or extended.
        """
        table = self.speedup if self.speedup.ndim == 2 else self.speedup[None]
        if widths is self.gpus:
            return table
        wanted = np.asarray(widths)
        columns = np.minimum(self.gpus.searchsorted(wanted), self.gpus.size - 1)
        unknown = np.flatnonzero(self.gpus[columns] != wanted)
        if unknown.size:
            problem = f"{wanted[unknown[0]]} GPUs are not in the table of speedups, which has {list_widths(self.gpus)}"
            raise DataError("widths", problem, "measure the speedup at that width, or choose one of the table's")
        return table[:, columns]

    def known_widths(self) -> IntArray:
        """Return the table's widths."""
        return self.gpus

    def evidence_at(self, widths: IntArray | FloatArray) -> list[str]:
        """Return what the provenance says of each width; of one between two, what it says of the larger."""
        if self.provenance is None:
            return [NOT_SAID] * len(widths)
        kinds = {word: read_provenance(word) for word in set(self.provenance)}
        if len(kinds) == 1:
            return [*kinds.values()] * len(widths)
        columns = np.minimum(np.searchsorted(self.gpus, widths), self.gpus.size - 1)
        return [kinds[self.provenance[column]] for column in columns.tolist()]

    def error_factors(self, widths: IntArray, reference_width: int) -> FloatArray | None:
        """Return 1 + error; see :meth:`SpeedupCurve.error_factors`."""
        if self.error is None:
            return None
        if self.error.ndim:
            return np.asarray(1.0 + self.error[np.searchsorted(self.gpus, widths)])
        return np.where(widths == reference_width, 1.0, 1.0 + self.error)


def _require_range(numbers: FloatArray, largest: float) -> FloatArray:
    """Refuse what is not from zero to the largest number."""
    wrong = ~((numbers >= 0) & (numbers <= largest))
    return refuse_entries(numbers, wrong, f"numbers from 0 to {largest:g} are allowed")


def _check_shares(shares: FloatArray) -> FloatArray:
    """Refuse what is not one number, or one per epoch, between zero and one."""
    if shares.ndim > 1 or not shares.size:
        message = f"got an array of shape {shares.shape}; a number, or a list of one number per epoch, is needed"
        raise ValueError(message)
    return _require_range(shares, 1.0)


_Shares = Annotated[Numbers, AfterValidator(_check_shares)]

#: How wrong a law may be, from 0 to 1 for each doubling of the width from the reference width: the true speedup lies
#: within a factor of (1 + error) ** |doublings| in 9 of 10 cases. 1 is from none of the gain to all of it.
DoublingError = Annotated[float, Field(ge=0, le=1), NUMBER]


class Law(SpeedupCurve):
    """What curves that a formula gives have in common: they know every width, and say where they come from."""

    LATER: ClassVar[frozenset[str]] = frozenset({"evidence", "error"})

    if TYPE_CHECKING:  # fields of each, the last ones
        evidence: Evidence | None
        error: DoublingError | None

    def known_widths(self) -> IntArray | None:
        """Return None: no table limits the widths."""
        return None

    def evidence_at(self, widths: IntArray | FloatArray) -> list[str]:
        """Return where the formula comes from, for each width."""
        return [name_law_evidence(self.evidence)] * len(widths)

    def error_factors(self, widths: IntArray, reference_width: int) -> FloatArray | None:
        """Return (1 + error) to the number of doublings; see :meth:`SpeedupCurve.error_factors`."""
        return None if self.error is None else (1.0 + self.error) ** np.abs(np.log2(widths / reference_width))


class AmdahlSpeedup(Law):
    """Amdahl's law: s(k) = 1 / (f + (1 - f) / k)."""

    form: Literal["amdahl"] = "amdahl"
    #: The share f of the work that does not speed up, from 0 (s(k) = k) to 1 (s(k) = 1); one number, or one per epoch.
    serial_fraction: Takes[_Shares, ArrayLike]
    #: Where it comes from; None where that is not said.
    evidence: Takes[Evidence | None, str] = usual(None)
    error: DoublingError | None = None  #: For each doubling of the width from the reference width; None: not said.

    @property
    def num_epochs(self) -> int | None:
        """Number of fractions when there is one per epoch; None when one holds in each."""
        return _count_epochs(self.serial_fraction)

    def at(self, widths: IntArray | FloatArray) -> FloatArray:
        """Return the speedup; see :meth:`SpeedupCurve.at`. Real-valued widths are allowed too."""
        k = require_widths(widths)
        # k / (1 + f (k - 1)) is the same law, and exact for f = 0, for f = 1 and at k = 1.
        return k / (1.0 + np.atleast_1d(self.serial_fraction)[:, None] * (k - 1.0))


class PowerSpeedup(Law):
    """A power law: s(k) = k ** a."""

    form: Literal["power"] = "power"
    #: The exponent a, from 0 (s(k) = 1) to 1 (s(k) = k); one number, or one per epoch.
    exponent: Takes[_Shares, ArrayLike]
    #: Where it comes from; None where that is not said.
    evidence: Takes[Evidence | None, str] = usual(None)
    error: DoublingError | None = None  #: For each doubling of the width from the reference width; None: not said.

    @property
    def num_epochs(self) -> int | None:
        """Number of exponents when there is one per epoch; None when one holds in each."""
        return _count_epochs(self.exponent)

    def at(self, widths: IntArray | FloatArray) -> FloatArray:
        """Return the speedup; see :meth:`SpeedupCurve.at`. Real-valued widths are allowed too."""
        k = require_widths(widths)
        return np.power(k, np.atleast_1d(self.exponent)[:, None])


def _count_epochs(parameter: FloatArray) -> int | None:
    return parameter.size if parameter.ndim else None


def require_widths(widths: IntArray | FloatArray, *, whole: bool = False) -> FloatArray:
    """Return widths as floats; a DataError names the first below one GPU, or that is not ``whole``."""
    k = np.asarray(widths, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(k) & (k >= 1.0) & ((k == np.round(k)) | (not whole))))
    if wrong.size:
        needed = "whole numbers" if whole else "widths"
        problem = f"entry [{wrong[0]}]: got {k[wrong[0]]:g}; {needed} of at least 1 GPU are allowed"
        raise DataError("widths", problem, f"choose {'whole ' if whole else ''}widths of at least one GPU")
    return k


def list_widths(gpus: IntArray) -> str:
    """Write widths for a message, as ``1, 2, 4 GPUs``; of a long list the beginning, the last and the number."""
    if gpus.size <= _LISTED_WIDTHS:
        return ", ".join(str(width) for width in gpus) + " GPUs"
    head = ", ".join(str(width) for width in gpus[: _LISTED_WIDTHS // 2])
    return f"{head}, ..., {gpus[-1]} GPUs ({gpus.size} widths)"
