"""What the independent judge says: evaluations, checks and verifications. Nothing here knows a solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import ClassVar, ParamSpec, TypeVar

import numpy as np
from pydantic import Field

from optplan.contracts.faces import Shown
from optplan.contracts.proofs import concerns_status
from optplan.contracts.result import Status
from optplan.errors import VerificationError
from optplan.schema import ByName, FloatArray, FrozenModel, IntArray

#: Relative tolerance of every comparison of the judge, here and in the formulations; a plan exactly at a limit keeps
#: it. The solvers' side says its own in ``optplan.solvers.limits``.
JUDGE_TOLERANCE = 1e-9
#: What sums of the same numbers in another order may differ by, relatively, for the judge.
JUDGE_ROUNDING = 1e-12

P = ParamSpec("P")
R = TypeVar("R")


def keep_latest(function: Callable[P, R]) -> Callable[P, R]:
    """Keep what a function returned last, for a call with the very same objects: a check asks for much again."""
    # Objects must not change, and what is returned is not to be changed; keyword arguments are always computed anew.
    kept: list[tuple[tuple[object, ...], R]] = []

    @wraps(function)
    def remember(*args: P.args, **kwargs: P.kwargs) -> R:
        for known, found in kept:
            if not kwargs and [*map(id, known)] == [*map(id, args)]:
                return found
        found = function(*args, **kwargs)
        if not kwargs:
            kept[:] = [(args, found)]
        return found

    return remember


class RefutedError(Exception):
    """A certificate does not prove what it claims; the message says why. The judge's own, never a user's."""


class UnlistedError(RefutedError):
    """A certificate leaves more to list than the judge lists; one of another kind may prove the same."""


class Check(FrozenModel):
    """One thing that was checked."""

    #: Name of the constraint family or of the claim (``budget``, ``allowed-width``, ``objective``, ``bound``).
    family: str
    index: str = ""  #: Which member of the family, as in ``bert[2]``; empty when there is only one.
    #: left, right, tolerance: The claim is ``left <= right`` within the tolerance (absolute, derived from a relative
    #: one), or equality where the message says so.
    left: float
    right: float
    tolerance: float
    holds: bool  #: Whether it does.
    message: str  #: One sentence for the user.

    @classmethod
    def exactly(cls, family: str, message: str, *, holds: bool, sides: tuple[float, float], index: str = "") -> Check:
        """Return a check of counts and choices, which are compared without a tolerance."""
        left, right = map(float, sides)
        return cls.of_sound(
            family=family, index=index, left=left, right=right, tolerance=0.0, holds=bool(holds), message=message
        )

    @classmethod
    def at_most(cls, family: str, used: float, amount: float, message: str) -> Check:
        """Return the check of a limit: what is exactly at it, up to the judge's tolerance, keeps it."""
        return cls(
            family=family,
            left=used,
            right=amount,
            tolerance=JUDGE_TOLERANCE * amount,
            holds=used <= amount * (1 + JUDGE_TOLERANCE),
            message=message,
        )


