"""What the judge finds while it looks at one result, and what all its parts ask of the formulation."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from optplan.contracts import (
    BoundProof,
    Check,
    Evaluation,
    Instance,
    Result,
    Sense,
    Solution,
    TreeCertificate,
    Verification,
)
from optplan.contracts.judgement import JUDGE_ROUNDING, JUDGE_TOLERANCE, RefutedError, UnlistedError
from optplan.contracts.registry import Formulation
from optplan.errors import UsageError, shorten
from optplan.progress import OutOfTime, Stopwatch

#: Relative tolerance of every comparison of the judge; scales are stated where they are used.
TOLERANCE = JUDGE_TOLERANCE
#: Where within the tolerance of a limit ends, the rounding of sums in another order may decide: what lies this close to
#: that line, relatively, may be taken for either side of it.
ROUNDING = JUDGE_ROUNDING


#: Checks that fail one by one; what fails beyond them is counted.
_MOST_FAILURES = 1_000
#: What ends a check without a verdict.
UNCHECKED = (OutOfTime, MemoryError)


@dataclass
class Checks:
    """What was checked, what is on trust and what is never checked, as in a Verification."""

    checks: list[Check] = field(default_factory=list, kw_only=True)
    on_trust: list[str] = field(default_factory=list, kw_only=True)
    never_checked: list[str] = field(default_factory=list, kw_only=True)
    _failures: int = field(default=0, kw_only=True)
    _start: float = field(default_factory=time.perf_counter, kw_only=True)

    def compare(
        self, family: str, index: str, claimed: float, recomputed: float, tolerance: float, message: str
    ) -> None:
        """Check that two figures are the same."""
        holds = bool(abs(claimed - recomputed) <= tolerance)
        self._add(family, index, (claimed, recomputed, tolerance), message, holds=holds)

    def at_most(self, family: str, index: str, left: float, right: float, tolerance: float, message: str) -> None:
        """Check that one figure is no larger than another."""
        self._add(family, index, (left, right, tolerance), message, holds=bool(left <= right + tolerance))

    def hold(self, family: str, index: str, message: str) -> None:
        """Note something that holds and has no figures."""
        self._add(family, index, (0.0, 0.0, 0.0), message, holds=True)

    def fail(self, family: str, index: str, message: str) -> None:
        """Note something that does not hold and has no figures."""
        self._add(family, index, (1.0, 0.0, 0.0), message, holds=False)

    def conclude(self, **more: Any) -> Verification:  # noqa: ANN401 - fields of the record
        """Say what was found so far."""
        further = self._failures - _MOST_FAILURES
        message = f"{further:,} further claims do not hold"
        rest = [Check.exactly("further", message, holds=False, sides=(further, 0))] if further > 0 else []
        return Verification(
            checks=tuple(sorted([*self.checks, *rest], key=lambda check: check.holds)),
            on_trust=tuple(self.on_trust),
            never_checked=tuple(self.never_checked),
            seconds=time.perf_counter() - self._start,
            **more,
        )

    def _add(self, family: str, index: str, sides: tuple[float, float, float], message: str, *, holds: bool) -> None:
        # A NaN or an infinity is not fit for JSON; the check has failed already, and says so by ``holds``.
        self._failures += not holds
        if not holds and self._failures > _MOST_FAILURES:
            return
        left, right, tolerance = [float(side) if math.isfinite(side) else 0.0 for side in sides]
        self.checks.append(
            Check.of_sound(
                family=family,
                index=index,
                left=left,
                right=right,
                tolerance=tolerance,
                holds=holds,
                message=message,
            )
        )


@dataclass
class Findings(Checks):
    """The checks of one result, and what is on trust, never checked and unlisted, as in a Verification."""

    formulation: Formulation
    instance: Instance
    result: Result[Solution]
    stopwatch: Stopwatch
    unlisted: list[str] = field(default_factory=list)
    evaluation: Evaluation | None = None  #: Of the decisions, if they can be evaluated.
    evidence: dict[str, float] = field(default_factory=dict)
    end: str = ""  #: What was too short for the last thing that was not checked.
    _duals: dict[tuple[float, ...], float] = field(default_factory=dict)

    @cached_property
    def limits(self) -> dict[str, float]:
        """The instance's limits by name."""
        return self.instance.limits

    @property
    def minimises(self) -> bool:
        """Whether less of the objective is better."""
        return self.instance.sense is Sense.MINIMISE

    @cached_property
    def accepted(self) -> frozenset[BoundProof]:
        """The kinds of certificate that prove anything about this instance."""
        return self.formulation.proofs(self.instance)

    def dual(self, multipliers: dict[str, float]) -> float:
        """Return the formulation's dual bound at multipliers of all limits, in objective units."""
        key = tuple(multipliers[limit] for limit in self.limits)
        if key not in self._duals:
            self.stopwatch.require()
            self._duals[key] = float(self.formulation.dual_bound(self.instance, multipliers, self.stopwatch))
        return self._duals[key]

    def scale(self, multipliers: dict[str, float], value: float) -> float:
        """Return what rounding errors are relative to: |value| + mu * |consumption| + mu * limit."""
        priced = sum(multipliers[limit] * amount for limit, amount in self.limits.items())
        if self.evaluation is None:
            return value + 2.0 * priced
        consumed = sum(multipliers[limit] * self.evaluation.consumption[limit] for limit in self.limits)
        return max(value, abs(self.evaluation.objective)) + consumed + priced

    def names_all_limits(self, family: str, index: str, multipliers: dict[str, float]) -> bool:
        """Check that multipliers name exactly the limits."""
        if set(multipliers) == set(self.limits):
            return True
        named = shorten(", ".join(multipliers)) or "none"
        wanted = ", ".join(repr(limit) for limit in self.limits)
        self.fail(family, index, f"multipliers must name exactly {wanted}, not {named}")
        return False

    def check_tree(self, certificate: TreeCertificate, family: str, index: str) -> bool:
        """Have the formulation's judge look at a division; True when it proves what it claims."""
        if BoundProof.TREE not in self.accepted:
            self.fail(family, index, "a tree proves nothing about this problem")
            return False
        try:
            self.formulation.check_tree(self.instance, certificate, self.stopwatch)
        except RefutedError as error:
            self.fail(family, index, f"the certificate does not prove what it claims: {error}")
            self.unlisted += [f"{family} {index}"] if isinstance(error, UnlistedError) else []
            return False
        except UNCHECKED as error:
            self.leave(f"{family} {index}:", error)
            return False
        self.hold(family, index, "the parts cover all choices, and each keeps to the bound or the limits")
        return True

    def leave(self, what: str, error: BaseException) -> None:
        """Note what was not checked, for want of time or memory: it is taken on trust."""
        in_time = f"{self.stopwatch.limit_s:g} s of processor time"
        self.end = "the memory there is" if isinstance(error, MemoryError) else in_time
        self.on_trust.append(f"{what} not checked within {self.end}")

    def no_better(self, family: str, index: str, claimed: float, known: float, tolerance: float, message: str) -> None:
        """Check that a bound does not claim more than is known: no higher where less is better, else no lower."""
        ends = (claimed, known) if self.minimises else (known, claimed)
        self.at_most(family, index, *ends, tolerance, message)


def require_made_for(instance: Instance, made: Any, what: str) -> None:  # noqa: ANN401 - whatever has a hash
    """Raise a UsageError unless something was made for an instance."""
    if made.instance_hash != instance.content_hash():
        known, own = made.instance_hash[:12], instance.content_hash()[:12]
        message = f"the {what} was made for {made.instance_name!r} with hash {known}, this one has {own}"
        raise UsageError(f"{message}; give the instance it was made for")
