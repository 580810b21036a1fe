"""What the independent judge says: evaluations, checks and verifications. Nothing here knows a solver."""

from __future__ import annotations

from dataclasses import dataclass

from optplan.errors import VerificationError
from optplan.schema import FloatArray, FrozenModel, IntArray


class Check(FrozenModel):
    """One thing that was checked.

    Parameters
    ----------
    family
        Name of the constraint family or of the claim (``budget``, ``allowed-width``, ``objective``, ``bound``).
    index
        Which member of the family, as in ``bert[2]``; empty when there is only one.
    left, right, tolerance
        The claim is ``left <= right`` within the tolerance (absolute, derived from a relative one), or equality where
        the message says so.
    holds
        Whether it does.
    message
        One sentence for the user.
    """

    family: str
    index: str = ""
    left: float
    right: float
    tolerance: float
    holds: bool
    message: str


class Verification(FrozenModel):
    """The outcome of ``verify``.

    Parameters
    ----------
    checks
        Everything that was checked, failures first.
    unproven
        What the result claims and nobody can check cheaply, such as a general engine's bound.
    seconds
        Wall time.
    """

    checks: tuple[Check, ...]
    unproven: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.holds)

    def require(self) -> None:
        """Raise for the first check that fails.

        Raises
        ------
        VerificationError
            Naming family, index, both sides and tolerance.
        """
        for check in self.failures:
            where = f"{check.family} {check.index}".strip()
            sides = f"left {check.left!r}, right {check.right!r}, tolerance {check.tolerance:.3g}"
            message = f"{where}: {check.message} ({sides})"
            raise VerificationError(message)


@dataclass(frozen=True)
class Evaluation:
    """What decisions amount to, recomputed from the decisions and the instance alone.

    Parameters
    ----------
    objective
        In the formulation's objective unit; NaN when the decisions are too broken to evaluate.
    consumption
        By limit, in the limit's unit.
    measures
        Everything else worth knowing; names carry units.
    checks
        One or more for each constraint family.
    """

    objective: float
    consumption: dict[str, float]
    measures: dict[str, float]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class PathCosts:
    """What every step of a path through one layered graph costs, as the judge computes it.

    Parameters
    ----------
    name
        Whose graph it is.
    nodes
        (K,) The meaning of the nodes, such as widths.
    run_value, run_consumption
        (E, K) Being at a node of a layer.
    enter_value, enter_consumption
        (E, K) Added when the path comes to the node from another one, and always in the first layer.
    """

    name: str
    nodes: IntArray
    run_value: FloatArray
    run_consumption: FloatArray
    enter_value: FloatArray
    enter_consumption: FloatArray
