"""What limits are worth, why they allow no plan, and the least change of them that would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field, JsonValue

from optplan.contracts.proofs import TreeCertificate
from optplan.schema import ByName, FrozenModel


class ShadowPrice(FrozenModel):
    """What one more unit of a limit is worth, of the convexified problem, one-sided."""

    #: Objective lost per unit when the limit shrinks a little; None when nothing less is feasible.
    less: float | None = None
    more: float  #: Objective gained per unit when the limit grows a little; at most ``less``.
    unit: str  #: The unit of both, such as ``s of mean JCT per GPU``.
    #: less_multipliers, more_multipliers: With several limits: the multipliers of all of them at either end, this one's
    #: included; empty with one. Where ``less`` is None its multipliers are, with 1 for this limit, the proof that no
    #: plan needs less of it, as those of :class:`Relaxation`.
    less_multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    more_multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)


class Relaxation(FrozenModel):
    """How far one limit of an infeasible instance has to change, all others kept, and what is known to be enough."""

    limit: str  #: Name of the limit.
    given: float  #: Its value in the instance.
    least_feasible: float  #: The nearest value that may do: no less of a change has a solution.
    #: A value that has one: the same, or beyond it where the search ended early. None where none is known.
    enough: float | None = None
    #: Decisions that keep all limits with ``enough``, as a solution of the instance is written; needed where that is
    #: not ``least_feasible``.
    solution: ByName[JsonValue] = Field(default_factory=dict)
    unit: str  #: The unit of all three.
    #: What ``least_feasible`` is made of (for instance per job class), in the same unit.
    parts: ByName[float] = Field(default_factory=dict)
    #: By limit, with 1 for this one: no plan has less of the weighted consumptions than ``least_feasible`` and the
    #: other limits, so weighted, add up to.
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    #: Where multipliers prove nothing: a division that proves it, with this limit dropped.
    certificate: TreeCertificate | None = None

    def describe(self, write: Callable[[float], str]) -> str:
        """Say which amount is the nearest that does, as far as that is known; ``write`` writes an amount."""
        least = write(self.least_feasible)
        if self.enough is None:
            return f"at {'most' if self.least_feasible < self.given else 'least'} {least}"
        enough = write(self.enough)
        return least if least == enough else f"{least} to {enough}"


class Hopeless(FrozenModel):
    """A limit that cannot mend an infeasible instance, whatever its value: the others allow no plan without it."""

    # Proven by multipliers with 0 for this limit, as those of :class:`Infeasibility`, or by a certificate with it
    # dropped.

    limit: str
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    certificate: TreeCertificate | None = None


class Infeasibility(FrozenModel):
    """Why no solution exists, in the user's units, and what would help."""

    reason: str  #: One sentence.
    relaxations: tuple[Relaxation, ...]  #: For each limit that may mend it alone, how far it has to change.
    hopeless: tuple[Hopeless, ...] = ()  #: The limits that cannot mend it alone, with the proof.
    #: By limit: the least of the consumptions weighted by these exceeds the limits weighted by them, which no plan can
    #: do that keeps them.
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    #: By how much all limits together would have to be multiplied, proven by the same multipliers.
    factor: Annotated[float, Field(ge=1)] = 1.0
    #: Where multipliers prove nothing: a division of all choices into parts of which none keeps the limits.
    certificate: TreeCertificate | None = None