class Verification(Shown, FrozenModel):
    """The outcome of ``verify``."""

    checks: tuple[Check, ...]  #: Everything that was checked, failures first.
    #: What the result is, as the judge calls it: optimal where the gap is at most the one that was asked of the judge,
    #: whatever the result says; None where a check fails.
    status: Status | None = None
    gap: float | None = None  #: Of objective and bound, relative to the objective; None unless the result has both.
    #: What was changed in the instance that was given, to be the one that the result solves.
    changes: tuple[str, ...] = ()
    #: What the result claims of optimality, infeasibility or prices without a certificate, such as a general engine's
    #: bound, and what was not checked in the time given. Each begins with what it is about (:func:`concerns_status`).
    on_trust: tuple[str, ...] = ()
    never_checked: tuple[str, ...] = ()  #: What no verification looks at, such as the words of a sentence.
    #: Shares of the GPUs by where the speedups behind them come from, as the judge finds them: the verdict is about
    #: these speedups.
    evidence: ByName[float] = Field(default_factory=dict)
    seconds: float = 0.0  #: Wall time.
    #: Certificates among the failures that leave more to list than the judge lists: true or not, they prove nothing.
    unlisted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Say in one line what was found."""
        return f"<Verification: {self.status or 'refused'}, {len(self.failures)} of {len(self.checks)} checks fail>"

    @property
    def ok(self) -> bool:
        """Whether everything that the result claims was checked, and holds."""
        return self.nothing_wrong and not self.on_trust

    @property
    def nothing_wrong(self) -> bool:
        """Whether every check holds; claims may be left that nobody could check."""
        return all(check.holds for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.holds)

    @property
    def proven(self) -> bool:
        """Whether every check holds, and what the status claims was derived anew; prices may be left on trust."""
        return self.nothing_wrong and not any(map(concerns_status, self.on_trust))

    def require(self, *, given: bool = False) -> None:
        """Raise for the first check that fails.

        Parameters
        ----------
        given
            Whether the result was given, and not made here.

        Raises
        ------
        VerificationError
            Naming family, index, both sides and tolerance.
        """
        for check in self.failures:
            where = f"{check.family} {check.index}".strip()
            sides = f"left {check.left!r}, right {check.right!r}, tolerance {check.tolerance:.3g}"
            raise VerificationError(f"{where}: {check.message} ({sides})", given=given)


class Judged(FrozenModel):
    """A record of a wing that ``verify`` has judged there."""

    #: By what, of instance, record, jobs (or None) and the limit in seconds, as ``module:function``.
    JUDGED_BY: ClassVar[str]


@dataclass(frozen=True)
class Evaluation:
    """What decisions amount to, recomputed from the decisions and the instance alone; names of measures carry units."""

    objective: float  #: NaN when the decisions are too broken to evaluate.
    consumption: dict[str, float]  #: By limit, in the limit's unit.
    measures: dict[str, float]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class PathCosts:
    """What every step of a path through one layered graph costs, as the judge computes it."""

    # What it costs to enter one of K nodes may depend on the group, of F, of the node that the path leaves; where it
    # does not, there is one group. Every path enters its first node, and does so as from that node's own group.

    name: str
    labels: tuple[str, ...]  #: (K,) Such as widths.
    group: IntArray  #: (K,) From 0 to F - 1.
    limits: tuple[str, ...]  #: (L,) On the consumptions.
    run_value: FloatArray  #: (E, K) Being at a node of a layer.
    run_consumption: FloatArray  #: (L, E, K)
    enter_value: FloatArray  #: (F, E, K) Added when the path comes to the node from another one, of group f.
    enter_consumption: FloatArray  #: (L, F, E, K)

    @property
    def num_groups(self) -> int:
        """How many groups matter to what entering a node costs."""
        return len(self.enter_value)

    def turned(self, limit: str) -> PathCosts:
        """Return the costs with the consumption of a limit as the value, and of the others as it was."""
        place = self.limits.index(limit)
        others = [number for number in range(len(self.limits)) if number != place]
        return replace(
            self,
            limits=tuple(self.limits[number] for number in others),
            run_value=self.run_consumption[place],
            run_consumption=self.run_consumption[others],
            enter_value=self.enter_consumption[place],
            enter_consumption=self.enter_consumption[others],
        )

    def weighted(self, weights: FloatArray, *, value: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return what running (E, K) and entering (F, E, K) cost, the consumptions under weights (L,); not to write."""
        # What is the same in all layers, without copies, stays so.
        same = self.enter_value.strides[1] == self.enter_consumption.strides[2] == 0
        layers = slice(0, 1) if same else slice(None)
        run, enter = value * self.run_value, value * self.enter_value[:, layers]
        for weight, used, used_entering in zip(weights, self.run_consumption, self.enter_consumption, strict=True):
            run += weight * used
            enter += weight * used_entering[:, layers]
        return run, enter if enter.shape[1] == len(run) else np.broadcast_to(enter, self.enter_value.shape)


def repeat_layers(costs: FloatArray, layers: int) -> FloatArray:
    """Return (..., E, K) of costs (..., K) that are the same in each layer, without copies of them; not to write."""
    costs = np.ascontiguousarray(costs)
    shape, strides = (*costs.shape[:-1], layers, costs.shape[-1]), (*costs.strides[:-1], 0, costs.strides[-1])
    return np.ndarray(shape, costs.dtype, costs, 0, strides)  # what np.broadcast_to does, in a fifth of the time
