"""What bounds rest on, the certificates from which ``verify`` derives them again, and how these pack long lists.

What limits are worth, why they allow no plan, and the least change of them that would.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, JsonValue

from optplan.schema import ByName, FrozenModel, IntArray

#: How many certificates a result may carry: each of them is checked.
MOST_CERTIFICATES = 100
_BYTES = 8


class BoundProof(StrEnum):
    """What the bound rests on, and so what ``verify`` can re-derive."""

    LAGRANGIAN = "lagrangian"  #: A multiplier: one shortest-path pass re-derives the bound.
    #: A multiplier and an allowance: enumerating all paths within it anew re-derives the optimum.
    ENUMERATED = "enumerated"
    TREE = "tree"  #: A division of all choices into parts: the judge bounds each part by code of its own.
    ENGINE = "engine"  #: A general engine says so.
    #: Every candidate was looked at, or excluded by a bound of its own; nothing short of searching again checks that.
    SEARCHED = "searched"
    NONE = "none"  #: There is no bound.


#: The kinds of proof that stand in a certificate, which ``verify`` checks; the others are taken on trust.
CERTIFIED = frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED, BoundProof.TREE})


def concerns_status(claim: str) -> bool:
    """Whether what is taken on trust is the bound, or that there is no plan, and no price or remedy beside it."""
    return claim.startswith(("bound: ", "infeasibility: it "))


class LagrangianCertificate(FrozenModel):
    """Proof by weak duality: for these multipliers no plan within the limits can be better than ``bound``."""

    form: Literal["lagrangian"] = "lagrangian"
    #: By the name of the limit, in objective units per unit of the limit; never negative.
    multipliers: ByName[Annotated[float, Field(ge=0)]]
    bound: float  #: The value of the dual function, in objective units.


class EnumeratedCertificate(FrozenModel):
    """Proof by enumeration: all plans whose reduced cost is within ``allowance`` of the dual bound were looked at."""

    form: Literal["enumerated"] = "enumerated"
    multipliers: ByName[Annotated[float, Field(ge=0)]]  #: As in :class:`LagrangianCertificate`.
    allowance: Annotated[float, Field(ge=0)]  #: How far above the dual bound the enumeration went, in objective units.
    #: The least objective among those plans that keep the limits; None when none of them keeps the limits.
    optimum: float | None = None
    bound: float  #: What follows: the lesser of ``optimum`` and dual bound + allowance, in objective units.
    #: Graphs (classes) whose paths are to be listed first, in this order, and more multipliers: each sum of such paths
    #: leaves few paths of the other graphs at one of them.
    divided: tuple[str, ...] = ()
    further: Annotated[tuple[ByName[Annotated[float, Field(ge=0)]], ...], Field(max_length=1000)] = ()


class TreeCertificate(FrozenModel):
    """Proof by division: parts that together cover all choices, each with what its own bound rests on.

    The formulation's judge knows the rule, builds the parts itself and derives every bound anew: what stands here can
    only spare it the search.
    """

    form: Literal["tree"] = "tree"
    rule: str  #: How ``content`` is read, such as ``srift-fleets``; each formulation declares its own.
    #: What is claimed: no plan that keeps the limits has a better objective. None: no plan keeps them.
    bound: float | None = None
    #: Empty where the claim is about the objective. Else a limit that is dropped and made as small as can be instead:
    #: then ``bound`` is the least value of it with which a plan keeps the others, in its unit in ``instance.limits``.
    limit: str = ""
    #: By the rule: nothing but numbers, text, lists and mappings.
    content: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def multipliers(self) -> dict[str, float]:
        """None: what its parts weigh stands in its content."""
        return {}


Certificate = Annotated[LagrangianCertificate | EnumeratedCertificate | TreeCertificate, Field(discriminator="form")]


def pack_integers(numbers: IntArray) -> str:
    """Return (N,) whole numbers of up to 63 bits as text; sorted ones take least."""
    steps = np.diff(numbers, prepend=0).astype("<i8")
    # Bytes of the same weight lie together: those of small differences are mostly zeros.
    return b64encode(zlib.compress(steps.view(np.uint8).reshape(-1, _BYTES).T.tobytes(), 9)).decode("ascii")


def unpack_integers(packed: object, most: int) -> IntArray:
    """Return the numbers of a packed list; a ValueError says what is none, or one of more than ``most``."""
    if not isinstance(packed, str):
        raise ValueError("text is needed for a packed list")
    engine = zlib.decompressobj()
    try:
        raw = engine.decompress(b64decode(packed, validate=True), most * _BYTES + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"a packed list cannot be read: {error}") from None
    if len(raw) > most * _BYTES:
        raise ValueError(f"a packed list has more than {most:,} numbers")
    if len(raw) % _BYTES or not engine.eof or engine.unused_data:
        raise ValueError("a packed list is cut off, or goes on after its end")
    steps = np.frombuffer(raw, dtype=np.uint8).reshape(_BYTES, -1).T.copy().view("<i8").ravel()
    return np.cumsum(steps, dtype=np.int64)


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

    def describe(self, write: Callable[[float], str] | None = None) -> str:
        """Say which amount is the nearest that does, as far as that is known; ``write`` writes it in another way."""
        write = write or (lambda amount: f"{amount:,.7g} {self.unit}")
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
