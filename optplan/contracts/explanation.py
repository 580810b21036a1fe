"""Why a solution is what it is, choice by choice, and what becomes of it when the estimates behind it are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from optplan.contracts.instance import Solution
from optplan.contracts.ranges import Measurement
from optplan.progress import Listener
from optplan.schema import ByName, FrozenModel, Numbers


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


@dataclass(frozen=True)
class SensitivityRequest:
    """What an analysis of wrong estimates is asked besides the problem, its solution and the errors."""

    samples: int = 1000  #: Truths that are drawn.
    robust_samples: int = 0  #: Others, from which a plan is made that is best on average.
    compare: bool = True  #: Whether what a planner who knew each truth could do is found.
    seed: int = 0  #: The same samples, for any number of processes.
    gap: float = 1e-6
    processes: int = 1
    on_event: Listener | None = None


class SampledPlan(FrozenModel):
    """One plan, run under every sample of the truth; a formulation's own has its type of solution."""

    #: ``planned`` for the solution asked about, ``robust`` for the one that is best on average over other samples.
    name: str
    #: expected_objective, expected_consumption: What the estimates promise; the consumption by limit.
    expected_objective: float
    expected_consumption: ByName[float]
    objective: Numbers  #: (S,) In the samples.
    consumption: ByName[Numbers]  #: By limit, (S,) what the plan uses in the samples.
    cost_usd_per_hour: Numbers | None = None  #: (S,) What that costs; None where a price is missing.
    #: (S,) Proven: nobody who knew the truth could do better with what this plan uses; None where it was not asked.
    best_objective: Numbers | None = None
    solution: SerializeAsAny[Solution]  #: The decisions.
    #: Of the robust plan: no plan that keeps the limits on average has a lower mean objective over the samples that it
    #: was made from; else None.
    bound: float | None = None


class Sensitivity(FrozenModel):
    """How sensitive a plan is to errors of the estimates; a formulation's own has its type of plans."""

    version: Literal[1] = 1  #: Version of this record's schema.
    #: formulation, instance_name, instance_hash: Whose plan it is.
    formulation: str
    instance_name: str
    instance_hash: str
    objective_unit: str  #: Unit of all objectives.
    #: limits, limit_units: Amounts and units of the limits, by name.
    limits: ByName[float]
    limit_units: ByName[str]
    errors: ByName[float]  #: By name, the relative standard deviations that were sampled.
    #: By class, then by name, where those of a class were others.
    errors_by_class: ByName[ByName[float]] = Field(default_factory=dict)
    #: samples, robust_samples, seed: How many, and from which seed; the robust plan is made from other samples than it
    #: is judged by.
    samples: Annotated[int, Field(ge=1)]
    robust_samples: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0)]
    plans: tuple[SampledPlan, ...]  #: The plan asked about, then the robust one if there is one.
    seconds: float = 0.0  #: Wall time.
