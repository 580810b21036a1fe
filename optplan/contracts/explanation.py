"""Why a solution is what it is: for each choice, what others would do, alone and with everything else re-solved."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from optplan.contracts.ranges import Measurement
from optplan.schema import ByName, FrozenModel


class Direction(StrEnum):
    """How an alternative differs from what was chosen."""

    NARROWER = "narrower"
    WIDER = "wider"
    OTHER_TYPE = "other-type"  #: On another GPU type, at whatever width is best there.
    ONE_WIDTH = "one-width"  #: One width for the whole job.


class Alternative(FrozenModel):
    """Another choice in one place, and what it would do."""

    direction: Direction  #: How it differs from the choice made.
    label: str  #: What it is, such as ``8 t4``.
    #: Of the objective, in its unit, when this one place changes and everything else stays; None where the alternative
    #: is not one choice but the best of several.
    objective_change: float | None = None
    budget_change: float | None = None  #: Of what is used of the budget then, in ``budget_unit`` of the explanation.
    #: forced_objective, forced_bound: The best objective, and its bound, when this place is forced (for every branch of
    #: the subject) and all others are decided anew within the same limits. Both None where no plan keeps the limits
    #: then; the objective alone is None where no plan was found in time.
    forced_objective: float | None = None
    forced_bound: float | None = None
    #: ``forced_objective`` less ``best_objective`` of the explanation; differences within the gap asked for count as
    #: zero. Where both are proven optima, that is what forcing costs; otherwise forcing costs from ``forced_bound``
    #: less ``best_objective`` to ``forced_objective`` less ``best_bound``.
    forced_cost: float | None = None

    @property
    def exchange_rate(self) -> float | None:
        """Objective saved per unit of budget spent, or lost per unit saved; None where both get better, or worse."""
        if not self.objective_change or not self.budget_change:
            return None
        rate = -self.objective_change / self.budget_change
        return rate if rate > 0 else None


class ExplainedChoice(FrozenModel):
    """One choice of a solution: what a subject holds from one epoch to another."""

    subject: str  #: Whose choice, such as a job class.
    #: branch, share: Which of the subject's branches, and the fraction that follows it.
    branch: Annotated[int, Field(ge=1)] = 1
    share: float = 1.0
    #: first, last: Epochs, counted from 1.
    first: Annotated[int, Field(ge=1)]
    last: Annotated[int, Field(ge=1)]
    label: str  #: What was chosen.
    alternatives: tuple[Alternative, ...]  #: In a fixed order: narrower, wider, other types, one width.


class Explanation(FrozenModel):
    """Why the widths of a result are what they are."""

    version: Literal[1] = 1  #: Version of this record's schema.
    #: formulation, instance_name, instance_hash, solver: What is explained.
    formulation: str
    instance_name: str
    instance_hash: str
    solver: str
    #: objective, objective_unit: Of the result.
    objective: float
    objective_unit: str
    #: best_objective, best_bound: The least objective known of any plan within the limits, and its bound: the result's
    #: own where it is optimal. What forced choices are compared with.
    best_objective: float | None = None
    best_bound: float | None = None
    budget_unit: str  #: Unit of the changes of the budget.
    #: By limit, what one more unit of it saves, from the result's certificate: the rate that every choice
    #: is compared with. Empty where the result has none, as that of a heuristic.
    multipliers: ByName[float]
    choices: tuple[ExplainedChoice, ...]  #: In the order of subjects, branches and epochs.
    #: What can be measured, by what that can be worth; see :class:`~optplan.contracts.ranges.AnswerRange`.
    measurements: tuple[Measurement, ...] = ()
    seconds: float = 0.0  #: Wall time, all re-solves included.
